"""contracts.backend.Backend on MLX. Made, used and closed on the device thread only."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

from slipstream.backends.mlx.attention import folded, kernel
from slipstream.backends.mlx.budget import share_out
from slipstream.backends.mlx.check import Verdict, find_level
from slipstream.backends.mlx.costs import measure
from slipstream.backends.mlx.device import Device
from slipstream.backends.mlx.footprint import footprint
from slipstream.backends.mlx.group import Group, states
from slipstream.backends.mlx.load import weight_bytes
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.prefix.store import PrefixStore
from slipstream.backends.mlx.row import DeviceRow, forked
from slipstream.backends.mlx.segments import Costs, Packer
from slipstream.contracts.backend import Advance, Drawn, Memory, PrefixStats, Row
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Abilities, Lane, Reason
from slipstream.contracts.row import RowSpec


class MlxBackend:
    """Takes `model`, and shows it opened.

    Which level of sharing it uses is found by the self-check, and what packing costs by measuring,
    unless given."""

    def __init__(
        self,
        model: nn.Module,
        device: Device,
        vocab_size: int,
        *,
        limits: MemoryLimits = MemoryLimits(),  # noqa: B008 frozen
        chunk: int = 2048,
        level: int | None = None,
        costs: Costs | None = None,
    ) -> None:
        """`chunk`: most tokens of a row in one forward. Raises ModelError when nothing fits."""
        self._budget = share_out(device, weight_bytes(model), limits)
        self._chunk = chunk
        self._rows: dict[int, DeviceRow] = {}
        self.model = OpenModel(model, vocab_size, folded if device.is_cpu else kernel)
        self.verdict = self._opened(vocab_size, level)
        self._packer = Packer(self.model.packable, costs or measure(self.model))
        keeps = self._budget.prefix > 0
        self._group = Group(self.model, self._packer, can_wait=device.is_cpu, hands_over=keeps)
        self._footprint = footprint(self.model)
        self._prefix = PrefixStore(self.model, self._budget.prefix) if keeps else None

    def _opened(self, vocab_size: int, level: int | None) -> Verdict:
        if not self.model.mixers_found:
            return Verdict(0, ("no module that takes a cache was found in the layers",))
        if level is None:
            return find_level(self.model, vocab_size)
        self.model.set_level(level)
        return Verdict(level, ())

    @property
    def _obstacle(self) -> Reason | None:
        if not self.model.mixers_found:
            return Reason.MIXER_NOT_FOUND
        return None if self.verdict.level else Reason.SELF_CHECK_FAILED

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            obstacle=self._obstacle,
            context=self._footprint.longest(self._budget.kv),
            prefixes=self._prefix is not None,
            snapshots=self._prefix is not None and self._prefix.snapshots,
        )

    def project(self, spec: RowSpec) -> int:
        return self._footprint.at(spec.length_limit, self._chunk)

    def open(self, spec: RowSpec) -> Row:
        row = DeviceRow(spec, self.model.new_caches())
        self._rows[spec.key] = row
        if self._prefix is not None:
            # A prompt that wants its own tokens scored has to run through them all.
            if not spec.prompt.prompt_logprobs:
                self._prefix.begin(row)
            self._give_way()
        return row

    def keep(self, row: Row) -> None:
        if self._prefix is not None:
            self._prefix.keep(self._rows[row.spec.key])
            self._give_way()

    def _give_way(self) -> None:
        """The prefix cache makes room for what rows may come to hold."""
        assert self._prefix is not None
        promised = sum(self.project(row.spec) for row in self._rows.values())
        self._prefix.trim(self._budget.prefix_beside(promised))

    def fork(self, row: Row, spec: RowSpec) -> Row:
        source = self._rows[row.spec.key]
        assert source.pending and not source.drawn
        made = DeviceRow(spec, [forked(cache) for cache in source.caches])
        made.computed = made.cached = source.computed
        self._rows[spec.key] = made
        return made

    def launch(self, plan: Sequence[Advance]) -> None:
        alone = any(step.row.spec.lane is Lane.SOLO for step in plan)
        assert not alone or len(plan) == 1
        self._group.launch(plan, alone=alone)

    def collect(self, keep: int) -> Sequence[Drawn]:
        return self._group.collect(keep)

    def rewind(self, row: Row, drawn: Sequence[int]) -> None:
        mine = self._rows[row.spec.key]
        self._packer.forget(mine)
        if mine.spec.prompt.matcher is not None:
            mine.spec.prompt.matcher.rewind(drawn)
        mine.restart(drawn, self.model.new_caches())

    def release(self, row: Row) -> None:
        mine = self._rows.pop(row.spec.key, None)
        if mine is None:
            return
        if self._prefix is not None:
            self._prefix.take(mine)
            self._give_way()
        if mine.segment is not None:
            mine.segment.remove(mine)
        mine.released = True
        mine.caches = []
        mine.tail = None

    def park(self) -> None:
        mx.eval([states(row) for row in self._rows.values()])
        mx.eval([[s.keys, s.values] for s in self._packer.segments])

    def memory(self) -> Memory:
        rows = sum(self._footprint.at(row.computed) for row in self._rows.values())
        prefix = self._prefix.stats() if self._prefix is not None else PrefixStats()
        return Memory(
            weights=self._budget.weights,
            kv=rows + sum(segment.slack for segment in self._packer.segments),
            kv_budget=self._budget.kv,
            prefix_ram=prefix.bytes,
            active=mx.get_active_memory(),
            peak=mx.get_peak_memory(),
            budget=self._budget.total,
            prefix=prefix,
        )

    def close(self) -> None:
        for row in list(self._rows.values()):
            self.release(row)
        mx.clear_cache()

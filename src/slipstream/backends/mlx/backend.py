"""contracts.backend.Backend on MLX. Made, used and closed on the device thread only."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import mlx.nn as nn

from slipstream.backends.mlx.attention import folded, kernel
from slipstream.backends.mlx.check import Verdict, find_level
from slipstream.backends.mlx.costs import measure
from slipstream.backends.mlx.device import Device
from slipstream.backends.mlx.group import Group, states
from slipstream.backends.mlx.load import weight_bytes
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.row import DeviceRow, forked
from slipstream.backends.mlx.segments import Costs, Packer
from slipstream.contracts.backend import Advance, Drawn, Memory, Row
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
        level: int | None = None,
        costs: Costs | None = None,
    ) -> None:
        self._device = device
        self._weights = weight_bytes(model)
        self._rows: dict[int, DeviceRow] = {}
        self.model = OpenModel(model, vocab_size, folded if device.is_cpu else kernel)
        self.verdict = self._opened(vocab_size, level)
        self._packer = Packer(self.model.packable, costs or measure(self.model))
        self._group = Group(self.model, self._packer, can_wait=device.is_cpu)

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
        return Abilities(obstacle=self._obstacle)

    def open(self, spec: RowSpec) -> Row:
        row = DeviceRow(spec, self.model.new_caches())
        self._rows[spec.key] = row
        return row

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
        if mine.segment is not None:
            mine.segment.remove(mine)
        mine.released = True
        mine.caches = []
        mine.tail = None

    def park(self) -> None:
        mx.eval([states(row) for row in self._rows.values()])
        mx.eval([[s.keys, s.values] for s in self._packer.segments])

    def memory(self) -> Memory:
        return Memory(
            weights=self._weights,
            kv=sum(row.nbytes() for row in self._rows.values()),
            active=mx.get_active_memory(),
            peak=mx.get_peak_memory(),
            budget=int(self._device.memory * 0.75),
        )

    def close(self) -> None:
        for row in list(self._rows.values()):
            self.release(row)
        mx.clear_cache()

"""contracts.backend.Backend on MLX. Made, used and closed on the device thread only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import mlx.core as mx
import mlx.nn as nn

from slipstream.backends.mlx.adapters.rack import Rack
from slipstream.backends.mlx.budget import Budget, hold, share_out
from slipstream.backends.mlx.check import Verdict, find_level, recheck
from slipstream.backends.mlx.costs import measure
from slipstream.backends.mlx.device import Device
from slipstream.backends.mlx.embed import has_states
from slipstream.backends.mlx.even import FEWEST
from slipstream.backends.mlx.footprint import coded, footprint
from slipstream.backends.mlx.group import Group, states
from slipstream.backends.mlx.kv.plan import Codings
from slipstream.backends.mlx.load import weight_bytes
from slipstream.backends.mlx.opening import OpenModel
from slipstream.backends.mlx.prefix.disk.tier import DiskTier
from slipstream.backends.mlx.prefix.store import PrefixStore
from slipstream.backends.mlx.row import DeviceRow, forked
from slipstream.backends.mlx.segments import Costs, Packer
from slipstream.contracts.backend import Advance, Drawn, Memory, PrefixStats, Row
from slipstream.contracts.kv import KvScheme
from slipstream.contracts.limits import MemoryLimits
from slipstream.contracts.placement import Abilities, Lane, Reason
from slipstream.contracts.row import RowSpec

DISK_PATIENCE = 0.02  # seconds
FLUSH_SECONDS = 10.0  # at most, to make the prefix cache durable at the end


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
        disk: Callable[[], DiskTier] | None = None,
        kv_layers: Mapping[int, KvScheme] | None = None,
    ) -> None:
        """`chunk`: most tokens of a row in one forward. `disk` opens the second tier of the prefix
        cache, which is borrowed. `kv_layers`: see kv.plan.codings. Raises ModelError when nothing
        fits, or the KV scheme does not fit the model."""
        self._whole = share_out(device, weight_bytes(model), limits)
        hold(device, self._whole)
        self._chunk = chunk
        self._rows: dict[int, DeviceRow] = {}
        self.model = OpenModel(model, vocab_size, on_cpu=device.is_cpu)
        codes = coded(self.model, limits.kv_scheme, kv_layers)
        if codes is not None and device.is_cpu:
            # A number beside the edge of its code takes the other one for a difference of one bit.
            self.model.fewest = FEWEST
        self.verdict = self._opened(vocab_size, level, codes)
        self._footprint = footprint(self.model)
        self._has_states = has_states(self.model)
        self._packer = Packer(
            self.model.packable, costs or measure(self.model), self._footprint.widest
        )
        keeps = self._whole.prefix > 0
        self._group = Group(self.model, self._packer, can_wait=device.is_cpu, hands_over=keeps)
        tier = disk() if disk is not None and keeps else None
        self.adapters = Rack(self.model, self._room_for_adapters, self._group.forget_adapters)
        self._prefix = (
            PrefixStore(self.model, self._whole.prefix, tier, self.adapters.space)
            if keeps
            else None
        )

    def _opened(self, vocab_size: int, level: int | None, codes: Codings | None) -> Verdict:
        if not self.model.mixers_found:
            self.model.code(codes)
            return Verdict(0, ("no module that takes a cache was found in the layers",))
        if level is not None:
            self.model.set_level(level)
            self.model.code(codes)
            return Verdict(level, ())
        found = find_level(self.model, vocab_size)
        self.model.code(codes)
        return found if codes is None else recheck(self.model, vocab_size, found)

    @property
    def _obstacle(self) -> Reason | None:
        if not self.model.mixers_found:
            return Reason.MIXER_NOT_FOUND
        return None if self.verdict.level else Reason.SELF_CHECK_FAILED

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            obstacle=self._obstacle,
            adapters=self.adapters.names,
            context=self._footprint.longest(self._budget.kv, self._chunk),
            states=self._has_states,
            prefixes=self._prefix is not None,
            snapshots=self._prefix is not None and self._prefix.snapshots,
        )

    @property
    def _budget(self) -> Budget:
        return self._whole.with_adapters(self.adapters.nbytes)

    def _room_for_adapters(self) -> int:
        """Bytes that adapters may take together: within their own bound, beside rows that run."""
        return min(self._whole.adapters, self._whole.beside_rows(self._promised))

    def project(self, spec: RowSpec) -> int:
        return self._footprint.most(spec.length_limit, self._chunk)

    def open(self, spec: RowSpec) -> Row | None:
        reuse = self._prefix is not None and spec.prompt.shares
        if reuse and not self._fetched(spec):
            return None
        row = DeviceRow(spec, self.model.new_caches(), self.project(spec))
        self.adapters.give(row)
        self._rows[spec.key] = row
        if self._prefix is not None:
            if reuse:
                self._prefix.begin(row)
            self._give_way()
        return row

    def _fetched(self, spec: RowSpec) -> bool:
        """Whether the disk has nothing more of a prompt that would fit beside all rows."""
        assert self._prefix is not None
        room = self._budget.prefix_beside(self._promised + self.project(spec))
        # With rows to step, nobody waits for a disk; with none, a short sleep spares the processor.
        return self._prefix.fetch(spec, room, 0.0 if self._rows else DISK_PATIENCE)

    def keep(self, row: Row) -> None:
        if self._prefix is not None:
            self._prefix.keep(self._rows[row.spec.key])
            self._give_way()

    def _give_way(self) -> None:
        """The prefix cache makes room for what rows may come to hold."""
        assert self._prefix is not None
        self._prefix.trim(self._budget.prefix_beside(self._promised))

    @property
    def _promised(self) -> int:
        """Bytes of all rows at their full length."""
        return sum(row.promised for row in self._rows.values())

    def fork(self, row: Row, spec: RowSpec) -> Row:
        source = self._rows[row.spec.key]
        assert source.pending and not source.drawn
        made = DeviceRow(spec, [forked(c) for c in source.caches], self.project(spec))
        made.computed = made.cached = source.computed
        self.adapters.give(made)
        made.turned = source.turned
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
        if self._prefix is not None and mine.spec.prompt.pooling is None:
            self._prefix.take(mine)
            self._give_way()
        if mine.segment is not None:
            mine.segment.remove(mine)
        self.adapters.take(mine)
        mine.released = True
        mine.caches = []
        mine.tail = None

    def park(self) -> None:
        mx.eval([states(row) for row in self._rows.values()])
        mx.eval([[s.keys, s.values] for s in self._packer.segments])

    def memory(self) -> Memory:
        rows = sum(self._footprint.at(row.computed) for row in self._rows.values() if row.caches)
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
            segments=self._prefix.outline.look(busy=bool(self._rows)) if self._prefix else (),
        )

    def close(self) -> None:
        for row in list(self._rows.values()):
            self.release(row)
        if self._prefix is not None:
            self._prefix.flush(FLUSH_SECONDS)
        mx.clear_cache()

"""Sparse queries: each gives weights in [0, 1] to a few listed records, and its answer is Σ weight·count / n.

Weights are rounded to a grid of `WEIGHT_STEPS` steps to one, so that an answer is a whole number of steps and no
float comes near the truth. A block is three arrays (where queries start, addresses of records, steps), however many
entries it has: ten million are a matter of seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.data.records.field import Elements, P
from conspectus.privacy.relation import Relation
from conspectus.queries.address_index import AddressIndex, norms, tidied, weigh
from conspectus.queries.block import ReadsAll
from conspectus.queries.ordering import starts_of, stretches
from conspectus.queries.query import WEIGHT_STEPS, Indices, Sparse
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import ArrayValue, Sensitivity, WorkloadError, fixed, moved_rows
from conspectus.queries.stored_parts import packed, unpacked

MOST_ENTRIES = 1 << 28
"""Weights in one block: their arrays alone take three gigabytes."""

MOST_COMPARED = 1 << 24
"""Weights that may be compared, pair by pair, to find how far two records are apart."""


@dataclass(frozen=True, eq=False)
class SparseQueries(ArrayValue, ReadsAll):
    """Listed sparse queries. Query i has the entries from `offsets[i]` up to `offsets[i + 1]`.

    Addresses are sorted and distinct within a query, steps lie in 1..grid, and the grid is the coarsest that holds
    them all, so that equal lists of queries are equal values; `build` sees to that.

    Guarantee: `sensitivity` bounds, for one row, the norms of a record's weights over all queries (added or removed) or
    of the difference of two records' weights (replaced); m rows move the values at most m times as far in every norm.
    """

    domain: Domain
    offsets: NDArray[np.int64]
    addresses: Elements
    steps: NDArray[np.uint32]
    grid: int

    denominator = None

    def __post_init__(self) -> None:
        for name in ("offsets", "addresses", "steps"):
            object.__setattr__(self, name, fixed(getattr(self, name)))
        _check(self)

    @classmethod
    def build(
        cls, domain: Domain, offsets: NDArray[Any], addresses: Elements, steps: NDArray[Any], grid: int = WEIGHT_STEPS
    ) -> Self:
        """From entries in any order. Of equal records in a query the largest weight stays; weights of 0 are dropped."""
        starts = np.asarray(offsets, dtype=np.int64)
        if len(addresses) > MOST_ENTRIES:
            raise WorkloadError(
                f"{len(addresses):,} weights are too many for memory (at most {MOST_ENTRIES:,}): ask fewer questions"
            )
        held = np.array(addresses, dtype=np.uint64)
        weights = np.array(steps, dtype=np.uint32)
        starts = tidied(starts, held, weights)
        held, steps = held[: starts[-1]].copy(), weights[: starts[-1]]
        coarser = _coarser(steps, grid)
        small = (steps // coarser).astype(np.uint32)
        return cls(domain, starts, held, small, grid // coarser)

    @classmethod
    def join(cls, blocks: Sequence[Self]) -> Self:
        """Several lists as one."""
        if len(blocks) == 1:
            return blocks[0]
        grid = max(block.grid for block in blocks)
        shifts = np.cumsum([0, *(len(block.addresses) for block in blocks)])
        offsets = [np.zeros(1, dtype=np.int64), *(b.offsets[1:] + shift for b, shift in zip(blocks, shifts))]
        steps = np.concatenate([block.steps * np.uint32(grid // block.grid) for block in blocks])
        held = np.concatenate([block.addresses for block in blocks])
        return cls.build(blocks[0].domain, np.concatenate(offsets), held, steps, grid)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sparsity(self) -> int:
        """The m of m-sparse: the most records that a query lists."""
        return int(np.diff(self.offsets).max(initial=0))

    def query(self, index: int) -> Sparse:
        here = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        coarser = _coarser(self.steps[here], self.grid)
        steps = (self.steps[here] // coarser).tolist()
        return Sparse(tuple(self.addresses[here].tolist()), tuple(steps), self.grid // coarser)

    def written(self, index: int) -> bytes:
        """The bytes that `query(index).written()` gives, without making the query."""
        here = slice(int(self.offsets[index]), int(self.offsets[index + 1]))
        weights = self.steps[here].astype(np.uint64) * np.uint64((1 << 32) // self.grid)
        return self.addresses[here].tobytes() + weights.tobytes()

    def take(self, indices: Indices) -> SparseQueries:
        """Some queries, in the order given."""
        count = np.diff(self.offsets)[indices]
        entries = stretches(self.offsets[indices], count)
        held, steps = self.addresses[entries], self.steps[entries]
        return SparseQueries.build(self.domain, starts_of(count), held, steps, self.grid)

    @cached_property
    def _indexed(self) -> tuple[AddressIndex, NDArray[np.int64]]:
        return AddressIndex.of(self.addresses)

    @cached_property
    def _moves(self) -> tuple[Sensitivity, Sensitivity]:
        """How far one row moves the values, in steps: when it is added or removed, and when it is replaced."""
        index, numbers = self._indexed
        l1, l2_squared, linf = (np.zeros(len(index), dtype=np.int64) for _ in range(3))
        norms(numbers, self.steps, l1, l2_squared, linf)
        most = int(linf.max(initial=0))
        added = Sensitivity(int(l1.max(initial=0)), int(l2_squared.max(initial=0)), most)
        return added, self._replaced(len(index), l1, l2_squared, most)

    def _replaced(self, records: int, l1: NDArray[Any], l2_squared: NDArray[Any], most: int) -> Sensitivity:
        """How far a row moves the values when a record y takes the place of a record x, at most.

        In every query |w(y) − w(x)| is at most the larger of the two weights: so L1 is at most the sum of the two
        records' L1 norms, squared L2 at most the sum of theirs, and no query moves by more than its largest weight.
        Where records are few, all pairs are compared instead.
        """
        if records * records * len(self) <= MOST_COMPARED:
            return self._compared(records)
        largest = np.zeros(len(self), dtype=np.int64)
        held = np.flatnonzero(np.diff(self.offsets))
        if len(held):
            largest[held] = np.maximum.reduceat(self.steps.astype(np.int64), self.offsets[held])
        two = [int(np.sort(values)[-2:].sum()) for values in (l1, l2_squared)]
        return Sensitivity(min(two[0], int(largest.sum())), min(two[1], int((largest**2).sum())), most)

    def _compared(self, records: int) -> Sensitivity:
        """The exact maximum over all pairs of records, among them one that no query lists, where there is one."""
        unlisted = int(self.domain.cells > records)
        weights = np.zeros((records + unlisted, len(self)), dtype=np.int64)
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        weights[self._indexed[1], owner] = self.steps
        l1 = l2_squared = linf = 0
        for one in weights:
            apart = np.abs(weights - one)
            l1 = max(l1, int(apart.sum(axis=1).max(initial=0)))
            l2_squared = max(l2_squared, int((apart * apart).sum(axis=1).max(initial=0)))
            linf = max(linf, int(apart.max(initial=0)))
        return Sensitivity(l1, l2_squared, linf)

    def sensitivity(self, relation: Relation) -> Sensitivity:
        """How far one unit moves the values together, in steps."""
        return moved_rows(*self._moves, relation)

    def counts_of(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of the queries in steps, from the counts of the distinct records listed."""
        found = np.zeros(len(self), dtype=np.int64)
        weigh(self._indexed[1], self.steps, self.offsets, counts, found)
        return found

    def weighed(self, estimates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values of the queries in counts, from estimates of the distinct records' counts."""
        found = np.zeros(len(self), dtype=np.float64)
        weigh(self._indexed[1], self.steps, self.offsets, estimates, found)
        return found / self.grid

    @property
    def index(self) -> AddressIndex:
        """The distinct records that are listed."""
        return self._indexed[0]

    def to_json(self) -> dict[str, Any]:
        plain = bool((self.steps == self.grid).all())
        return {
            "kind": "sparse",
            "grid": self.grid,
            "offsets": packed(self.offsets, "<i8"),
            "addresses": packed(self.addresses, "<u8"),
            "steps": None if plain else packed(self.steps, "<u4"),
        }


def _check(block: SparseQueries) -> None:
    """Refuse entries out of place: sensitivities rest on records that are distinct within a query."""
    offsets, held, steps, grid = block.offsets, block.addresses, block.steps, block.grid
    long = offsets.ndim == held.ndim == 1 and offsets.dtype == np.int64 and held.dtype == np.uint64
    demand(
        WorkloadError,
        (long, "sparse queries need 64-bit offsets and addresses"),
        (
            steps.dtype == np.uint32 and steps.shape == held.shape,
            "sparse queries need one 32-bit weight for each record listed",
        ),
    )
    # Compared, never subtracted: the difference of hostile offsets wraps around.
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(held) or (offsets[1:] < offsets[:-1]).any():
        raise WorkloadError("sparse queries need their entries in the order of the queries")
    _check_grid(grid)
    if len(held) and (int(held.max()) >= min(block.domain.cells, P) or steps.min() < 1 or steps.max() > grid):
        raise WorkloadError("a sparse query lists a record that its table cannot have, or a weight outside [0, 1]")
    inner = np.ones(len(held), dtype=bool)
    inner[offsets[:-1][offsets[:-1] < len(held)]] = False
    if (inner[1:] & (held[1:] <= held[:-1])).any():
        raise WorkloadError("a sparse query needs its records sorted and distinct")
    if _coarser(steps, grid) > 1:
        raise WorkloadError("the grid of sparse queries is finer than their weights: build them again")


def _check_grid(grid: object) -> None:
    if type(grid) is not int or not 1 <= grid <= WEIGHT_STEPS or grid & (grid - 1):
        raise WorkloadError(f"the grid of sparse queries is a power of two up to {WEIGHT_STEPS}")


def _coarser(steps: NDArray[Any], grid: int) -> int:
    """The largest power of two that divides the grid and all steps."""
    shared = int(np.bitwise_or.reduce(steps, initial=0)) | grid
    return shared & -shared


_DAMAGED = "an array of sparse queries is damaged"


def read_sparse(domain: Domain, stored: Mapping[str, Any]) -> SparseQueries:
    offsets, held = (
        unpacked(stored[name], kind, _DAMAGED) for name, kind in (("offsets", "<i8"), ("addresses", "<u8"))
    )
    _check_grid(stored["grid"])
    if stored["steps"] is None:
        steps = np.full(len(held), stored["grid"], dtype=np.uint32)
    else:
        steps = unpacked(stored["steps"], "<u4", _DAMAGED)
    return SparseQueries(domain, offsets, held, steps, stored["grid"])

"""Noisy sums: which counts of a measured block add up to a query, and what noise their sum has."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import values_on
from conspectus.data.code_sets import CodeSet, complement, runs_of, together
from conspectus.data.domain import Domain
from conspectus.data.records.field import P
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import noise_margin, variance_of
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.formulas import TooManyBoxes, any_box, opposite, predicate, union
from conspectus.queries.query import Linear, Literal, Predicate, Query, Sparse, TableFunction
from conspectus.queries.workload import Workload

from .synopsis import BadSynopsis, NoiseKind, Total, checked_noise, knows


@dataclass(frozen=True, kw_only=True)
class NoisySum:
    """A sum of noisy counts and the law of its noise.

    The noise is the sum of `terms` independent draws, divided by `averaged`: the number of sums that were averaged,
    times the steps to a count. `kind` is None when the count carries no noise. `source` says in words what was added
    up.
    """

    count: float
    kind: NoiseKind | None
    scale: float
    terms: int
    averaged: int = 1
    source: str = ""

    @property
    def variance(self) -> float:
        return 0.0 if self.kind is None else variance_of(Noise(self.kind, self.scale)) * self.terms / self.averaged**2

    def margin(self, confidence: float) -> float:
        """How far the noise has moved the count at most, with this probability."""
        if self.kind is None:
            return 0.0
        return noise_margin(self.kind, self.scale, self.terms, confidence) / self.averaged


def averaged(sums: list[NoisySum]) -> list[NoisySum]:
    """Independent sums with one and the same law are better averaged than chosen from."""
    groups: dict[tuple[NoiseKind | None, float, int, int], list[NoisySum]] = {}
    for found in sums:
        law = (found.kind, found.scale, found.terms, found.averaged)
        groups.setdefault(law, []).append(found)
    means = []
    for group in groups.values():
        m, first = len(group), group[0]
        if m == 1 or first.kind is None:
            means.append(first)
            continue
        count = float(np.mean([found.count for found in group]))
        source = f"the average of {m} sums of {first.terms} measured counts"
        means.append(replace(first, count=count, terms=m * first.terms, averaged=m * first.averaged, source=source))
    return means


@dataclass(frozen=True, eq=False)
class Selection:
    """The count of a query is the sum of the counts at `added` minus the sum of those at `subtracted`."""

    added: NDArray[np.int64]
    subtracted: NDArray[np.int64]

    @property
    def terms(self) -> int:
        return self.added.size + self.subtracted.size


@singledispatch
def selection_in(block: Block, query: Query) -> Selection | None:
    """The counts of this block that add up to the query on every table, or None; lists of queries add up to nothing."""
    return None


@selection_in.register
def _of_marginal(block: Marginal, query: Query) -> Selection | None:
    """Cells of a marginal: any query about its columns is a sum of them."""
    if isinstance(query, TableFunction | Sparse | Linear) or not set(query.columns) <= set(block.columns):
        return None
    inside = values_on(query, block.domain, block.columns)
    return Selection(np.flatnonzero(inside), np.empty(0, dtype=np.int64))


@selection_in.register
def _of_intervals(block: Intervals, query: Query) -> Selection | None:
    """Runs of codes: intervals that were measured, or differences of prefixes."""
    if not isinstance(query, Predicate) or query.columns != (block.column,):
        return None
    codes = _codes(query)
    if codes[-1] >= block.regular:
        return None
    low, high = np.array(runs_of(codes), dtype=np.int64).T
    if block.prefixes_only:
        return Selection(high, low[low > 0] - 1)
    # Intervals are numbered by low, then high: r − i of them start at i.
    first = low * block.regular - low * (low - 1) // 2
    return Selection(first + high - low, np.empty(0, dtype=np.int64))


def _codes(query: Predicate) -> CodeSet:
    """The codes of the one column of a query."""
    return together(literal.codes for box in query.boxes for literal in box)


class Listing:
    """Finds a query in a block that lists its queries, however long; made once, as it reads the whole list."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._places: dict[Query | bytes, int] = {}
        length = len(block)
        if isinstance(block, Conjunctions):
            self._number = {literal: i for i, literal in enumerate(block.literals)}
            keys = _keys(block.terms, block.starts)
            self._places = {key: i for i, key in zip(reversed(range(length)), reversed(keys))}
        elif isinstance(block, SparseQueries):
            self._places = {block.written(i): i for i in reversed(range(length))}
        else:
            self._places = {block.query(i): i for i in reversed(range(length))}

    def find(self, query: Query) -> int | None:
        """The first place of this query, in whatever form it is written."""
        if isinstance(self._block, SparseQueries):
            return self._places.get(query.written()) if isinstance(query, Sparse) else None
        if not isinstance(self._block, Conjunctions):
            return self._places.get(query)
        if not isinstance(query, Predicate):
            return None
        asked = Conjunctions.of(self._block.domain, [query])
        if any(literal not in self._number for literal in asked.literals):
            return None
        number = np.array([self._number[literal] for literal in asked.literals] + [-1], dtype=np.int32)
        width = self._block.terms.shape[1] - asked.terms.shape[1]
        if width < 0:
            return None
        rows = np.pad(number[asked.terms], ((0, 0), (0, width)), constant_values=-1)
        return self._places.get(_keys(rows, asked.starts)[0])


def _keys(terms: NDArray[np.int32], starts: NDArray[np.int64]) -> list[bytes]:
    """For each query its boxes as bytes: equal for equal queries over one table of literals."""
    data, stride = np.ascontiguousarray(terms).tobytes(), terms.shape[1] * terms.itemsize
    keys = []
    for first, last in pairwise(starts.tolist()):
        boxes = [data[box * stride : (box + 1) * stride] for box in range(first, last)]
        # The number of boxes tells the empty union from the empty box where no query reads a column.
        keys.append(b"%d " % len(boxes) + b"".join(sorted(boxes)))
    return keys


def opposite_of(domain: Domain, query: Query) -> Predicate | None:
    """The negation of a query about one column, which is again one; None for any other."""
    if not isinstance(query, Predicate) or len(query.columns) != 1 or domain.sizes[query.columns[0]] == P:
        return None
    (column,) = query.columns
    left = complement(_codes(query), domain.sizes[column])
    return Predicate(((Literal(column, left),),)) if left else Predicate(())


def paid_total(measured: Workload, counts: NDArray[np.float64], noise: tuple[NoiseKind, float]) -> Total:
    """The number of rows, from measurements that hold it anyway: the sums of whole marginals, averaged.

    All counts carry independent noise of one law. Marginals of equally many cells are averaged, and of these averages
    the one with the least variance is taken. Raises `BadSynopsis` when no marginal and no total was measured.
    """
    law = checked_noise(*noise)
    sums: dict[int, dict[frozenset[int], float]] = {}
    for block, start, end in zip(measured.blocks, measured.offsets, measured.offsets[1:]):
        if isinstance(block, Marginal) or (len(block) == 1 and block.query(0) == Predicate(((),))):
            # The same set of columns again may be the same measurement again, so only the first is used.
            sums.setdefault(len(block), {}).setdefault(frozenset(block.columns), float(counts[start:end].sum()))
        elif isinstance(block, DyadicTree):  # every row lies below one node of the highest level
            top = counts[start:end].reshape(block.groups, block.nodes)[:, : block.level_sizes[0]]
            sums.setdefault(top.size, {}).setdefault(frozenset(block.columns), float(top.sum()))
    if not sums:
        raise BadSynopsis("no measured block holds the number of rows: measure a marginal, or the total itself")
    cells = min(sums, key=lambda size: size / len(sums[size]))
    values = list(sums[cells].values())
    averaged = len(values)
    value = float(np.mean(values))
    divided = averaged * measured.grid
    return Total(value=value, exact=False, kind=law.kind, scale=law.scale, terms=cells * averaged, averaged=divided)


def partition_total(measured: Workload, counts: NDArray[np.float64], law: Noise) -> Total:
    """The number of rows from one question and its negation, or from a count of all rows; all with noise of one law.

    Raises `BadSynopsis` where the last block is neither.
    """
    block, start = measured.blocks[-1], measured.offsets[-2]
    if not (len(block) == 1 and block.query(0) == Predicate(((),))) and not splits_rows(block):
        raise BadSynopsis("neither a question and its negation nor the number of rows was measured")
    value, terms = float(counts[start:].sum()), len(block)
    return Total(value=value, exact=False, kind=law.kind, scale=law.scale, terms=terms, averaged=measured.grid)


def splits_rows(block: Block) -> bool:
    """Whether a block is a question and its negation, so that every row satisfies one of them."""
    if not isinstance(block, Conjunctions) or len(block) != 2:
        return False
    domain, (one, other) = block.domain, (block.query(0), block.query(1))
    with suppress(TooManyBoxes):
        return predicate(domain, opposite(domain, any_box(domain, one.boxes))) == union(domain, other.boxes)
    return False


def not_measured(domain: Domain, asked: Collection[int], known: Collection[int], in_marginals: Collection[int]) -> str:
    """Why measured numbers do not answer a question about rows, and what can be had instead.

    Args:
        domain: The columns of the table.
        asked: The columns that the question reads.
        known: The columns about which anything was measured.
        in_marginals: Those of them that some measured marginal holds.
    """
    if not known:
        return "no counts were measured: nothing but the number of rows can be asked (release the question itself)"
    unknown = set(asked).difference(known)
    names = ", ".join(domain.names[column] for column in sorted(unknown or asked)) or "nothing"
    if not unknown and not set(asked) <= set(in_marginals):
        return (
            f"of {names} single numbers alone were measured, and this question is neither one nor a sum of them: ask "
            f"for one that was measured, or release a marginal of {names}"
        )
    names += "" if unknown else " together"
    return (
        f"no marginal that was measured covers {names}: ask a synopsis whose workload includes it "
        f"({knows(domain, known)})"
    )

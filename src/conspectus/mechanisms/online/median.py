"""The median mechanism: a set of databases that answers by its median and loses half in each update.

The book's Algorithm 9, MM(Dᵗ, f_t, v_t), the U of OnlineIC (`loop.py`):

    at first: D⁰ = N_α(Q), an α-net                          `Net`
    f(Dᵗ) is the median of f(x) over the databases x of Dᵗ   `MedianGuess.of`
    if v_t < f_t(Dᵗ): Dᵗ⁺¹ = Dᵗ without all x with f_t(x) ≥ f_t(Dᵗ)        `MedianGuess.learn`
    else:             Dᵗ⁺¹ = Dᵗ without all x with f_t(x) ≤ f_t(Dᵗ)

    book     here
    Dᵗ       `Members`, those that are left
    N_α(Q)   all databases of `net_rows` rows, on a universe small enough for that
    v_t      the measured count, as a fraction

Beyond small universes the set is a public sample of databases, mixtures of product distributions drawn with
`public_seed`, and no theorem speaks for it.

With `functions` the net is the trivial one: all databases of n rows, the table among them. It is a net for whatever one
unit moves by at most one row's worth, linear or not (Theorem 5.10): functions of the whole table are answered, too. The
net has C(|X| + n − 1, n) members, so this is for very small tables.

Privacy: composes the row total and the loop; the rest post-processes.
Accuracy: at most T(α) = log₂ |N_α| updates of level α (`theorem.py`), for the trivial net at every level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import cell_values
from conspectus.counting.statistic_counts import values_on_tables
from conspectus.data.domain import Domain, code_dtype
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.mechanisms.settings import check_settings
from conspectus.mechanisms.update_rules.update_counts import (
    MOST_MEMBERS,
    databases,
    finest_net,
    median_updates,
    net_rows,
    net_size,
)
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.statistic import STATISTIC_STEPS, Statistic
from conspectus.queries.query import Box, Parity, Predicate, Query
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Synopsis, Total, public_sampler
from conspectus.whole_numbers import MOST_SEED, SEED

from . import claim, theorem
from .loop import on_cells
from .mechanism import OnlineIC
from .priming import Priming

MOST_NET_CELLS = 64
COARSEST = 0.1
"""A net that is coarser than this is not worth having: a sample of databases takes its place."""
PARTS, SHOWN, SHOWN_ROWS = 4, 50, 2_000


class Net:
    """All databases of so many rows over a small universe, as the counts of their cells."""

    def __init__(self, domain: Domain, counts: NDArray[np.int64], rows: int) -> None:
        self._domain = domain
        self._counts = counts
        self._rows = rows

    @classmethod
    def of(cls, domain: Domain, rows: int) -> Self:
        return cls(domain, np.array(list(databases(domain.cells, rows)), dtype=np.int64), rows)

    def __len__(self) -> int:
        return len(self._counts)

    def values(self, query: Query) -> NDArray[np.float64]:
        columns, inside = cell_values(query, self._domain)
        shape = tuple(size if c in columns else 1 for c, size in enumerate(self._domain.sizes))
        whole = np.broadcast_to(inside.reshape(shape), self._domain.sizes).ravel()
        return np.asarray(self._counts @ whole.astype(np.float64) / self._rows)

    def kept(self, which: NDArray[np.bool_]) -> Self:
        return type(self)(self._domain, self._counts[which], self._rows)

    def shown(self, total: Total) -> Iterator[Synopsis]:
        for place in _evenly(len(self)):
            yield Histogram(self._domain, self._counts[place] / self._rows, total)


class TrivialNet(Net):
    """All databases of as many rows as the table has: they answer functions of the whole table, too."""

    def values(self, query: Query) -> NDArray[np.float64]:
        if not isinstance(query, Statistic):
            return super().values(query)
        if query.replaced > 1:
            raise WorkloadError("one unit moves this function by two rows, more than a watch allows for: release it")
        return values_on_tables(self._domain, query, self._counts) / (STATISTIC_STEPS * self._rows)


class Mixtures:
    """A public sample of databases, each a mixture of a few product distributions: answers without listing cells."""

    def __init__(self, domain: Domain, shares: NDArray[np.float64], columns: list[NDArray[np.float64]]) -> None:
        self._domain = domain
        self._shares = shares
        self._columns = columns

    @classmethod
    def of(cls, domain: Domain, members: int, public_seed: int) -> Mixtures:
        rng = public_sampler(public_seed)
        shares = rng.dirichlet(np.ones(PARTS), members)
        columns = [rng.dirichlet(np.full(size, 0.5), (members, PARTS)) for size in domain.sizes]
        return cls(domain, shares, columns)

    def __len__(self) -> int:
        return len(self._shares)

    def values(self, query: Query) -> NDArray[np.float64]:
        if isinstance(query, Parity):
            signs = np.ones_like(self._shares)
            for column in query.columns:
                signs = signs * (1 - 2 * self._columns[column][:, :, 1])
            return np.asarray((self._shares * (1 + signs) / 2).sum(axis=1))
        if not isinstance(query, Predicate):
            raise WorkloadError("a median over so many cells answers predicates and parities: ask another mechanism")
        return sum((self._box(box) for box in query.boxes), np.zeros(len(self)))

    def _box(self, box: Box) -> NDArray[np.float64]:
        found = self._shares
        for literal in box:
            found = found * self._columns[literal.column][:, :, list(literal.codes)].sum(axis=2)
        return np.asarray(found.sum(axis=1))

    def kept(self, which: NDArray[np.bool_]) -> Mixtures:
        return Mixtures(self._domain, self._shares[which], [column[which] for column in self._columns])

    def shown(self, total: Total) -> Iterator[Synopsis]:
        rng = public_sampler(0)
        for place in _evenly(len(self)):
            parts = rng.choice(PARTS, SHOWN_ROWS, p=self._shares[place])
            codes = []
            for column, size in zip(self._columns, self._domain.sizes):
                steps = np.cumsum(column[place][parts], axis=1)
                drawn = (rng.random(SHOWN_ROWS)[:, None] > steps[:, :-1]).sum(axis=1)
                codes.append(drawn.astype(code_dtype(size)))
            yield Rows(self._domain, tuple(codes), total)


def _evenly(length: int) -> list[int]:
    return [int(place) for place in np.unique(np.linspace(0, length - 1, min(length, SHOWN)).astype(np.int64))]


def _median(values: NDArray[np.float64]) -> np.float64:
    """The median; of an even number the upper one."""
    return np.partition(values, len(values) // 2)[len(values) // 2]  # type: ignore[no-any-return]


def _asked(query: Workload, members: Net | Mixtures) -> Query:
    """What is asked of the databases; functions of the whole table only of those that are as large as it is."""
    asked = query.query(0)
    if isinstance(members, TrivialNet) and isinstance(asked, Statistic):
        return asked
    if isinstance(asked, Statistic):
        raise WorkloadError(
            "these databases are smaller than the table and answer counts alone: a median with functions=True answers "
            "functions of the whole table, where that is small enough, and so do laplace and gaussian"
        )
    return on_cells(query)


class MedianGuess:
    """The databases that are left."""

    def __init__(self, problem: SessionProblem, total: Total, members: Net | Mixtures) -> None:
        self._domain = problem.workload.domain
        self._total = total
        self._members: Net | Mixtures = members

    def of(self, query: Workload) -> float:
        return float(_median(self._members.values(_asked(query, self._members))))

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        values = self._members.values(_asked(query, self._members))
        middle = _median(values)
        left = values < middle if noisy / self._total.divisor < middle else values > middle
        if left.any():  # in a net one is left by the theorem; of a sample the last ones stay
            self._members = self._members.kept(left)

    def synopsis(self) -> MedianEnsemble:
        members = tuple(self._members.shown(self._total))
        domain = self._domain
        columns = Workload(domain, tuple(Marginal(domain, (c,)) for c in range(len(domain))))
        return MedianEnsemble(domain, members, (1,) * len(members), columns, self._total)


@dataclass(frozen=True, kw_only=True)
class Median(OnlineIC):
    """The median mechanism, for sessions on tiny universes; beyond them a heuristic. For comparison, mostly.

    It keeps databases that agree with everything measured so far, and answers by their median.

    Args:
        databases: The size of the public sample where the universe is too large for a net, from 2 to 32,768.
        public_seed: Draws that sample. It is public, and part of what a report says.
        functions: Answer functions of the whole table, too (`cs.mode_shares`, `cs.quantile_shares` and the others whose
            sensitivity is proved), by the set of all tables that have as many rows. Needs a public number of rows, and
            a table so small that there are at most 32,768 of them: 32,767 rows of one two-valued column, or 56 of two.
        hits: How many surprises are paid for.
        threshold: A guess that is wrong by more than this fraction of the rows is a surprise.
        measuring: The share of a hit's price that buys its measured answer, between 0 and 1. The rest finds the hit.
        theorem: Take the last three from the book's Theorems 5.8 and 5.13 to 5.15. Needs a net, and a public number of
            rows.

    Example:
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True] * 900 + [False] * 100}), schema)
        >>> mechanism = cs.mechanisms.Median(hits=3, threshold=0.1)
        >>> with cs.open_session(table, epsilon=20.0, questions=50, mechanism=mechanism) as session:
        ...     answer = session.ask("ill")
        >>> answer.basis, abs(answer.fraction - 0.9) < 0.1
        ('measured', True)
    """

    databases: int = 4_096
    public_seed: int = 0
    functions: bool = False

    name: ClassVar[str] = "median"
    citations: ClassVar[tuple[str, ...]] = (*theorem.CITES, "Roth & Roughgarden 2010", "Dwork & Roth 2014, Theorem 5.8")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(
            (2 <= self.databases <= MOST_MEMBERS, f"databases lie between 2 and {MOST_MEMBERS:,}"),
            (0 <= self.public_seed <= MOST_SEED, SEED),
        )

    def refuses(self, problem: SessionProblem) -> str | None:
        if not problem.counting:
            return "its databases answer counts of records: ask with another mechanism"
        if self.functions:
            return _no_trivial_net(problem)
        if sum(problem.workload.domain.sizes) > 1 << 16:
            return "its databases hold a share for every value of a column, and there are too many values"
        if self.theorem and not _netted(problem):
            return "its theorem needs a universe small enough for a net: leave theorem out"
        return None

    def memory(self, problem: SessionProblem) -> int:
        held = problem.cells if _netted(problem) else PARTS * sum(problem.workload.domain.sizes)
        return 8 * MOST_MEMBERS * held

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        if self.functions:
            return math.log2(net_size(problem.cells, problem.rows or 1))
        return median_updates(alpha, problem.cells)

    def typical(self, problem: SessionProblem, rows: float, priming: Priming | None) -> claim.Typical:
        if self.functions:  # one database is left at last, and it is the table
            return claim.Typical(math.ceil(self.updates(problem, 0.0)), 0.0)
        return claim.median_of_net(problem, rows) if _netted(problem) else claim.median_of_sample(rows, self.databases)

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> MedianGuess:
        domain, cells = problem.workload.domain, problem.cells
        if self.functions:
            return MedianGuess(problem, total, TrivialNet.of(domain, problem.rows or 1))
        if not _netted(problem):
            return MedianGuess(problem, total, Mixtures.of(domain, self.databases, self.public_seed))
        rows = finest_net(cells) if alpha is None else net_rows(cells, alpha)
        return MedianGuess(problem, total, Net.of(domain, rows))


def _no_trivial_net(problem: SessionProblem) -> str | None:
    """Why there can be no set of all tables of as many rows, if there can be none."""
    if not problem.total_is_public or not problem.rows:
        return "functions=True needs a public number of rows: take replace, or ask functions of laplace or gaussian"
    if net_size(problem.cells, problem.rows) > MOST_MEMBERS:
        return (
            f"there are more than {MOST_MEMBERS:,} tables of {problem.rows:,} rows over {problem.cells:,} "
            "cells: laplace and gaussian answer functions of tables of any size"
        )
    return None


def _netted(problem: SessionProblem) -> bool:
    """Whether the universe is small enough for a net of all databases that is not too coarse."""
    cells = problem.cells
    return cells <= MOST_NET_CELLS and cells <= 4 * COARSEST * finest_net(cells)

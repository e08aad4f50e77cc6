"""The median mechanism as an online rule: a set of databases that answers by its median and loses half in each update.

The book's Algorithm 9. On a small universe the set is a net: all databases of so many rows. Beyond, it is a public
sample of databases, mixtures of product distributions drawn with `public_seed`, and no theorem speaks for it.

Privacy: composes the row total and the loop; the rest post-processes.
Accuracy: rounding the fractions of a table over |X| cells to multiples of 1/m, by largest remainders, moves any query
by at most |X|/4m: if k remainders are rounded up, the rises add up to at most k(1 − k/|X|)/m. So the databases of m
rows are an α-net for every class of queries once m ≥ |X|/4α. The member nearest to the table is never removed by an
update of level α, and each update removes at least half: T(α) = log₂ C(|X| + m − 1, m) (Theorem 5.8).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import indicator
from conspectus.data.domain import Domain, code_dtype
from conspectus.mechanisms.mechanism import SettingError
from conspectus.mechanisms.online_mechanism import SessionProblem
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Box, Parity, Predicate, Query
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Synopsis, Total, public_sampler

from .loop import CITES, on_cells
from .parameters import OnlineSettings

MOST_MEMBERS, MOST_NET_CELLS = 1 << 15, 64
COARSEST = 0.1
"""A net that is coarser than this is not worth having: a sample of databases takes its place."""
PARTS, SHOWN, SHOWN_ROWS = 4, 50, 2_000


def net_size(cells: int, rows: int) -> int:
    """The number of databases of so many rows."""
    return math.comb(cells + rows - 1, rows)


def net_rows(cells: int, alpha: float) -> int:
    """How many rows make the databases of that many an α-net for any class of queries."""
    return math.ceil(cells / (4 * alpha))


def finest_net(cells: int) -> int:
    """The most rows that the databases of a net can have."""
    rows = 1
    while net_size(cells, rows + 1) <= MOST_MEMBERS:
        rows += 1
    return rows


class Members(Protocol):
    """Databases that answer one query together."""

    def values(self, query: Query) -> NDArray[np.float64]: ...

    def kept(self, which: NDArray[np.bool_]) -> Members: ...

    def __len__(self) -> int: ...

    def shown(self, total: Total) -> Iterator[Synopsis]:
        """Some of them, evenly, as synopses."""
        ...


class Net:
    """All databases of so many rows over a small universe, as fractions of their cells."""

    def __init__(self, domain: Domain, weights: NDArray[np.float64]) -> None:
        self._domain = domain
        self._weights = weights

    @classmethod
    def of(cls, domain: Domain, rows: int) -> Net:
        counts = np.array(list(_databases(domain.cells, rows)), dtype=np.float64)
        return cls(domain, counts / rows)

    def __len__(self) -> int:
        return len(self._weights)

    def values(self, query: Query) -> NDArray[np.float64]:
        columns, inside = indicator(query, self._domain)
        shape = tuple(size if c in columns else 1 for c, size in enumerate(self._domain.sizes))
        whole = np.broadcast_to(inside.reshape(shape), self._domain.sizes).ravel()
        return self._weights @ whole.astype(np.float64)

    def kept(self, which: NDArray[np.bool_]) -> Net:
        return Net(self._domain, self._weights[which])

    def shown(self, total: Total) -> Iterator[Synopsis]:
        for place in _evenly(len(self)):
            yield Histogram(self._domain, self._weights[place], total)


def _databases(cells: int, rows: int) -> Iterator[tuple[int, ...]]:
    """All ways to put so many rows into so many cells."""
    if cells == 1:
        yield (rows,)
        return
    for first in range(rows + 1):
        for rest in _databases(cells - 1, rows - first):
            yield (first, *rest)


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
            raise WorkloadError("the median mechanism answers predicates and parities: ask sparse-mw about records")
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


class MedianGuess:
    """The databases that are left."""

    def __init__(self, problem: SessionProblem, total: Total, members: Members) -> None:
        self._domain = problem.workload.domain
        self._total = total
        self._members = members

    def of(self, query: Workload) -> float:
        values = self._members.values(on_cells(query))
        return float(np.partition(values, len(values) // 2)[len(values) // 2])

    def learn(self, query: Workload, noisy: float, law: Noise) -> None:
        values = self._members.values(query.query(0))
        middle = np.partition(values, len(values) // 2)[len(values) // 2]
        left = values < middle if noisy / self._total.divisor < middle else values > middle
        if left.any():  # in a net one is left by the theorem; of a sample the last ones stay
            self._members = self._members.kept(left)

    @property
    def members(self) -> int:
        """How many databases are left."""
        return len(self._members)

    def synopsis(self) -> MedianEnsemble:
        members = tuple(self._members.shown(self._total))
        domain = self._domain
        columns = Workload(domain, tuple(Marginal(domain, (c,)) for c in range(len(domain))))
        return MedianEnsemble(domain, members, (1,) * len(members), columns, self._total)


@dataclass(frozen=True, kw_only=True)
class Median(OnlineSettings):
    """`databases` is the size of the public sample where the universe is too large for a net, drawn by `public_seed`.

    The other settings say how surprises are found.
    """

    databases: int = 4_096
    public_seed: int = 0

    name: ClassVar[str] = "median"
    citations: ClassVar[tuple[str, ...]] = (*CITES, "Roth & Roughgarden 2010", "Dwork & Roth 2014, Theorem 5.8")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.databases <= MOST_MEMBERS or self.public_seed < 0:
            raise SettingError(f"databases lie between 2 and {MOST_MEMBERS:,}, and public_seed is not negative")

    def refuses(self, problem: SessionProblem) -> str | None:
        if not problem.counting:
            return "its databases answer counts of records: ask with another mechanism"
        if sum(problem.workload.domain.sizes) > 1 << 16:
            return "its databases hold a share for every value of a column, and there are too many values"
        if self.theorem and not self._netted(problem):
            return "its theorem needs a universe small enough for a net: leave theorem out"
        return None

    def _netted(self, problem: SessionProblem) -> bool:
        cells = problem.cells
        return cells <= MOST_NET_CELLS and cells <= 4 * COARSEST * finest_net(cells)

    def memory(self, problem: SessionProblem) -> int:
        held = problem.cells if self._netted(problem) else PARTS * sum(problem.workload.domain.sizes)
        return 8 * MOST_MEMBERS * held

    def updates(self, problem: SessionProblem, alpha: float) -> float:
        size = net_size(problem.cells, net_rows(problem.cells, alpha))
        return math.log2(size) if size <= MOST_MEMBERS else math.inf

    def usual(self, problem: SessionProblem, left: Fraction, rows: float) -> tuple[int, float]:
        """Halving so many databases; typical errors measured on small tables (a net) and on NLTCS (a sample)."""
        if self._netted(problem):
            finest = finest_net(problem.cells)
            return math.ceil(math.log2(net_size(problem.cells, finest))), rows * problem.cells / (4 * finest)
        return math.ceil(math.log2(self.databases)), 0.1 * rows

    def start(self, problem: SessionProblem, total: Total, alpha: float | None) -> MedianGuess:
        domain = problem.workload.domain
        if not self._netted(problem):
            return MedianGuess(problem, total, Mixtures.of(domain, self.databases, self.public_seed))
        rows = finest_net(problem.cells) if alpha is None else net_rows(problem.cells, alpha)
        return MedianGuess(problem, total, Net.of(domain, rows))

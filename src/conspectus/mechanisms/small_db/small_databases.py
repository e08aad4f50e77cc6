"""All databases of a few rows, as a net (the book's Algorithm 4), and the exact ways to draw from it.

Records that no question tells apart form one class, so a database is known by its rows in each class. Where questions
are nested or disjoint, databases are counted along the tree of questions (`laminar`); otherwise they are enumerated, or
counted by their answers where few questions make few answers (`vectors`). All three draw from the same law, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from conspectus.curator.acts import Net, selection_rate
from conspectus.curator.laminar import LaminarDatabases, laminar_tree
from conspectus.curator.nets import MOST_MASS, SmallDatabases, databases
from conspectus.curator.scores import ERROR_STEPS
from conspectus.data.domain import Codes, code_dtype
from conspectus.mechanisms.mechanism import Problem
from conspectus.queries.workload import Workload

from .answer_vectors import MOST_WORK, AnswerVectors, vectors_work
from .net_draws import coarseness, level_sensitivity, listed
from .signatures import Signatures

MOST_STEPS = 1 << 34
"""Databases that are enumerated, times questions: about a minute of two cores."""

MOST_SECONDS = 45.0
"""What counting along a tree of questions may take, by a cautious estimate."""

QUICK = 1 / 16
"""The share of these that is taken where nobody asked for a size."""

Method = Literal["laminar", "enumeration", "vectors"]


@dataclass(frozen=True, eq=False)
class SmallNet:
    """All databases of `size` rows; with `merge`, records that no question tells apart are one record."""

    workload: Workload
    signatures: Signatures
    size: int
    merge: bool

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of records of each class."""
        return (1,) * len(self.signatures) if self.merge else self.signatures.sizes

    @cached_property
    def mass(self) -> int:
        """The number of databases, up to the order of rows."""
        return databases(sum(self.sizes), self.size)

    def method(self, problem: Problem, price: Fraction, rows: float, *, share: float = 1.0) -> Method | None:
        """The first exact way that takes at most this share of a minute, from public facts; None if there is none."""
        if _is_laminar(self.signatures) and self._laminar_seconds(problem, price, rows) <= share * MOST_SECONDS:
            return "laminar"
        classes, queries = len(self.signatures), len(self.workload)
        counted = vectors_work(classes, queries, self.size)
        # To step on to the next database costs as much as a few dozen questions, and so does a long addition; with few
        # classes many rows change in a step.
        enumerated = databases(classes, self.size) * (queries + 24) * (1 + self.size // classes)
        if self.mass <= MOST_MASS and enumerated <= min(share * MOST_STEPS, 64 * counted):
            return "enumeration"
        return "vectors" if counted <= share * MOST_WORK else None

    def _laminar_seconds(self, problem: Problem, price: Fraction, rows: float) -> float:
        """Levels up to the cutoff, times questions, times a product of integers of so many 30-bit digits."""
        coarse = self.coarse("laminar", problem, rows)
        rate = float(selection_rate(level_sensitivity(problem, coarse), problem.selection(price)))
        bits = self.mass.bit_length()
        levels = min((40 + bits) * 0.7 / rate, rows * ERROR_STEPS / coarse) + 40
        window = min(2 * levels * coarse / ERROR_STEPS * self.size / rows + 2, self.size + 1)
        product = 6e-6 + 4e-9 * math.pow(window * (bits + 8) / 30, 1.6)
        return levels * len(self.workload) * product

    def coarse(self, method: Method, problem: Problem, rows: float) -> int:
        """Grid steps to a level: as many as one unit may move, where levels are counted one by one."""
        return problem.error_sensitivity if method == "laminar" else coarseness(rows)

    def drawn(self, method: Method, problem: Problem, rows: float) -> Draw:
        """The net as the curator draws from it, with what a member means; `rows` is the public or bought total."""
        truth, coarse = self.signatures.truth, self.coarse(method, problem, rows)
        if method == "vectors":
            vectors = AnswerVectors(truth, self.sizes, self.size)
            return Draw(listed(self.workload, vectors.answers / self.size, rows, masses=vectors.masses), vectors)
        kind = LaminarDatabases if method == "laminar" else SmallDatabases
        return Draw(kind(self.workload, truth, self.sizes, self.size, rows, coarse), None)

    def records(self, counts: NDArray[np.int64], rng: np.random.Generator) -> Iterator[tuple[int, ...]]:
        """Rows with these numbers in each class: of all databases that have them, each is as likely.

        Where records are merged, each row is any record of its class.
        """
        for number in np.flatnonzero(counts).tolist():
            rows, records = int(counts[number]), self.signatures.sizes[number]
            ranks = [below(records, rng) for _ in range(rows)] if self.merge else multiset(records, rows, rng)
            for rank in ranks:
                yield self.signatures.record(number, rank)

    def codes(self, counts: NDArray[np.int64], rng: np.random.Generator) -> tuple[Codes, ...]:
        """The rows as codes, column by column; columns that no question reads are filled evenly at random."""
        rows, domain = list(self.records(counts, rng)), self.workload.domain
        read = dict(zip(self.signatures.columns, zip(*rows)))
        return tuple(
            np.array(read[c] if c in read else rng.integers(0, size, self.size), dtype=code_dtype(size))
            for c, size in enumerate(domain.sizes)
        )


@lru_cache(maxsize=8)
def _is_laminar(classes: Signatures) -> bool:
    """Whether any two questions are nested or disjoint."""
    return laminar_tree(classes.truth) is not None


@dataclass(frozen=True, eq=False)
class Draw:
    """What the curator is given, and how its answer is read."""

    net: Net
    vectors: AnswerVectors | None

    def counts(self, member: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows in each class: the member itself, or any database with the drawn answers, each as likely."""
        if self.vectors is None:
            return member
        vector = int(member[0])
        return self.vectors.database(vector, below(self.vectors.masses[vector], rng))


def below(bound: int, rng: np.random.Generator) -> int:
    """A uniform integer in 0 … bound − 1, of any length."""
    bits = bound.bit_length()
    while True:
        found = int.from_bytes(rng.bytes(-(-bits // 8)), "little") & ((1 << bits) - 1)
        if found < bound:
            return found


def multiset(records: int, rows: int, rng: np.random.Generator) -> list[int]:
    """So many of the numbers 0 … records − 1, with repetition: every multiset is as likely.

    Multisets are subsets of `rows` out of records + rows − 1 numbers, the i-th smallest lowered by i; a uniform subset
    is Floyd's.
    """
    chosen: set[int] = set()
    for last in range(records - 1, records + rows - 1):
        picked = below(last + 1, rng)
        chosen.add(last if picked in chosen else picked)
    return [number - place for place, number in enumerate(sorted(chosen))]

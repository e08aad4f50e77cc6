"""Synthetic rows that have wanted answers, by local search: post-processing of answers that may be published.

Rows start as independent draws of the one-way shares and are changed one code at a time, whenever that brings the
answers nearer to what is wanted. It works for every question that is a number of rows (or of rows by class) away from
its value: predicates and the ready functions of a table, however far from linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.query import Predicate, Query, Workload
from conspectus.queries.statistic import STEPS, Statistic
from conspectus.queries.statistic_counts import Classes, Conditions, padded, starts_of
from conspectus.queries.statistic_kernels import COUNT

from .row_kernels import fill, improve

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Wanted:
    """Questions, the answers that rows should give to them, and how far off each answer may well be, as shares."""

    queries: Sequence[Query]
    answers: Vector
    deviations: Vector


@dataclass(frozen=True, eq=False)
class OneWay:
    """For each column the wanted share of each of its codes, and how far off each of them may well be."""

    shares: tuple[Vector, ...]
    deviations: tuple[float, ...]


def can_fit(queries: Iterable[Query]) -> bool:
    """Whether all of these are questions that rows can be fitted to step by step."""
    return all(isinstance(query, Predicate | Statistic) for query in queries)


def independent_rows(one_way: OneWay, rows: int, coins: np.random.Generator) -> Integers:
    """Rows with these one-way shares, as nearly as whole numbers can, and independent columns."""
    columns = []
    for shares in one_way.shares:
        weights = np.maximum(shares, 0.0)
        weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(shares), 1 / len(shares))
        ends = np.floor(np.cumsum(weights) * rows + coins.random()).astype(np.int64)
        counts = np.diff(np.concatenate([[0], np.minimum(ends, rows)]))
        codes = np.repeat(np.arange(len(shares)), np.maximum(counts, 0))[:rows]
        codes = np.concatenate([codes, np.full(rows - len(codes), int(weights.argmax()), dtype=np.int64)])
        columns.append(coins.permutation(codes))
    return np.stack(columns, axis=1)


def fit_rows(
    domain: Domain,
    wanted: Wanted,
    one_way: OneWay,
    *,
    start: Integers,
    tries: int,
    coins: np.random.Generator,
) -> Integers:
    """The rows `start` after this many tried changes; each kept change lowered the weighted squared distance."""
    # What no row can satisfy is right whatever the rows are.
    known = [number for number, query in enumerate(wanted.queries) if query != Predicate(())]
    queries = [wanted.queries[number] for number in known]
    answers, deviations = wanted.answers[known], wanted.deviations[known]
    functions = [_as_function(query) for query in queries]
    sorts = Classes(functions)
    kinds = np.where([isinstance(query, Predicate) for query in queries], COUNT, sorts.kinds)
    place = {column: column for column in range(len(domain))}
    boxes = Conditions(domain, [box for f in functions for box in f.given], place)
    boxes_at = starts_of([len(f.given) for f in functions])
    over = np.array([padded(f.over, -1) for f in functions], dtype=np.int64).reshape(-1, 2)
    readers: list[list[int]] = [[] for _ in domain.sizes]
    for number, function in enumerate(functions):
        for column in function.columns:
            readers[column].append(number)
    held_at = starts_of([f.cells for f in functions])
    held = np.zeros(int(held_at[-1]), dtype=np.int64)
    values = np.zeros(len(functions), dtype=np.int64)
    rows = np.ascontiguousarray(start, dtype=np.int64).copy()
    count = len(rows)
    shared = (
        boxes_at,
        boxes.box_literals,
        boxes.literal_column,
        boxes.literal_at,
        boxes.inside,
        over,
        sorts.class_at,
        sorts.classes,
        kinds.astype(np.int64),
        sorts.shapes,
        sorts.number_at,
        sorts.numbers,
        sorts.conditions,
        STEPS,
        held_at,
        held,
        values,
    )
    fill(rows, *shared)
    changes = _changes(domain, rows, tries, coins)
    improve(
        rows,
        *changes,
        starts_of([len(each) for each in readers]),
        np.array([f for each in readers for f in each] or [0], dtype=np.int64),
        *shared,
        answers * (STEPS * count),
        1 / np.square(np.maximum(deviations, 1e-12) * (STEPS * count)),
        starts_of(domain.sizes),
        np.concatenate([np.bincount(rows[:, c], minlength=size) for c, size in enumerate(domain.sizes)]),
        np.concatenate(one_way.shares) * count,
        np.repeat(1 / np.square(np.maximum(one_way.deviations, 1e-12) * count), domain.sizes),
    )
    return rows


def _changes(
    domain: Domain, rows: Integers, tries: int, coins: np.random.Generator
) -> tuple[Integers, Integers, Integers]:
    """Rows, columns and new codes to try: mostly the code of another row, sometimes any code."""
    which = coins.integers(0, len(rows), tries)
    free = np.flatnonzero(np.array(domain.sizes) > 1)
    where = free[coins.integers(0, max(len(free), 1), tries)] if len(free) else np.zeros(tries, dtype=np.int64)
    what = rows[coins.integers(0, len(rows), tries), where]
    anything = np.floor(coins.random(tries) * np.array(domain.sizes)[where]).astype(np.int64)
    return which, where, np.where(coins.random(tries) < 0.5, anything, what)


def _as_function(query: Query) -> Statistic:
    """A predicate as the function that counts in how many of its disjoint boxes rows lie."""
    if isinstance(query, Statistic):
        return query
    assert isinstance(query, Predicate)
    return Statistic("satisfied", query.boxes)


def wanted_of(workload: Workload, answers: Vector, deviations: Vector) -> Wanted:
    """The queries of a workload with their answers."""
    return Wanted(list(workload.queries()), answers, deviations)

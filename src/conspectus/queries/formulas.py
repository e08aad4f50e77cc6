"""Formulas over literals, and the one union of disjoint boxes that each of them stands for.

A formula is expanded column by column, in the order of the table. Fixing a code of a column leaves a formula about the
other columns, and codes that leave the same one share a literal. By induction over the columns, formulas with the same
meaning have the same boxes: so equal questions are equal values.

A formula that is short to write may take long to expand, as every hard puzzle can be written as one. What an expansion
looks at is counted, and has a limit: a formula that needs more is refused, as one of too many boxes is. A SELECT has a
formula for each of its groups, and a limit for all of them together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from conspectus.data.code_sets import CodeSet, Runs, complement, of_runs, together
from conspectus.data.domain import Domain

from .literals import LiteralRuns
from .query import Box, Literal, Predicate
from .sensitivity import WorkloadError

MOST_BOXES = 512
"""The largest number of disjoint boxes that one predicate may need."""

MOST_WORK = 3_000_000
"""How much an expansion may look at, where looking at a part of a formula is 1: about a second."""

MOST_WORK_TOGETHER = 10 * MOST_WORK
"""The same for all formulas of one SELECT: about ten seconds."""

_TOGETHER: ContextVar[list[int] | None] = ContextVar("_TOGETHER", default=None)
"""What the formulas of the SELECT that is being answered may still look at."""

_A_SPLIT, _A_MADE_PART, _A_LITERAL = 500, 4, 4
_CODES, _TRUTHS = 16, 64
"""Looked at together, as quickly as one part of a formula: so many codes of a literal, so many entries of a table."""


class TooManyBoxes(WorkloadError):
    """A predicate that falls into more disjoint boxes than are served."""


@dataclass(frozen=True)
class Compound:
    """All of some formulas, or any of them; made by `all_of` and `any_of`."""

    conjunctive: bool
    parts: frozenset[Formula]


Formula = bool | Literal | Compound


def literal(domain: Domain, column: int, codes: Iterable[int]) -> Formula:
    """`column` takes one of `codes`: never when there is none, always when they are all."""
    held = codes if isinstance(codes, Runs) else tuple(sorted(set(codes)))
    return Literal(column, held) if 0 < len(held) < domain.sizes[column] else bool(held)


def all_of(domain: Domain, formulas: Iterable[Formula]) -> Formula:
    """The conjunction, simplified as far as a look at each part allows."""
    return _combined(domain, formulas, conjunctive=True)


def any_of(domain: Domain, formulas: Iterable[Formula]) -> Formula:
    """The disjunction, simplified as far as a look at each part allows."""
    return _combined(domain, formulas, conjunctive=False)


def _combined(domain: Domain, formulas: Iterable[Formula], *, conjunctive: bool) -> Formula:
    compounds: set[Formula] = set()
    literals: dict[int, set[CodeSet]] = {}
    waiting = list(formulas)
    while waiting:
        formula = waiting.pop()
        if isinstance(formula, bool):
            if formula != conjunctive:
                return formula
        elif isinstance(formula, Literal):
            literals.setdefault(formula.column, set()).add(formula.codes)
        elif formula.conjunctive == conjunctive:
            waiting.extend(formula.parts)
        else:
            compounds.add(formula)
    for column, sets in literals.items():
        merged = literal(domain, column, _merged(sets, domain.sizes[column], conjunctive=conjunctive))
        if isinstance(merged, bool):
            if merged != conjunctive:
                return merged
        else:
            compounds.add(merged)
    if len(compounds) == 1:
        return next(iter(compounds))
    return Compound(conjunctive, frozenset(compounds)) if compounds else conjunctive


def _merged(sets: Collection[CodeSet], size: int, *, conjunctive: bool) -> CodeSet:
    """What some sets hold together, or what all of them share: by de Morgan, what no complement holds."""
    first, *others = sets
    if not others:
        return first
    if not any(isinstance(codes, Runs) for codes in sets):  # short ones, as most are
        return tuple(sorted(set(first).intersection(*others) if conjunctive else set(first).union(*others)))
    if not conjunctive:
        return together(sets)
    return complement(together(complement(codes, size) for codes in sets), size)


class _Expansion:
    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.known: dict[Formula, tuple[Box, ...]] = {}
        self.work = 0

    def boxes(self, formula: Formula) -> tuple[Box, ...]:
        if isinstance(formula, bool):
            return ((),) if formula else ()
        if isinstance(formula, Literal):
            return ((formula,),)
        literals = [part for part in formula.parts if isinstance(part, Literal)]
        if formula.conjunctive and len(literals) == len(formula.parts):
            return (tuple(sorted(literals)),)  # one literal for each column, as the expansion would find
        if formula not in self.known:
            self.known[formula] = self._split(formula)
        return self.known[formula]

    def _split(self, formula: Compound) -> tuple[Box, ...]:
        leaves = self._leaves(formula)
        column = min(leaf.column for leaf in leaves)
        here = sorted(leaf for leaf in leaves if leaf.column == column)
        # Codes that no leaf tells apart are looked at together: a column may have many more than are named.
        runs, size = LiteralRuns(here), self.domain.sizes[column]
        numbers = np.arange(len(here), dtype=np.int32)
        cuts = runs.cuts(numbers, size)
        self._charge(_A_SPLIT + len(here) * len(cuts) // _TRUTHS)
        kinds, of_stretch = np.unique(runs.truth(numbers, cuts) == 1, axis=1, return_inverse=True)
        ends = np.append(cuts[1:], size) - 1
        codes_of: dict[tuple[Box, ...], list[tuple[int, int]]] = {}
        for kind in range(kinds.shape[1]):
            rest = self._restricted(formula, column, dict(zip(here, kinds[:, kind].tolist())))
            held = np.flatnonzero(of_stretch.reshape(-1) == kind)
            boxes = self.boxes(rest)
            self._charge(_A_LITERAL * sum(map(len, boxes)))
            codes_of.setdefault(boxes, []).extend(zip(cuts[held].tolist(), ends[held].tolist()))
        found: list[Box] = []
        for rests, stretches in codes_of.items():
            head = literal(self.domain, column, together(of_runs([stretch]) for stretch in stretches))
            found += [(head, *rest) if isinstance(head, Literal) else rest for rest in rests]
            if len(found) > MOST_BOXES:
                raise _too_many()
        return tuple(sorted(found))

    def _restricted(self, formula: Formula, column: int, truth: dict[Literal, bool]) -> Formula:
        """What is left of a formula where the literals of a column are true or false."""
        if isinstance(formula, Literal):
            return truth[formula] if formula.column == column else formula
        if isinstance(formula, bool):
            return formula
        parts, changed = [], False
        for looked, part in enumerate(formula.parts, 1):
            left = self._restricted(part, column, truth)
            if isinstance(left, bool) and left != formula.conjunctive:
                self._charge(looked)
                return left
            changed = changed or left is not part
            parts.append(left)
        if not changed:
            self._charge(len(parts))
            return formula
        numbers = sum(_stored(part.codes) for part in parts if isinstance(part, Literal))
        self._charge(_A_MADE_PART * len(parts) + numbers // _CODES)
        return _combined(self.domain, parts, conjunctive=formula.conjunctive)

    def _leaves(self, formula: Formula) -> set[Literal]:
        found, waiting = set(), [formula]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Compound):
                self._charge(len(part.parts))
                waiting.extend(part.parts)
            elif isinstance(part, Literal) and part not in found:
                self._charge(_stored(part.codes) // _CODES)
                found.add(part)
        return found

    def _charge(self, work: int) -> None:
        self.work += work
        if self.work > MOST_WORK:
            raise _too_many()
        if (left := _TOGETHER.get()) is not None:
            left[0] -= work
            if left[0] < 0:
                raise TooManyBoxes(
                    "the conditions of this SELECT are too many, or too long, together: ask simpler ones"
                )


@contextmanager
def under_one_limit(times: int = 1) -> Iterator[None]:
    """What is expanded inside has one limit together, or so many times it; inside of another one the outer one's."""
    if _TOGETHER.get() is not None:
        yield
        return
    before = _TOGETHER.set([times * MOST_WORK_TOGETHER])
    try:
        yield
    finally:
        _TOGETHER.reset(before)


def _stored(codes: CodeSet) -> int:
    """How many numbers a set of codes is stored as."""
    return len(codes) if isinstance(codes, tuple) else len(codes.firsts)


def predicate(domain: Domain, formula: Formula) -> Predicate:
    """The predicate that a formula stands for: equal for formulas that are true on the same records."""
    return Predicate(_Expansion(domain).boxes(formula))


def any_box(domain: Domain, boxes: Iterable[Box]) -> Formula:
    """The formula of some boxes, disjoint or not: a record lies in one of them."""
    return any_of(domain, [all_of(domain, [literal(domain, p.column, p.codes) for p in box]) for box in boxes])


def union(domain: Domain, boxes: Iterable[Box]) -> Predicate:
    """The union of some boxes, disjoint or not, as a predicate."""
    return predicate(domain, any_box(domain, boxes))


def opposite(domain: Domain, formula: Formula) -> Formula:
    """All other records, those with missing values included; raises `TooManyBoxes`."""
    if isinstance(formula, bool):
        return not formula
    if isinstance(formula, Literal):
        return literal(domain, formula.column, complement(formula.codes, domain.sizes[formula.column]))
    parts = [opposite(domain, part) for part in formula.parts]
    return (any_of if formula.conjunctive else all_of)(domain, parts)


def _too_many() -> TooManyBoxes:
    return TooManyBoxes(
        f"this predicate falls into more than {MOST_BOXES} separate parts: split it into simpler ones, "
        "or ask for a marginal over its columns"
    )

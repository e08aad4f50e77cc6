"""Single questions as targets of a mixture: unions of boxes and parities, with a share that was measured.

Given its component, a record's columns are independent. So the chance that a record of a component satisfies a
question is a product or a sum of products, and so is the chance for a record that has a given code in one column: all
that a step of the fit needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .mixture_targets import Floats

Chances = tuple[Floats, dict[int, Floats]]
"""For each component the chance of the question; and for each column, by component and code, that given the code."""


@dataclass(frozen=True, eq=False)
class BoxUnion:
    """A union of disjoint boxes. Each says of some columns which part of every code it holds, from 0 to 1."""

    boxes: tuple[Mapping[int, Floats], ...]

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted({column for box in self.boxes for column in box}))

    def chances(self, sides: Sequence[Floats]) -> Chances:
        """See `Chances`; `sides` are the conditional shares of each column."""
        columns = self.columns
        whole = np.zeros(len(sides[0]), dtype=np.float32)
        given = {c: np.zeros_like(sides[c]) for c in columns}
        for box in self.boxes:
            inside = {c: sides[c] @ part for c, part in box.items()}
            product = _product(inside, None, len(whole))
            whole += product
            for c in columns:
                if c in box:
                    given[c] += _product(inside, c, len(whole))[:, None] * box[c]
                else:
                    given[c] += product[:, None]
        return whole, given


@dataclass(frozen=True, eq=False)
class EvenCount:
    """A parity: for each of its columns, which part of every code is the second value."""

    second: Mapping[int, Floats]

    @property
    def columns(self) -> tuple[int, ...]:
        return tuple(sorted(self.second))

    def chances(self, sides: Sequence[Floats]) -> Chances:
        """See `Chances`."""
        half, components = np.float32(0.5), len(sides[0])
        signs: dict[int, Floats] = {c: sides[c] @ (1 - 2 * part) for c, part in self.second.items()}
        given: dict[int, Floats] = {
            c: half + half * _product(signs, c, components)[:, None] * (1 - 2 * part) for c, part in self.second.items()
        }
        return half + half * _product(signs, None, components), given


@dataclass(frozen=True, eq=False)
class QuestionTarget:
    """A question whose share a mixture should have.

    Attributes:
        question: What is asked, over the columns as the mixture holds them.
        share: The share of the rows, strictly between 0 and 1.
        weight: How much it counts, beside tables of one and two columns that count 1.
    """

    question: BoxUnion | EvenCount
    share: float
    weight: float = 1.0


def _product(factors: Mapping[int, Floats], without: int | None, components: int) -> Floats:
    """The product of all factors but one."""
    found = np.ones(components, dtype=np.float32)
    for column, factor in factors.items():
        if column != without:
            found = found * factor
    return found

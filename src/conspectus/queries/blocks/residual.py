"""The residual of a marginal: what it says beyond the marginals of fewer columns, and nothing else.

For a marginal M over columns of n_1, …, n_k values let P subtract the mean along every axis: P = ⊗(I − 11'/n_j). The
residuals P_S M_S of all subsets S of some columns hold what the marginal over all of them holds, each part once, and
they are orthogonal to one another. A record moves a residual by ‖P e‖² = Π(1 − 1/n_j) < 1, less than it moves the
table. To be paid for that alone, the noise has to be as symmetric as the projection: see `residual.proof.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.sensitivity import WorkloadError

from .grouped_marginal import GroupedMarginal, Grouping, check_groups, grouped_shape
from .marginal import Marginal

MOST_CELLS = 1 << 22
"""The largest table whose residual is measured: up to here every sum stays exact in 64 bits."""
MOST_PATTERNS = 1 << 16
"""In how many ways two records may differ at most, where all of them are looked at."""

_BITS = 32
_LOW = (1 << _BITS) - 1
_STEPS = 1 << 200  # what a sum of squared shifts is rounded up to a multiple of, so that its digits stay few
_ROUNDING = 2.0**-36


@dataclass(frozen=True)
class Residual:
    """The residual of one marginal over some columns, each at all of its codes or at public groups of them.

    Args:
        domain: The columns of the table.
        columns: The positions of the columns, distinct; none of them for the number of rows.
        groups: For each column its grouping, None where every code is by itself; left out where all are.

    Raises:
        WorkloadError: A column or a grouping does not fit the table, a column has one group, or there are more than
            2²² cells.

    Example:
        >>> from conspectus.data.domain import Domain
        >>> residual = Residual(Domain(("age", "ill"), (4, 2)), (0, 1))
        >>> residual.shape, residual.cells, residual.freedom
        ((4, 2), 8, 3)
    """

    domain: Domain
    columns: tuple[int, ...]
    groups: tuple[Grouping, ...] = ()

    def __post_init__(self) -> None:
        if not self.groups:
            object.__setattr__(self, "groups", (None,) * len(self.columns))
        check_groups(self.domain, self.columns, self.groups)
        if min(self.shape, default=2) < 2:
            raise WorkloadError("a residual needs columns of two groups or more: one alone says nothing")
        if self.cells > MOST_CELLS:
            raise WorkloadError(
                f"the residual of a table of {self.cells:,} cells is too large to be exact (limit {MOST_CELLS:,}): "
                "take fewer columns, or coarser groups"
            )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The numbers of groups of its columns."""
        return grouped_shape(self.domain, self.columns, self.groups)

    @cached_property
    def cells(self) -> int:
        """The cells of its table, N: noise is drawn in steps of 1/N."""
        return math.prod(self.shape)

    @cached_property
    def freedom(self) -> int:
        """Its dimension: Π(n_j − 1)."""
        return math.prod(n - 1 for n in self.shape)

    @property
    def table(self) -> Marginal | GroupedMarginal:
        """The marginal that it is taken from."""
        if all(grouping is None for grouping in self.groups):
            return Marginal(self.domain, self.columns)
        return GroupedMarginal(self.domain, self.columns, self.groups)

    def projected(self, counts: NDArray[np.int64], noise: NDArray[np.int64]) -> NDArray[np.float64]:
        """P(counts + noise/N): the counts of its table with noise in steps of 1/N, projected; in counts, row-major.

        Guarantee: the result is a function of P(N·counts + noise) alone. All is integer arithmetic modulo 2⁹⁶ up to the
        last step, which rounds whole numbers to floats.
        """
        # Numbers are 2³²·high + low, so that no product leaves 64 bits while tables have fewer than 2⁴⁰ rows. Where
        # one does it wraps around, which is a function of P(…) still. Carries are moved before anything is rounded.
        low = (counts & _LOW) * self.cells + (noise & _LOW)
        high = (counts >> _BITS) * self.cells + (noise >> _BITS) + (low >> _BITS)
        high, low = self._sums(high), self._sums(low & _LOW)
        high = high + (low >> _BITS)
        return (high.astype(np.float64) * 2.0**_BITS + (low & _LOW).astype(np.float64)) / float(self.cells) ** 2

    def _sums(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """N·P: along each axis n times the value, less the sum."""
        table = values.reshape(self.shape)
        for axis, n in enumerate(self.shape):
            table = n * table - table.sum(axis=axis, keepdims=True)
        return table.ravel()

    def shift_squared(self, relation: Relation) -> Fraction:
        """How far one unit moves the residual, as a squared L2 norm, in counts.

        Guarantee: one unit of `relation` moves P·M by at most the root of this, and never by more.
        """
        return joint_shift((self,), (Fraction(1),), relation)


def joint_shift(residuals: Sequence[Residual], precisions: Sequence[Fraction], relation: Relation) -> Fraction:
    """The largest Σ precision·‖shift of the residual‖² that one unit can make: twice the ρ of Gaussian noise whose
    variance on each residual is 1/precision.

    Guarantee: for one unit of `relation`, the weighted sum of the squared L2 norms of what it moves is at most this.

    Under add-remove it is exact, but for rounding up. Under replace it is the maximum over the ways in which two
    records can differ, all residuals together, where these are few; otherwise each residual's own maximum, added up.

    Args:
        residuals: What is measured, of one table.
        precisions: The weight of each.
        relation: Who are neighbours.
    """
    # ‖P e‖² = freedom/cells for the unit vector of a cell; each product is rounded up to a step.
    steps = (-(-p.numerator * r.freedom * _STEPS // (p.denominator * r.cells)) for r, p in zip(residuals, precisions))
    added = Fraction(sum(steps), _STEPS)
    if relation.neighbours is Neighbours.ADD_REMOVE:
        return added * relation.max_rows**2
    replaced = _replaced(residuals, precisions)
    # Where a unit may have more rows than the one that it replaces, some of them are added.
    return (replaced if relation.rows_are_units else max(replaced, added)) * relation.max_rows**2


def _rounded_up(number: Fraction) -> Fraction:
    return Fraction(-(-number.numerator * _STEPS // number.denominator), _STEPS)


def _replaced(residuals: Sequence[Residual], precisions: Sequence[Fraction]) -> Fraction:
    """The maximum over pairs of records of the weighted squared distances of their projections.

    ‖P(e − e′)‖² = 2(Π(1 − 1/n_j) − Π(t_j − 1/n_j)) with t_j = 1 where the records agree in column j, at its groups.
    """
    sizes = {(c, g): n for residual in residuals for c, g, n in zip(residual.columns, residual.groups, residual.shape)}
    columns = sorted({column for column, _ in sizes})
    places: dict[tuple[int, Grouping], tuple[int, int]] = {}
    factors: list[NDArray[np.float64]] = []
    for at, column in enumerate(columns):
        used = {grouping: n for (held, grouping), n in sizes.items() if held == column}
        places |= {(column, grouping): (at, number) for number, grouping in enumerate(used)}
        factors.append(_factors(used))
    weights = [float(p) for p in precisions]
    slack = _ROUNDING * sum(4 * weight for weight in weights)
    if max(math.prod(factor.shape[side] for factor in factors) for side in (0, 1)) > MOST_PATTERNS:
        alone = (weight * _farthest(residual) for residual, weight in zip(residuals, weights))
        return _rounded_up(Fraction(sum(alone) + slack))
    # Σ weight·Π(t − 1/n), for all patterns at once: a polynomial with one variable a column, axis by axis.
    sums = np.zeros([factor.shape[1] for factor in factors])
    for residual, weight in zip(residuals, weights):
        place = [0] * len(columns)
        for column, grouping in zip(residual.columns, residual.groups):
            at, number = places[column, grouping]
            place[at] = number + 1
        sums[tuple(place)] += weight
    for axis, factor in enumerate(factors):
        sums = np.moveaxis(np.tensordot(factor, sums, axes=(1, axis)), 0, axis)
    most = 2 * (sum(weight * (r.freedom / r.cells) for r, weight in zip(residuals, weights)) - float(sums.min()))
    return _rounded_up(Fraction(max(most, 0.0) + slack))


def _factors(used: dict[Grouping, int]) -> NDArray[np.float64]:
    """For each way in which codes of a column differ: 1 where a residual leaves the column out, then t − 1/n for each
    of the groupings that are used, which have n groups."""
    shares = 1 / np.array(list(used.values()), dtype=np.float64)
    apart = _differences(list(used))
    return np.concatenate([np.ones((len(apart), 1)), np.where(apart, -shares, 1 - shares)], axis=1)


def _differences(groupings: Sequence[Grouping]) -> NDArray[np.bool_]:
    """A line for each way in which two codes of a column differ: in which of these groupings. All that can be, and
    perhaps some that cannot."""
    others = np.array([grouping for grouping in groupings if grouping is not None], dtype=np.int64)
    if not len(others):
        return np.array([[False], [True]])
    if others.shape[1] <= 1 << 10:
        first, second = np.triu_indices(others.shape[1])
        apart = np.unique(others[:, first] != others[:, second], axis=1).T
    else:
        apart = (np.arange(1 << len(others))[:, None] >> np.arange(len(others)) & 1).astype(bool)
    if None not in groupings:
        return apart
    # Codes that are the same are in the same groups; those that differ may be in the same groups, too.
    lines = np.concatenate([np.zeros((1, len(others)), dtype=bool), apart])
    fine = np.arange(len(lines)) > 0
    return np.insert(lines, list(groupings).index(None), fine, axis=1)


def _farthest(residual: Residual) -> float:
    """The largest ‖P(e − e′)‖² of one residual."""
    least = greatest = 1.0
    for n in residual.shape:
        ends = [value * factor for value in (least, greatest) for factor in (-1 / n, 1 - 1 / n)]
        least, greatest = min(ends), max(ends)
    return 2 * (residual.freedom / residual.cells - least)

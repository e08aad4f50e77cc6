"""What to expect of a histogram that is fitted to noisy marginals, interaction by interaction, from public facts.

A marginal C of K_C cells is an orthogonal sum of interactions S ⊆ C of d_S = Π(n_i − 1) dimensions each, and least
squares on overlapping marginals is one average for each interaction (`synopses.residuals`). With noise of deviation s
on each cell of each marginal, and A_S = Σ 1/K_C over the measured C ⊇ S, the average has deviation σ_S = s/√(K_S·A_S) a
dimension, and a cell of C gets from S the variance

    d_S · s² / (K_C² · A_S).

Summed over S this is what least squares leaves, exactly: the noise of as many dimensions as the questions have, not of
as many as there are questions. The maximum-entropy fit then shrinks each interaction by f = V/(V + κ·σ_S): its ridge
κ·σ_S against V, the variance of the interaction among records. For independent columns V is the product over S of
4p(1 − p)/n_i (two values), and nobody knows p: `SKEW`, the mean of 4p(1 − p) over all p, stands for it.

An interaction that is never measured is an error as large as the interaction itself. How large that is depends on the
table, so here claims are guesses: an interaction of j columns is taken to be `FADING`^(1−j) of the largest that it
could be. The constants are in `expectations.py`.

Only `least_squares` is exact; all else is typical, and nothing is proved about a table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from conspectus.privacy.events import Kind
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses.fitting.lbfgs import Vector
from conspectus.synopses.fitting.max_entropy import KAPPA

from .expectations import FADING, SKEW, TAIL

MOST_SETS = 1 << 22
"""The most sets of columns that are listed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Errors:
    """Typical errors of the cells of some marginals, as fractions of the rows.

    Attributes:
        deviations: One for each marginal, on average over its cells.
        volumes: How many cells each has.
        unshrunk: The deviations without the ridge.
        own: Which part of the error of a cell is its own noise, undivided by what other marginals say of it.
        kind: The kind of that noise.
    """

    deviations: Vector
    volumes: Vector
    unshrunk: Vector
    own: float = 0.0
    kind: Kind = "gaussian"

    @property
    def mean(self) -> float:
        """The mean size of a Gaussian error of these deviations."""
        return self.typical * math.sqrt(2 / math.pi)

    @property
    def typical(self) -> float:
        """The deviation of a cell, on average over all cells."""
        return float(self.deviations @ self.volumes / self.volumes.sum())

    @property
    def largest(self) -> float:
        """Their expected maximum, nearly: the level above which e^(−γ) of all errors are, the mean of Gumbel's law."""
        top = float(self.deviations.max())
        if top == 0 or self.volumes.sum() < 2:
            return top
        # A ridge leaves large cells as they were measured: among these the noise that is their own goes as far as ever.
        alike = TAIL * _level("gaussian", np.maximum(self.deviations, 1e-3 * top), self.volumes)
        return max(alike, self.own * _level(self.kind, np.maximum(self.unshrunk, 1e-3 * top), self.volumes))


def _level(kind: Kind, deviations: Vector, often: Vector) -> float:
    """Above which e^(−γ) of so many noises of these deviations are."""

    def above(level: float) -> float:
        tails = 2 * ndtr(-level / deviations) if kind == "gaussian" else np.exp(-math.sqrt(2) * level / deviations)
        return float(often @ tails) - math.exp(-np.euler_gamma)

    return float(brentq(above, 0.0, 80 * deviations.max())) if above(0.0) > 0 else float(deviations.max())


class Interactions:
    """The interactions of a workload of marginals: every set of columns that some marginal holds, once."""

    def __init__(self, workload: Workload) -> None:
        sizes = workload.domain.sizes
        read = [[column for column in block.columns if sizes[column] > 1] for block in workload.blocks]
        bit = {column: 1 << place for place, column in enumerate(workload.columns)}
        self.volumes = np.array([math.prod(sizes[c] for c in columns) for columns in read], dtype=np.float64)
        # Every subset of every marginal, as a number with a bit for each column; marginals of one width together.
        lists: list[NDArray[np.int64]] = []
        owners: list[NDArray[np.int64]] = []
        for width in sorted({len(columns) for columns in read}):
            alike = np.array([i for i, columns in enumerate(read) if len(columns) == width], dtype=np.int64)
            bits = np.array([[bit[column] for column in read[i]] for i in alike], dtype=np.int64)
            picks = np.arange(1 << width)[:, None] >> np.arange(width) & 1
            lists.append((bits.reshape(len(alike), width) @ picks.T).ravel())
            owners.append(np.repeat(alike, 1 << width))
        self._owners = np.concatenate(owners)
        found, self._sets = np.unique(np.concatenate(lists), return_inverse=True)
        inside = [(found & mask != 0, sizes[column]) for column, mask in bit.items()]
        self._numbers = found
        self._bits = [(column, mask) for column, mask in bit.items() if sizes[column] > 1]
        self.orders = np.sum([within for within, size in inside if size > 1], axis=0, dtype=np.int64)
        self.cells = np.prod([np.where(within, size, 1.0) for within, size in inside], axis=0)
        self.dimensions = np.prod([np.where(within, size - 1.0, 1.0) for within, size in inside], axis=0)
        self.dimensions[self.orders == 0] = 0.0  # the total is known
        self.times = np.bincount(self._sets).astype(np.float64)
        self.coverage = np.bincount(self._sets, weights=1 / self.volumes[self._owners])

    @classmethod
    def of(cls, workload: Workload) -> Interactions | None:
        """None where some questions are no marginals, or there are too many sets of columns to list."""
        marginals = all(isinstance(block, Marginal) for block in workload.blocks)
        few = 0 < len(workload.columns) < 63 and sum(2.0 ** len(b.columns) for b in workload.blocks) <= MOST_SETS
        return cls(workload) if marginals and few else None

    def least_squares(self, noise: float, *, kind: Kind = "gaussian") -> Errors:
        """What noise of this deviation on every cell of every marginal leaves after least squares: exact."""
        # Per deviation of the noise, whose square may be too small for a float.
        unit = self._errors(self.dimensions * self._averaging(1.0)).deviations
        # In the estimate of a cell its own noise has the weight Var/σ²: 1 where marginals have nothing in common.
        own = min(float(self.volumes @ unit**2 / self.volumes.sum()), 1.0)
        return Errors(
            deviations=noise * unit, volumes=self.volumes, unshrunk=noise * unit, own=own if noise else 0.0, kind=kind
        )

    def fitted(
        self, noise: float, *, kind: Kind = "gaussian", ridge: float = 1.0, share: float = 1.0, chosen: bool = False
    ) -> Errors:
        """What a maximum-entropy fit leaves.

        A set of columns that the measured marginals hold μ times on average is measured with probability q = min(1, μ).
        Marginals that are chosen for being the most wrong show the largest interactions first. Were sizes exponential,
        those left out would then have 1 − q(1 + t + t²/2) of all squares, with t = −ln q, instead of 1 − q. What the
        ridge shrinks away is counted as no error: it was smaller than its noise.

        Args:
            noise: The deviation of the noise on each cell, as a fraction of the rows.
            kind: The kind of noise.
            ridge: The strength of the fit's ridge, as `fit_histogram` takes it.
            share: The share of the marginals that is measured.
            chosen: Whether those were chosen for being the most wrong; otherwise they are spread evenly.
        """
        share = min(share, 1.0)
        measured = np.minimum(1.0, share * self.times)
        averaging = self._averaging(share) * measured
        kappa = ridge * np.array(KAPPA)[np.clip(self.orders, 1, len(KAPPA)) - 1]
        variance = SKEW**self.orders / self.cells
        kept = variance / (variance + kappa * noise * np.sqrt(averaging / self.cells))
        squares = measured * averaging * (kept * noise) ** 2
        left = 1 - measured
        if chosen:
            late = -np.log(np.maximum(measured, 1e-12))
            left = np.clip(1 - measured * (1 + late + late**2 / 2), 0, 1)
        signal = SKEW**self.orders * FADING ** (2.0 - 2.0 * self.orders)
        errors = self._errors(self.dimensions * (squares + left * signal))
        if share < 1:
            return errors
        plain = self.least_squares(noise, kind=kind)
        # Of a table with fewer rows than the noise has, no cell is large enough to keep its own.
        return replace(plain, deviations=errors.deviations, own=plain.own / (1 + noise))

    def planned(self, deviations: Mapping[tuple[int, ...], float], *, fitted: bool = True) -> Errors:
        """What residuals that are measured one by one leave, as `fitted` says it of whole marginals.

        Args:
            deviations: For each set of columns the deviation of the noise on its residual before it is projected, as a
                fraction of the rows.
            fitted: Whether a maximum-entropy fit follows; without one the errors are those of the sums, exactly.
        """
        spread = np.array([deviations.get(columns, 0.0) for columns in self.sets])
        kappa = np.array(KAPPA)[np.clip(self.orders, 1, len(KAPPA)) - 1] if fitted else np.zeros(len(spread))
        variance = SKEW**self.orders / self.cells
        kept = variance / (variance + kappa * spread)
        return self._errors(self.dimensions * self.cells * (kept * spread) ** 2)

    @property
    def sets(self) -> list[tuple[int, ...]]:
        """The columns of each interaction, ascending."""
        return [tuple(column for column, mask in self._bits if number & mask) for number in self._numbers.tolist()]

    def _averaging(self, share: float) -> Vector:
        """1/A_S where this share of the marginals is measured."""
        return np.asarray(1 / (share * self.coverage))

    def _errors(self, squares: Vector) -> Errors:
        summed = np.bincount(self._owners, weights=squares[self._sets], minlength=len(self.volumes))
        deviations = np.sqrt(summed) / self.volumes
        return Errors(deviations=deviations, volumes=self.volumes, unshrunk=deviations)

"""From noisy marginals to a histogram: maximum entropy.

The measured marginals are pooled into one noisy measurement ȳ_S, of deviation σ_S, for each interaction S of their
columns (`residuals`). The fit minimises, over distributions p on the universe,

    KL(p ‖ uniform) + Σ_S ‖R_S p − ȳ_S/N‖² / (2 λ_S),      λ_S = κ σ_S / N,

by its dual, log Z(θ) − ⟨θ, ȳ/N⟩ + ½ Σ λ_S ‖θ_S‖² with p ∝ exp(Σ θ). The dual is smooth, strongly convex and free of
constraints: p is non-negative with sum 1 whatever the noise did. The ridge λ keeps the fit from chasing the noise;
L-BFGS solves it, and the gradient at the end says whether it did. On request the ridge follows what was measured: it
is larger where that is mostly noise (`independence`), and smaller where an interaction stands out of its noise. Such
ones are found by their misses, and the fit is solved again; so are single cells (`standing_out`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.synopses.fitting.lbfgs import Vector

from .independence import adapted, softmax
from .lbfgs import dot, minimise
from .residuals import Part, Residuals, Target
from .standing_out import StandingOut

_LEAST_RIDGE = 1e-9
# κ for interactions of one, two, and three or more columns. Chosen on NLTCS (all 3-way marginals, three noise levels)
# and on 7 columns of Adult (all or some 3-way marginals): high interactions are mostly noise and shrink most.
KAPPA = (0.5, 1.0, 4.0)
_HIDDEN = 0.05


class CannotFit(ValueError):
    """Measurements to which no histogram can be fitted."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A marginal with noise: one count per cell, row-major in the order of `columns`, each with deviation `sigma`.

    With `parts`, the part 0, 1, … of each cell of the marginal, the counts are those of the parts instead. With
    `shares` there are two parts, and each cell lies in the second with its share, from 0 to 1, and else in the first.
    """

    columns: tuple[int, ...]
    counts: Vector
    sigma: float
    parts: NDArray[np.int64] | None = None
    shares: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts, dtype=np.float64).ravel()
        if not np.isfinite(counts).all() or not math.isfinite(self.sigma) or self.sigma < 0:
            raise CannotFit("a measured marginal has finite counts and a finite noise scale, zero or more")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "counts", counts)
        if self.parts is not None:
            parts = np.asarray(self.parts, dtype=np.int64).ravel()
            if parts.size and (parts.min() < 0 or parts.max() >= counts.size):
                raise CannotFit("a part of a marginal has a count")
            object.__setattr__(self, "parts", parts)
        if self.shares is not None:
            shares = np.asarray(self.shares, dtype=np.float64).ravel()
            if counts.size != 2 or self.parts is not None or not ((shares >= 0) & (shares <= 1)).all():
                raise CannotFit("shares of cells lie between 0 and 1, and make two parts")
            object.__setattr__(self, "shares", shares)


Potentials = dict[Part, Vector]
"""The dual solution of a fit, by feature; starts the next one wherever they share features."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """A fitted histogram, with what says how well it was solved.

    `weights` has one weight per cell, with sum 1. `gradient` is the largest absolute entry of the dual gradient, in
    fractions: by how much the fit misses its own conditions anywhere. `potentials` starts the next fit.
    """

    weights: Vector
    converged: bool
    gradient: float
    evaluations: int
    potentials: Potentials


def fit_histogram(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    *,
    start: Potentials | None = None,
    steps: int = 200,
    ridge: float = 1.0,
    tolerance: float | None = None,
    refits: int = 0,
    adapt: bool = False,
    heavy_tails: bool = False,
) -> Fit:
    """Fit the maximum-entropy histogram to noisy marginals of a table of `total` rows.

    `start` is the `potentials` of an earlier fit; `steps` bounds the evaluations; `ridge` multiplies every κ. The fit
    counts as converged once every condition holds to within `tolerance`, by default a fiftieth of the smallest noise,
    in fractions, and never finer than 1e-7. Interactions and cells that the ridge holds further from their measurement
    than noise explains get a smaller one, and the fit is solved again, at most `refits` times; `heavy_tails` says that
    the noise is Laplace. With `adapt` the ridge is larger where measurements are mostly noise around independent
    columns.
    """
    measurements = [in_schema_order(domain, measurement) for measurement in measurements]
    fractions = as_fractions(measurements, total)
    if not any(measurement.columns for measurement in measurements):
        uniform = np.full(domain.cells, 1 / domain.cells)
        return Fit(weights=uniform, converged=True, gradient=0.0, evaluations=0, potentials={})
    sigmas = [max(measurement.sigma / total, _LEAST_RIDGE) for measurement in measurements]
    targets = [
        Target(measurement.columns, y, 1 / sigma**2, measurement.parts, measurement.shares)
        for measurement, y, sigma in zip(measurements, fractions, sigmas)
    ]
    residuals = Residuals(domain.sizes, targets)
    pooled = residuals.pool(targets)
    tolerance = max(min(sigmas) / 50, 1e-7) if tolerance is None else tolerance
    return _fit_pooled(
        residuals,
        *pooled,
        targets=targets,
        heavy_tails=heavy_tails,
        ridge=ridge,
        start=start,
        steps=steps,
        tolerance=tolerance,
        refits=refits,
        adapt=adapt,
    )


def fit_residuals(
    domain: Domain,
    measured: Sequence[tuple[tuple[int, ...], Vector, float]],
    total: float,
    *,
    steps: int = 200,
    ridge: float = 1.0,
    refits: int = 0,
    adapt: bool = False,
) -> Fit:
    """Fit the maximum-entropy histogram to residuals that were measured one by one, as `fit_histogram` does to those
    that it pools from marginals.

    Args:
        domain: The columns of the histogram.
        measured: For each residual its columns in ascending order, its table in counts, row-major, and the deviation of
            the noise before it was projected. Of a set of columns all subsets are among them, but for the empty one.
        total: The number of rows.
        steps: A bound on the evaluations.
        ridge: Multiplies every κ.
        refits: How often the fit may be solved again where the ridge hid an interaction.
        adapt: Whether the ridge is larger where residuals are mostly noise around independent columns.
    """
    if not math.isfinite(total) or total <= 0 or not measured:
        raise CannotFit("a fit needs a positive number of rows, and something that was measured")
    shares = {columns: table / total for columns, table, _ in measured}
    sigmas = {columns: max(sigma / total, _LEAST_RIDGE) for columns, _, sigma in measured}
    smaller = (columns[:at] + columns[at + 1 :] for columns in shares for at in range(len(columns)))
    if any(columns and columns not in shares for columns in smaller):
        raise CannotFit("residuals are measured of all subsets of some columns")
    residuals = Residuals(domain.sizes, (), shares)
    sets = [columns for columns, _ in residuals.keys]
    wanted = np.concatenate([shares[columns] for columns in sets])
    precision = np.concatenate([np.full(shares[columns].size, 1 / sigmas[columns] ** 2) for columns in sets])
    marginals = residuals.put_together(wanted)
    tolerance = max(min(sigmas.values()) / 50, 1e-7)
    return _fit_pooled(
        residuals,
        marginals,
        wanted,
        precision,
        ridge=ridge,
        start=None,
        steps=steps,
        tolerance=tolerance,
        refits=refits,
        adapt=adapt,
    )


def _fit_pooled(
    residuals: Residuals,
    marginals: Vector,
    wanted: Vector,
    precision: Vector,
    *,
    targets: Sequence[Target] = (),
    heavy_tails: bool = False,
    ridge: float,
    start: Potentials | None,
    steps: int,
    tolerance: float,
    refits: int,
    adapt: bool,
) -> Fit:
    """Solve the fit to one measurement of each feature, and again where the ridge hid an interaction, or cells of the
    targets that these are pooled from."""
    # What is measured r times, with a ridge each, has an r-th of it: √r times as much is the ridge of their average.
    repeats = np.sqrt(residuals.repeats(precision))
    strength = np.maximum(ridge * residuals.by_order(KAPPA) * repeats / np.sqrt(precision), _LEAST_RIDGE)
    strength, base = adapted(residuals, wanted, precision, strength) if adapt else (strength, None)
    solve = partial(solve_dual, steps=steps, tolerance=tolerance, base=base)
    fit = solve(residuals, marginals, wanted, strength, start=start)
    out, first = StandingOut(residuals.sizes, targets, chance=_HIDDEN, heavy_tails=heavy_tails), residuals.length
    for _ in range(refits):
        strength, loosened = _loosen(residuals, fit, strength, precision)
        if out.more(fit.weights):
            # Features of these cells come after all others, which stay as they are.
            residuals = Residuals(residuals.sizes, [*targets, *out.targets])
            marginals, wanted, precision = residuals.pool([*targets, *out.targets])
            own = ridge * KAPPA[0] / np.sqrt(precision[first:])
            strength = np.concatenate([strength[:first], np.maximum(own, _LEAST_RIDGE)])
        elif not loosened:
            break
        again = solve(residuals, marginals, wanted, strength, start=fit.potentials)
        fit = replace(again, evaluations=fit.evaluations + again.evaluations)
    return fit


def _loosen(residuals: Residuals, fit: Fit, ridge: Vector, precision: Vector) -> tuple[Vector, bool]:
    """The ridge, smaller where it hides what was measured; and whether it is anywhere.

    At the solution the fit misses the measurement of an interaction by ridge · θ. Noise of d dimensions alone would
    make a miss whose square, in units of the noise, is χ² with d degrees of freedom, and the ridge only shortens it:
    that one of all interactions passes the quantile taken here has a probability below `_HIDDEN`. Where none of them
    does, but all together miss more than noise would, each by a little, the ridge is smaller for all.
    """
    from scipy.special import chdtri  # a quarter of a second, which only a fit needs

    entries, dimensions = residuals.interactions()
    squares = np.square(ridge * _flat(residuals, fit.potentials)) * precision
    missed = np.bincount(entries, weights=squares, minlength=len(dimensions))
    hidden = (dimensions > 0) & (missed > chdtri(np.maximum(dimensions, 1), _HIDDEN / len(dimensions)))
    factors = np.where(hidden, dimensions / np.maximum(missed, 1e-300), 1.0)
    freedom, together = int(dimensions.sum()), float(missed[dimensions > 0].sum())
    if not hidden.any() and freedom and together > chdtri(freedom, _HIDDEN):
        hidden, factors = dimensions > 0, np.where(dimensions > 0, freedom / together, 1.0)
    return np.maximum(ridge * factors[entries], _LEAST_RIDGE), bool(hidden.any())


def in_schema_order(domain: Domain, measurement: Measurement) -> Measurement:
    """The same marginal with its columns in ascending order, checked against the domain."""
    columns = measurement.columns
    if len(set(columns)) != len(columns) or any(not 0 <= c < len(domain) for c in columns):
        raise CannotFit("a measured marginal names distinct columns of the table")
    order = sorted(range(len(columns)), key=columns.__getitem__)
    ascending = tuple(columns[i] for i in order)

    def reordered(cells: NDArray[Any]) -> NDArray[Any]:
        if cells.size != math.prod(domain.shape(columns)):
            raise CannotFit("a measured marginal has one count, or the number of a part, for each of its cells")
        return cells.reshape(domain.shape(columns)).transpose(order).ravel()

    if measurement.shares is not None:
        return Measurement(ascending, measurement.counts, measurement.sigma, shares=reordered(measurement.shares))
    if measurement.parts is None:
        return Measurement(ascending, reordered(measurement.counts), measurement.sigma)
    return Measurement(ascending, measurement.counts, measurement.sigma, parts=reordered(measurement.parts))


def as_fractions(measurements: Sequence[Measurement], total: float) -> list[Vector]:
    """The measured marginals as fractions, each shifted to sum 1 exactly.

    The shift is the Euclidean projection onto what every marginal of a distribution satisfies: it removes noise only.
    """
    if not math.isfinite(total) or total <= 0:
        raise CannotFit("a fit needs a positive number of rows")
    fractions = []
    for measurement in measurements:
        share = measurement.counts / total
        fractions.append(share + (1 - share.sum()) / share.size)
    return fractions


def solve_dual(
    residuals: Residuals,
    marginals: Vector,
    wanted: Vector,
    ridge: Vector,
    *,
    start: Potentials | None,
    steps: int,
    tolerance: float,
    base: Vector | None = None,
) -> Fit:
    """Minimise KL(p ‖ base) + ½ Σ (features of p − wanted)² / ridge over distributions p, by the dual.

    `base` has the logarithms of its weights; without it the base is uniform.
    """
    offset = 0.0 if base is None else base
    # Scaling by the diagonal of the Hessian rounds the level sets; `marginals` need only be rough.
    scale = 1 / np.sqrt(residuals.variances(marginals, wanted) + ridge)
    latest = math.inf

    def dual(scaled: Vector) -> tuple[float, Vector]:
        nonlocal latest
        theta = residuals.centred(scaled * scale)
        spread = residuals.spread(theta)
        spread += offset
        weights, log_mass = softmax(spread, out=spread)
        value = log_mass - dot(theta, wanted) + 0.5 * dot(theta, ridge * theta)
        gradient = residuals.of(weights) - wanted + ridge * theta
        latest = float(np.abs(gradient).max())
        return value, residuals.centred(gradient) * scale

    first = _flat(residuals, start or {}) / scale
    scaled, evaluations = minimise(dual, first, evaluations=steps, solved=lambda: latest <= tolerance)
    theta = residuals.centred(scaled * scale)
    weights, _ = softmax(residuals.spread(theta) + offset)
    gradient = float(np.abs(residuals.of(weights) - wanted + ridge * theta).max())
    return Fit(
        weights=weights,
        converged=gradient <= tolerance,
        gradient=gradient,
        evaluations=evaluations,
        potentials=_named(residuals, theta),
    )


def _named(residuals: Residuals, theta: Vector) -> Potentials:
    return dict(zip(residuals.keys, np.split(theta, residuals.offsets[1:-1])))


def _flat(residuals: Residuals, start: Potentials) -> Vector:
    theta = np.zeros(residuals.length)
    for key, at, end in zip(residuals.keys, residuals.offsets, residuals.offsets[1:]):
        known = start.get(key)
        if known is not None and known.size == end - at:
            theta[at:end] = known
    return theta

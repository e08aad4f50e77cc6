"""The Euclidean projection of noisy marginals onto what tables can have: the book's Algorithm 18 on the simplex.

Minimises f(p) = ½ Σ_c ‖M_c p − y_c/N‖² over distributions p, so that N · M p is the point of N · conv{columns of M}
nearest to the noisy answers. The method is accelerated mirror descent with the entropy, whose steps are multiplicative
weights. The Frank–Wolfe gap ⟨∇f(p), p⟩ − min ∇f(p) bounds f(p) − min f, and f is 1-strongly convex in the answers: the
answers returned are within √(2·gap) of the true projection, which is the certificate that comes with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from conspectus.data.domain import Domain
from conspectus.synopses.fitting.lbfgs import Vector

from .independence import softmax
from .lbfgs import dot
from .max_entropy import CannotFit, Measurement, as_fractions, in_schema_order
from .residuals import Residuals, Target


@dataclass(frozen=True, eq=False, kw_only=True)
class LeastSquaresFit:
    """A distribution whose marginals are nearly the projection. `distance` bounds how far all its answers together,
    as fractions and in Euclidean distance, are from the exact projection's."""

    weights: Vector
    gap: float
    distance: float
    converged: bool
    evaluations: int


def project_simplex(values: Vector, total: float = 1.0) -> Vector:
    """The point of {x ≥ 0, Σ x = total} nearest to `values`, exactly: values − τ, cut off at zero."""
    values = np.asarray(values, dtype=np.float64)
    if not values.size or not np.isfinite(values).all() or not math.isfinite(total) or total < 0:
        raise CannotFit("a projection onto a simplex needs finite numbers and a total of zero or more")
    descending = np.sort(values, axis=None)[::-1]
    # With the k largest positive, τ is their mean surplus; the largest k whose least entry stays above τ is right.
    shifts = (np.cumsum(descending) - total) / np.arange(1, descending.size + 1)
    last = int(np.flatnonzero(descending >= shifts)[-1]) if total > 0 else 0
    return np.asarray(np.maximum(values - shifts[last], 0.0))


def fit_least_squares(
    domain: Domain,
    measurements: Sequence[Measurement],
    total: float,
    *,
    steps: int = 500,
    tolerance: float | None = None,
) -> LeastSquaresFit:
    """Project noisy marginals onto the marginals of tables with `total` rows, all cells weighing the same.

    Stops once the gap is at most `tolerance`: by default a fiftieth of √(2 ln |X| Σ_c σ_c²) / N, the size of the
    noise's inner product with a column of M, on which the error of the exact projection itself depends (Lemma 12.9);
    further steps would only follow the noise.
    """
    measurements = [in_schema_order(domain, measurement) for measurement in measurements]
    fractions = as_fractions(measurements, total)
    uniform = np.full(domain.cells, 1 / domain.cells)
    if not any(measurement.columns for measurement in measurements):
        return LeastSquaresFit(weights=uniform, gap=0.0, distance=0.0, converged=True, evaluations=0)
    targets = [Target(m.columns, y, 1.0, m.parts, m.shares) for m, y in zip(measurements, fractions)]
    residuals = Residuals(domain.sizes, targets)
    _, wanted, strength = residuals.pool(targets)
    if tolerance is None:
        noise = math.sqrt(sum(m.sigma**2 for m in measurements)) / total
        tolerance = max(0.02 * noise * math.sqrt(2 * math.log(max(domain.cells, 2))), 1e-9)
    weights, gap, made = _accelerated(residuals, wanted, strength, uniform, steps, tolerance)
    gap = max(gap, 0.0)
    distance = math.sqrt(2 * gap)
    return LeastSquaresFit(weights=weights, gap=gap, distance=distance, converged=gap <= tolerance, evaluations=made)


def _accelerated(
    residuals: Residuals, wanted: Vector, strength: Vector, first: Vector, steps: int, tolerance: float
) -> tuple[Vector, float, int]:
    """The distribution with the smallest gap seen, its gap, and the number of gradients computed.

    Everything is quadratic, so misses (features minus wanted) of mixtures are mixtures of misses, and each step costs
    one pass to the features and one back.
    """
    slow, fast, logits = first, first, np.log(first)
    miss_slow = miss_fast = residuals.of(first) - wanted
    smoothness, mass = max(float(strength.max()) / 8, 1e-3), 0.0
    best, best_gap, made = first, math.inf, 0
    while made < steps and best_gap > tolerance:
        rate = (1 + math.sqrt(1 + 4 * mass * smoothness)) / (2 * smoothness)
        share = rate / (mass + rate)
        point = slow + share * (fast - slow)
        gradient = residuals.spread(strength * (miss_slow + share * (miss_fast - miss_slow)))
        made += 1
        gap = dot(gradient, point) - float(gradient.min())
        if gap < best_gap:
            best, best_gap = point, gap
        new_logits = logits - rate * gradient
        new_fast, _ = softmax(new_logits)
        new_miss = residuals.of(new_fast) - wanted
        change = share * (new_miss - miss_fast)
        length = share * float(np.abs(new_fast - fast).sum())
        if dot(strength * change, change) > smoothness * length * length + 1e-18:
            smoothness *= 2  # the step was longer than the curvature allows
            continue
        slow = slow + share * (new_fast - slow)
        miss_slow = miss_slow + share * (new_miss - miss_slow)
        fast, miss_fast, logits, mass = new_fast, new_miss, new_logits, mass + rate
        smoothness *= 0.9
    return best, best_gap, made

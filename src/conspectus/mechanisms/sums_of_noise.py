"""What to expect of answers that are sums of independent noises: the largest of many, and the width of an interval."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from conspectus.privacy.events import Noise
from conspectus.privacy.tails import sum_quantile

from .bounds import FAILURE

_USUAL = math.exp(-np.euler_gamma)
"""How many of many independent noises are about as large as the mean of the largest: Gumbel's law."""


def half_width(law: Noise) -> float:
    """Half the width of the interval of one number with this noise, which fails with probability `FAILURE`."""
    return float(sum_quantile(law.kind, law.scale, 1, 1 - FAILURE))


def largest_of(spreads: NDArray[np.float64], law: Noise, *, single: NDArray[np.bool_]) -> tuple[float, float]:
    """About the largest and the mean size of errors with these deviations; of one noise where `single`, else normal."""
    if not spreads.size or not spreads.max() > 0:
        return 0.0, 0.0
    held, times = np.unique(np.stack([spreads, single.astype(np.float64)]), axis=1, return_counts=True)
    sizes, alone = held[0], (held[1] > 0) & (law.kind == "laplace")
    kept = sizes > 0
    sizes, alone, times = sizes[kept], alone[kept], times[kept]
    means = np.where(alone, sizes / math.sqrt(2), sizes * math.sqrt(2 / math.pi))
    mean = float((means * times).sum() / spreads.size)
    if times.sum() <= 1:
        return float(means.max()), mean

    def beyond(t: float) -> float:
        normal = 2 * ndtr(-t / sizes)
        tails = np.where(alone, np.exp(-t * math.sqrt(2) / sizes), normal)
        return float((tails * times).sum()) - _USUAL

    top = float(sizes.max())
    return float(brentq(beyond, 0.0, top * (math.log(times.sum()) + 60))), mean


def typical_width(spreads: NDArray[np.float64], law: Noise, *, single: NDArray[np.bool_]) -> float:
    """About how far the ends of a 95 % interval are from an answer, for a usual query."""
    if not spreads.size:
        return 0.0
    alone = bool(np.median(single.astype(np.float64))) and law.kind == "laplace"
    return float(np.median(spreads)) * (math.log(20) / math.sqrt(2) if alone else 1.96)

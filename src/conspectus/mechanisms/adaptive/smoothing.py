"""Noisy counts of one column to shares: smoothed along its order where it has one, and put back among tables."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHORTEST = 8
"""Ordered columns with fewer values are left as they are: there is nothing to borrow from."""


def smoothed(counts: Floats, deviation: float, strictness: float) -> Floats:
    """Noisy counts along an order, without the wavelet details that noise of this deviation explains.

    Haar details of all shifts and of every length that is a power of two, those of at most `strictness`·√(2 ln n)
    deviations set to 0 (hard thresholds keep spikes), averaged over the shifts; the ends are mirrored.
    """
    size = len(counts)
    approximation = np.concatenate([counts, counts[::-1]])
    limit = strictness * math.sqrt(2 * math.log(size)) * deviation
    details = []
    for level in range(max(1, int(math.log2(size)))):
        limit /= math.sqrt(2)
        later = np.roll(approximation, -(1 << level))
        detail = (approximation - later) / 2
        details.append(np.where(np.abs(detail) > limit, detail, 0.0))
        approximation = (approximation + later) / 2
    for level in reversed(range(len(details))):
        detail = details[level]
        approximation = (approximation + detail + np.roll(approximation - detail, 1 << level)) / 2
    return approximation[:size]


def to_simplex(counts: Floats, total: float) -> Floats:
    """The nearest counts, in least squares, that are zero or more and add up to a total above 0."""
    falling = np.sort(counts)[::-1]
    shift = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    last = int(np.flatnonzero(falling > shift)[-1])
    return np.asarray(np.maximum(counts - shift[last], 0.0))

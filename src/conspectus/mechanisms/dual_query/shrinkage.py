"""Many noisy shares, each moved to its posterior mean: together they tell how much of each is noise.

Take half a million items that hardly anybody has, each measured with the same noise. Clipped at 0, their shares would
be mostly noise, and all of it upwards. So a distribution of the true shares is fitted to all the noisy ones, by maximum
likelihood over distributions on a grid, and each share becomes its posterior mean under it. This is post-processing: it
reads noisy numbers and the public law of their noise alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from conspectus.privacy.events import Noise

FEWEST = 200
"""With fewer shares no distribution is fitted: it would be as noisy as they are."""

LEAST_SCALE = 1 / 1024
"""Smaller noise is left alone: there is little to gain, and the grid would have to be very fine."""

_STEPS = 100
_MOST_BINS = 2048
_SMALL = np.geomspace(1e-5, 0.01, 48)


def posterior_means(noisy: NDArray[np.float64], law: Noise, *, total: float) -> NDArray[np.float64]:
    """The shares behind noisy ones, each in [0, 1]; `law` is the noise on counts out of `total`."""
    scale = law.scale / total
    if len(noisy) < FEWEST or scale < LEAST_SCALE:
        return np.clip(noisy, 0.0, 1.0)
    even = np.linspace(0.0, 1.0, int(np.ceil(1 / min(scale, 0.1))) + 1)
    grid = np.unique(np.concatenate([even, _SMALL, 1 - _SMALL]))
    low, high = float(noisy.min()), float(noisy.max())
    bins = int(min(_MOST_BINS, max(2, np.ceil(8 * (high - low) / scale))))
    times, edges = np.histogram(noisy, bins=bins, range=(low, max(high, low + 1e-9)))
    centres = (edges[1:] + edges[:-1]) / 2
    away = np.abs(centres[:, None] - grid) / scale
    log = -away if law.kind == "laplace" else -away * away / 2
    likely = np.exp(log - log.max(axis=1, keepdims=True))
    prior = np.full(len(grid), 1 / len(grid))
    for _ in range(_STEPS):
        mixed = likely * prior
        prior = (times / mixed.sum(axis=1)) @ mixed / len(noisy)
    mixed = likely * prior
    means = mixed @ grid / mixed.sum(axis=1)
    return np.asarray(np.interp(noisy, centres, means))

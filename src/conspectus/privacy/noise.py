"""Exact discrete noise on integer counts, and the randomness behind it. Sealed: only the curator adds it to the truth.

Noise that is drawn in floats gives the truth away in its last digits. Both laws here are OpenDP's: exact rational
arithmetic on the rational number that the given float *is*, and no float ever touches a drawn value. An event is priced
with `Fraction(scale)`, never with the number that the float stands for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from .events import Kind, check_scale

Counts = NDArray[np.int64]

_BLOCK = 1 << 13  # draws per call of the library: long enough to forget the call, short enough to share between threads


class Sampler(Protocol):
    """A source of uniform bytes. `private` is False when they can be foreseen, which happens in tests alone."""

    @property
    def private(self) -> bool: ...

    def bytes(self, count: int) -> bytes: ...


class SystemSampler:
    """The operating system's cryptographic randomness: the default, and the only private one."""

    private = True

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)


class UnsafeSeededSampler:
    """Randomness that a seed foretells, for tests only: whatever is drawn with it is NOT PRIVATE."""

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def bytes(self, count: int) -> bytes:
        return self._generator.bytes(count)

    def discrete_laplace(self, count: int, scale: float) -> Counts:
        """The difference of two geometric numbers, in floats."""
        stop = -math.expm1(-1.0 / scale)
        draws = self._generator.geometric(stop, (2, count))
        return cast(Counts, draws[0] - draws[1])

    def discrete_gaussian(self, count: int, sigma: float) -> Counts:
        """Rejection from a discrete Laplace of scale ⌊σ⌋ + 1, in floats."""
        scale = math.floor(sigma) + 1
        found = np.empty(0, np.int64)
        while len(found) < count:
            draws = self.discrete_laplace(2 * (count - len(found)) + 16, scale)
            accept = np.exp(-((np.abs(draws) - sigma * sigma / scale) ** 2) / (2 * sigma * sigma))
            found = np.concatenate((found, draws[self._generator.random(len(draws)) < accept]))
        return found[:count]


def discrete_laplace(values: Counts, scale: float, sampler: Sampler) -> Counts:
    """`values` plus independent discrete Laplace noise, P(Z = z) ∝ exp(−|z| / scale).

    Guarantee: if one unit moves `values` by at most Δ in L1 norm, the result is (Δ / scale)-differentially private,
    and (Δ / scale)² / 2 zero-concentrated. Sums are saturated to 64 bits after the noise: post-processing.
    """
    return _noisy("laplace", values, scale, sampler)


def discrete_gaussian(values: Counts, sigma: float, sampler: Sampler) -> Counts:
    """`values` plus independent discrete Gaussian noise, P(Z = z) ∝ exp(−z² / 2σ²).

    Guarantee: if one unit moves the integers `values` by at most Δ in L2 norm, the result is Δ² / 2σ² zero-concentrated
    differentially private. Sums are saturated to 64 bits after the noise: post-processing.
    """
    return _noisy("gaussian", values, sigma, sampler)


def _noisy(kind: Kind, values: Counts, scale: float, sampler: Sampler) -> Counts:
    # Refusals look at the public shape and scale alone: one that looked at the counts would answer a question.
    if values.dtype != np.int64 or values.ndim != 1:
        raise TypeError("noise is added to a one-dimensional array of 64-bit integers")
    check_scale(scale)
    if isinstance(sampler, UnsafeSeededSampler):
        drawn = sampler.discrete_laplace if kind == "laplace" else sampler.discrete_gaussian
        return values + drawn(len(values), scale)
    draw = _library_sampler(kind, scale)
    blocks = [values[start : start + _BLOCK].tolist() for start in range(0, len(values), _BLOCK)]
    if len(blocks) < 2:
        noisy = [draw(block) for block in blocks]
    else:
        # The library leaves the interpreter lock while it draws, and its samplers hold no state.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            noisy = list(pool.map(draw, blocks))
    return np.array([value for block in noisy for value in block], np.int64)


@lru_cache(maxsize=128)
def _library_sampler(kind: Kind, scale: float) -> Callable[[Sequence[int]], list[int]]:
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    counts = domains.vector_domain(domains.atom_domain(T="i64"))
    if kind == "laplace":
        made = measurements.make_laplace(counts, metrics.l1_distance(T="i64"), scale=scale)
    else:
        made = measurements.make_gaussian(counts, metrics.l2_distance(T="f64"), scale=scale)
    return cast(Callable[[Sequence[int]], list[int]], made)

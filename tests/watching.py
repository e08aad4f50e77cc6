"""The watch of a session at work where its guess is right, question by question in law, and without a table.

Given the noise of the threshold, every comparison is a false alarm with the same probability, so the number of
questions up to the next alarm is geometric: one draw for each hit, however many questions there are.
"""

from __future__ import annotations

import math

import numpy as np

from conspectus.curator.scores import ERROR_STEPS
from conspectus.mechanisms.sparse_vector import SparsePlan


def share_that_passes(plan: SparsePlan, questions: int, error: float, *, runs: int, seed: int) -> float:
    """The share of runs in which all questions are answered with a guarantee, where every guess is off by `error`.

    After the last hit that was paid for nothing more is; the hit itself is answered.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    margin = math.floor(plan.threshold * ERROR_STEPS) - math.ceil(error * ERROR_STEPS)
    hiding, comparing = (noise.scale * ERROR_STEPS for noise in (plan.threshold_noise, plan.error_noise))
    done = np.zeros(runs)
    threshold = _laplace(rng, hiding, runs)
    for _ in range(plan.hits):
        done += rng.geometric(np.maximum(_upper(comparing, margin + threshold), 1e-15))
        if not plan.one_threshold:
            threshold = _laplace(rng, hiding, runs)
    return float((done >= questions).mean())


def _laplace(rng: np.random.Generator, scale: float, runs: int) -> np.ndarray:
    """Discrete Laplace noise: the difference of two geometric numbers."""
    miss = -math.expm1(-1 / scale)
    return (rng.geometric(miss, runs) - rng.geometric(miss, runs)).astype(np.float64)


def _upper(scale: float, t: np.ndarray) -> np.ndarray:
    tail = np.exp(-np.where(t > 0, t, 1 - t) / scale) / (1 + math.exp(-1 / scale))
    return np.where(t > 0, tail, 1 - tail)

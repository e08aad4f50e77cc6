"""SparseProject against its theorem: the error grows like √m, and stays below √m·ln k/ε times a constant."""

from __future__ import annotations

import math

import numpy as np
import pytest

import conspectus as cs

ROWS, EACH = 3000, 200
SIZES = (1, 4, 16, 64, 256)


@pytest.mark.parametrize("form", ["sparse", "dense"])
def test_the_error_grows_like_the_root_of_m(form):
    """Root mean squares over 200 queries have a relative deviation of at most 8 % (Laplace noise): a slope off by 0.12
    and a deviation off by half are beyond five deviations (1e-6); a slope of 0 or 1 is far outside."""
    rng = np.random.default_rng(4)
    queries = [rng.choice(ROWS, m, replace=False).tolist() for m in SIZES for _ in range(EACH)]
    workload = cs.sparse(queries)
    settings = {"size": 1 << 15} if form == "sparse" else {"form": "dense", "size": 2048}
    release = cs.release(
        cs.open_records(list(range(ROWS))), workload, epsilon=1.0, delta=1e-6, mechanism="sparse-project", **settings
    )
    errors = release.answers * ROWS - np.array([len(query) for query in queries])
    deviations = np.sqrt(np.square(errors).reshape(len(SIZES), EACH).mean(axis=1))
    slope = np.polyfit(np.log(SIZES), np.log(deviations), 1)[0]
    assert abs(slope - 0.5) < 0.12
    bound = 16 * math.sqrt(3) * np.sqrt(SIZES) * math.log(len(queries) / 0.05)  # the constant of Theorem 4.9
    assert (deviations < bound).all()
    sigma = deviations[0]
    law = release.synopsis.noise
    expected = law.scale * (math.sqrt(2) if law.kind == "laplace" else 1) / math.sqrt(release.parameters["nonzeros"])
    spread = math.sqrt(expected**2 + ROWS / release.parameters["size"])
    assert 0.6 * spread < sigma < 1.5 * spread

"""Group means, totals and medians by OpenDP and diffprivlib, in an environment of their own; see bench/README.md.

`python numbers_peers.py IN OUT`: IN is an .npz file with `groups` (a code for each row), `values` (whole numbers from
`low` to `high`), `count` (how many groups), `epsilon` and `runs`; OUT gets one array for each answer of each library,
runs × groups. Neighbours add or remove one row. Every row is in one group, so each group has the whole ε.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import diffprivlib
import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib")


def opendp(values: np.ndarray, low: int, high: int, epsilon: float) -> tuple[float, float, float]:
    """(mean, total, median); the mean is a total and a count, each with half of ε."""
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    far = float(max(abs(low), abs(high)))
    data = [int(value) for value in values]
    summed = space >> dp.t.then_clamp((low, high)) >> dp.t.then_sum()
    counted = space >> dp.t.then_count()
    total = (summed >> dp.m.then_laplace(far / epsilon))(data)
    part = (summed >> dp.m.then_laplace(2 * far / epsilon))(data)
    rows = (counted >> dp.m.then_laplace(2 / epsilon))(data)
    candidates = list(range(low, high + 1))
    scale = 1.0
    for _ in range(60):  # the least scale whose price is ε
        ranked = space >> dp.m.then_private_quantile(dp.max_divergence(), candidates, 0.5, scale)
        price = ranked.map(1)
        if 0.999 * epsilon <= price <= epsilon:
            break
        scale *= price / epsilon * (1 + 1e-9)
    assert ranked.map(1) <= epsilon * (1 + 1e-9)
    return part / max(rows, 1), total, ranked(data)


def ibm(values: np.ndarray, low: int, high: int, epsilon: float) -> tuple[float, float, float]:
    """The same by diffprivlib, whose own mean takes the number of rows as public."""
    held = values if len(values) else np.array([low])
    half = epsilon / 2
    total = diffprivlib.tools.sum(values, epsilon=epsilon, bounds=(low, high))
    part = diffprivlib.tools.sum(values, epsilon=half, bounds=(low, high))
    rows = diffprivlib.tools.count_nonzero(np.ones(len(values)), epsilon=half)
    try:
        median = diffprivlib.tools.median(held.astype(float), epsilon=epsilon, bounds=(low, high))
    except RuntimeError:  # of many equal values: its probabilities are no numbers, and it draws nothing
        median = np.nan
    return part / max(rows, 1), total, median


def main() -> None:
    facts = np.load(sys.argv[1])
    low, high, epsilon = int(facts["low"]), int(facts["high"]), float(facts["epsilon"])
    order = np.argsort(facts["groups"], kind="stable")
    cuts = np.searchsorted(facts["groups"][order], np.arange(int(facts["count"]) + 1))
    parts = [facts["values"][order[a:b]] for a, b in pairwise(cuts)]
    told = {}
    for name, library in (("OpenDP", opendp), ("diffprivlib", ibm)):
        found = np.array([[library(part, low, high, epsilon) for part in parts] for _ in range(int(facts["runs"]))])
        for place, what in enumerate(("mean", "total", "median")):
            told[f"{name} {what}"] = found[:, :, place]
    np.savez(sys.argv[2], **told)


if __name__ == "__main__":
    main()

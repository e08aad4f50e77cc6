"""Made data from 50 to 512,000 attributes: error, time and memory of dual-query as the table grows wide."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import conspectus as cs
from bench import markdown, record
from bench.children import measured
from bench.made import BiasedCoins
from conspectus.counting.counters import count

ROWS, QUERIES = 100_000, 100_000
WIDTHS = (50, 200, 1_000, 10_000, 100_000, 512_000)
ALONE: dict[str, Any] = {"initial": "uniform", "responses": 1, "certificate": 0.0}


def main() -> None:
    found = [measured(lambda width=width: _width(width)) for width in WIDTHS]
    heads = ["attributes", "uniform baseline", "the paper's algorithm", "rounds × draws, step", "seconds"]
    heads += ["with paid marginals", "max error", "seconds", "of which counting", "peak memory"]
    lines = [
        [
            f"{row['width']:,}",
            f"{row['uniform']:.3f}",
            f"{row['alone']:.4f}",
            f"{row['rounds']} × {row['draws']:,}, {row['eta']:.2g}",
            f"{row['alone_seconds']:.0f}",
            f"{row['paid']:.4f}",
            f"{row['paid_max']:.3f}",
            f"{row['paid_seconds']:.0f}",
            f"{row['counting']:.0f}",
            f"{row['peak'] / 1024:.1f} GiB",
        ]
        for row in found
    ]
    note = (
        f"{ROWS:,} rows, each value of attribute i a coin of bias p_i, and p_i uniform; {QUERIES:,} random "
        "conjunctions of 3 literals, each negated with probability ½; ε = 1, δ = 0.001, one row replaced; "
        "average errors. Both columns of seconds hold the whole release, with the making of the rows, which "
        "are made as they are counted. The paper's algorithm: one row a round from a uniform start. With paid "
        "marginals: `dual-query` as it comes, whose rows start from noisy one-way marginals. The uniform "
        "baseline answers 1/8 everywhere."
    )
    record("dimension", "Many attributes", markdown(heads, lines) + "\n\n" + note, "python -m bench dimension")


def _settings(width: int) -> dict[str, Any]:
    """Steps and draws of the paper's algorithm for a width: many attributes need many draws, and small steps."""
    if width <= 1_000:
        return {"eta": 1.0, "draws": min(5_000, 40 * width)}
    return {"eta": 0.4, "draws": 50_000}


def _width(width: int) -> dict[str, Any]:
    table: Any = BiasedCoins(width, ROWS)
    workload = cs.random_conjunctions(table.schema, 3, QUERIES, public_seed=1, negations=True)
    start = time.perf_counter()
    counts, rows = count(workload, table.chunks(workload.columns))
    found: dict[str, Any] = {"width": width, "counting": time.perf_counter() - start}
    truth = counts / rows
    found["uniform"] = float(np.abs(truth - 0.125).mean())
    for name, settings in (("alone", {**ALONE, **_settings(width)}), ("paid", {})):
        start = time.perf_counter()
        release = cs.release(table, workload, epsilon=1.0, delta=1e-3, mechanism="dual-query", **settings)
        found[f"{name}_seconds"] = time.perf_counter() - start
        error = np.abs(release.answers - truth)
        found[name], found[f"{name}_max"] = float(error.mean()), float(error.max())
        if name == "alone":
            found |= {key: release.parameters[key] for key in ("rounds", "draws", "eta")}
        print(width, name, found, release.parameters, flush=True)
    return found


if __name__ == "__main__":
    main()

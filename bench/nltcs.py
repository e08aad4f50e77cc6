"""All 3-way marginals of NLTCS (21,574 rows, 16 two-valued columns) at ε = 1, δ = 1e-6, replace: accuracy and time."""

from __future__ import annotations

import time

import numpy as np

import conspectus as cs
from bench import data_file, markdown, record
from bench import reference_mwem as plain
from conspectus.counting.counters import count
from conspectus.mechanisms.mwem import RIDGE, Mwem
from conspectus.privacy.accounting import rho_of

RUNS, PLAIN_RUNS = 20, 2
EPSILON, DELTA = 1.0, 1e-6


def main() -> None:
    import pandas as pd

    frame = pd.read_csv(data_file("nltcs_named.csv.gz"))
    schema = cs.Schema.from_dict({"name": "nltcs", "columns": {name: {"type": "boolean"} for name in frame.columns}})
    table = cs.open_table(frame, schema)
    workload = cs.marginals(schema, 3)
    counts, rows = count(workload, table.chunks())
    truth = counts / rows
    lines = []
    seconds = {}
    for name in ("laplace", "gaussian", "iterative", "mwem", "projection"):
        cs.release(table, workload, epsilon=EPSILON, delta=DELTA, mechanism=name)  # compiles, fills caches
        lines.append([f"`{name}`", *_runs(lambda name=name: _release(table, workload, name), truth, seconds, name)])
    codes = frame.to_numpy().astype(np.int64)
    settings = Mwem()
    rounds = cs.release(table, workload, epsilon=EPSILON, delta=DELTA, mechanism="mwem").parameters["rounds"]

    def reference() -> np.ndarray:
        return plain.release(
            codes,
            3,
            rho=rho_of(EPSILON, DELTA) * (1 - settings.certificate),
            rounds=rounds,
            selection=settings.selection,
            evaluations=settings.evaluations,
            ridge=RIDGE,
            seed=int(time.time_ns() % 2**32),
        )

    lines.append(["`mwem` in plain numpy (reference)", *_runs(reference, truth, seconds, "plain", PLAIN_RUNS)])
    ratio = seconds["plain"] / seconds["mwem"]
    table_text = markdown(["mechanism", "max error", "mean error", "worst run's max", "seconds"], lines)
    note = (
        f"{RUNS} runs each, {PLAIN_RUNS} of the reference, means; δ = 1e-6, replace, {len(workload):,} cells. "
        "The package's `mwem` takes "
        f"1/{ratio:.1f} of the time of the plain numpy loop ({rounds} rounds of {settings.evaluations} evaluations)."
    )
    record("nltcs", "All 3-way marginals of NLTCS at ε = 1", table_text + "\n\n" + note, "python -m bench nltcs")


def _release(table, workload, name: str) -> np.ndarray:
    return cs.release(table, workload, epsilon=EPSILON, delta=DELTA, mechanism=name).answers


def _runs(play, truth, seconds, name, runs=RUNS) -> list[str]:
    worst, mean, took = [], [], []
    for _ in range(runs):
        start = time.perf_counter()
        answers = play()
        took.append(time.perf_counter() - start)
        errors = np.abs(answers - truth)
        worst.append(errors.max())
        mean.append(errors.mean())
    seconds[name] = float(np.median(took))
    return [f"{np.mean(worst):.4f}", f"{np.mean(mean):.4f}", f"{np.max(worst):.4f}", f"{seconds[name]:.2f}"]


if __name__ == "__main__":
    main()

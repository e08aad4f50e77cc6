"""How much accuracy synthetic rows lose: all 3-way marginals of Adult, from answers of `adaptive` and from its rows.

`BENCH_BUDGETS` sets the ε, `BENCH_RUNS` the number of runs of each line.
"""

from __future__ import annotations

import os
import time

import numpy as np

import conspectus as cs
from bench import markdown, record
from bench.ordinary_tables import adult
from conspectus.counting.counters import count

BUDGETS = tuple(float(each) for each in os.environ.get("BENCH_BUDGETS", "0.1,1,10").split(","))
RUNS = int(os.environ.get("BENCH_RUNS", "5"))
DELTA = 1e-9


def main() -> None:
    table = adult().table()
    workload = cs.marginals(table.schema, 3)
    counts, rows = count(workload, table.chunks())
    starts = np.array(workload.offsets[:-1])

    def distance(shares: np.ndarray) -> float:
        return float(np.add.reduceat(np.abs(shares - counts / rows), starts).mean())

    lines = []
    for epsilon in BUDGETS:
        found = []
        for run in range(RUNS):
            release = cs.release(table, workload, epsilon=epsilon, delta=DELTA, mechanism="adaptive", intervals=False)
            line = [distance(release.answers)]
            for times in (1, 10):
                begun = time.process_time()
                made = release.synopsis.sample(times * rows, public_seed=run)
                took = time.process_time() - begun
                line += [distance(count(workload, [made])[0] / (times * rows)), took]
            found.append(line)
        answers, once, once_took, ten, ten_took = np.mean(found, axis=0)
        farther = [f"{each:.4f} ({each / answers - 1:+.1%})" for each in (once, ten)]
        lines.append([f"{epsilon:g}", f"{answers:.4f}", farther[0], f"{once_took:.0f}", farther[1], f"{ten_took:.0f}"])
        print(" | ".join(lines[-1]), flush=True)
    heads = ["ε", "answers", "as many rows as the table", "processor s", "ten times as many", "processor s"]
    note = (
        f"Adult, 14 columns, {rows:,} rows, add-remove, δ = {DELTA:g}, {RUNS} runs: mean L1 distance of all 3-way "
        "marginals to the true ones, and how much larger it is than that of the answers."
    )
    text = markdown(heads, lines) + "\n\n" + note
    record("rows-tables", "Tables of synthetic rows", text, "python -m bench rows_tables")


if __name__ == "__main__":
    main()

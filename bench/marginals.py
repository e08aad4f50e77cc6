"""All 3-way marginals of small tables by `projection`: residuals or answers measured, and how often intervals hold.

NLTCS (δ = 1e-9) and seven columns of Adult (δ = 1/n²), add-remove and replace. Beside the error: the share of all cells
whose 95 % interval holds the truth, and the mean half-width, against that of each cell's own noise alone. Tables are
read by `bench.planner_cases`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import conspectus as cs
from bench import markdown, record
from bench.planner_cases import adult, nltcs
from conspectus.counting.counters import count
from conspectus.privacy.tails import sum_quantile
from conspectus.queries.workload import Workload

RUNS = 5


CASES = tuple(
    (name, neighbours, epsilon)
    for name, epsilons in (("NLTCS", (0.1, 1.0, 10.0)), ("Adult, 7 columns", (1.0,)))
    for neighbours in ("add-remove", "replace")
    for epsilon in (epsilons if neighbours == "add-remove" else (1.0,))
)


def run_case(number: int) -> list[list[str]]:
    """The lines of one case, for answers and for residuals."""
    name, neighbours, epsilon = CASES[number]
    (schema, table), delta = (nltcs(), 1e-9) if name == "NLTCS" else (adult(), 1 / 48_813**2)
    workload = cs.marginals(schema, 3)
    counts, rows = count(workload, table.chunks())
    given = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours}
    lines = []
    for measure in ("answers", "residuals"):
        found = [_run(table, workload, counts, rows, {**given, "measure": measure}) for _ in range(RUNS)]
        lines.append([name, neighbours, f"{epsilon:g}", measure, *_shown(np.array(found))])
    return lines


def main() -> None:
    lines = [line for number in range(len(CASES)) for line in run_case(number)]
    heads = ["table", "neighbours", "ε", "measured", "mean L1", "max cell", "covered", "half-width", "own noise", "s"]
    note = (
        f"{RUNS} runs each, means; all cells of all 3-way marginals. L1: between a true and a released marginal, "
        "averaged over marginals; total variation is half of it. Covered: the share of cells whose 95 % interval "
        "holds the truth; half-width: its mean, in counts; own noise: the half-width from the measurement of the cell "
        "alone, where answers are measured. δ = 1e-9 for NLTCS, 1/n² for Adult. Seconds are those of the processor. "
        "The constants of the plan were chosen on these two tables with other noise."
    )
    record(
        "marginals",
        "All 3-way marginals of small tables: what is measured, and intervals",
        markdown(heads, lines) + "\n\n" + note,
        "python -m bench marginals",
    )


def _run(table: Any, workload: Workload, counts: np.ndarray, rows: int, settings: dict[str, Any]) -> tuple[float, ...]:
    start = time.process_time()
    release = cs.release(table, workload, mechanism="projection", **settings)
    seconds = time.process_time() - start
    errors = np.abs(release.answers - counts / rows)
    held, wide = 0, 0.0
    for block, at, end in zip(workload.blocks, workload.offsets, workload.offsets[1:]):
        cells = Workload(workload.domain, (block,))
        low, high = release.synopsis.intervals(cells, 0.95, release.evidence)
        held += int(((low <= counts[at:end]) & (counts[at:end] <= high)).sum())
        wide += float((high - low).sum()) / 2
    scale = release.parameters.get("scale")
    alone = np.nan if scale is None else float(sum_quantile("gaussian", scale, 1, 0.95))
    cells = len(workload)
    return errors.sum() / len(workload.blocks), errors.max(), held / cells, wide / cells, alone, seconds


def _shown(found: np.ndarray) -> list[str]:
    l1, largest, held, wide, alone, seconds = found.mean(axis=0)
    own = "–" if np.isnan(alone) else f"{alone:.0f}"
    return [f"{l1:.4f}", f"{largest:.4f}", f"{held:.1%}", f"{wide:.0f}", own, f"{seconds:.1f}"]

"""All marginals of ordinary tables, add-remove: error, time and memory of `adaptive`, its rivals here, and peers.

`BENCH_RUNS` sets the number of runs of each line, and `BENCH_TABLES` names some of the tables of `ordinary_tables`:
only their lines are measured again, and the others stay as they are. Numbers of peers come from
`bench/peer_numbers.json`, which `python -m bench.peers` writes; an empty list of tables puts just these on the page.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import time
from itertools import combinations
from pathlib import Path

import numpy as np

import conspectus as cs
from bench import lines_of_page, markdown, record
from bench.ordinary_tables import CASES, Case
from conspectus.counting.counters import count
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload

RUNS = int(os.environ.get("BENCH_RUNS", "5"))
SOME_TRIPLES = 300
"""So many marginals of three columns are compared where only pairs are asked for, drawn with a public seed."""
MOST_CELLS = 1 << 18
"""Of each of them."""
HEADS = (
    "table",
    "marginals",
    "mechanism",
    "ε",
    "mean L1",
    "largest cell",
    "worst L1",
    "processor s",
    "s",
    "MB",
    "runs",
)
INTERVALS = "intervals" in {field.name for field in dataclasses.fields(cs.mechanisms.Adaptive)}
PEERS = Path(__file__).parent / "peer_numbers.json"
MEASURED = ("mean", "largest", "worst", "processor", "clock", "memory")
TITLES = {
    "opendp-mst": "MST, OpenDP 0.16",
    "opendp-aim": "AIM, OpenDP 0.16",
    "opendp-pairs": "AIM of pairs in 2 MB, OpenDP 0.16",
    "dpmm-mst": "MST, dpmm 0.1.9",
    "dpmm-aim": "AIM, dpmm 0.1.9",
}
NOTE = (
    "Means over the runs; add-remove, δ = 1e-9 (Adult, 7 columns: 1/n²), the same for all. L1 is the sum of |released "
    "− true| over the cells of a marginal, as a share of the rows: the mean over all marginals, and the largest; "
    "total variation is half of it. Seconds are those of a whole release, of the processors and on the clock, on two "
    "processors, with much other work beside ACS Income, one-hot columns and peers, whose clock says nothing. MB is "
    "the largest memory of the process, with the table and its true marginals. *3-way, not "
    f"asked* are {SOME_TRIPLES} marginals of three columns, of up to {MOST_CELLS:,} cells, that are answered by a "
    "release for all 2-way ones. `adaptive` runs without intervals, which are post-processing by reruns. "
    "Constants of `adaptive` were chosen on Adult and NLTCS, those for large budgets on Diabetic, how many mixtures "
    "of how many products it fits on columns of Diabetic and Census-Income, and how columns are denoised on columns of "
    "these two and of ACS Income. Peers "
    "ran in environments of their own (`bench/README.md`), with ρ by the tight conversion; *stopped* is the limit at "
    "which a run was ended."
)


def main() -> None:
    names = [name for name in os.environ.get("BENCH_TABLES", ",".join(CASES)).split(",") if name]
    fresh = {name: measured(CASES[name]()) for name in names}
    kept = [line for line in lines_of_page("ordinary") if line[2] not in TITLES.values()]
    lines: list[list[str]] = []
    for name, title in _titles().items():
        lines += fresh.get(name, [line for line in kept if line[0] == title])
        lines += _peer_lines(name, title)
    record(
        "ordinary",
        "All marginals of ordinary tables",
        markdown(HEADS, lines) + "\n\n" + NOTE,
        "python -m bench ordinary",
    )


def _titles() -> dict[str, str]:
    """Table names as the page has them, without reading a table."""
    return {
        "adult": "Adult, 14 columns",
        "small": "Adult, 7 columns",
        "nltcs": "NLTCS, 16 columns",
        "census": "Census-Income, 42 columns",
        "acs": "ACS Income, 11 columns of up to 529 values",
        "diabetic": "Diabetic, 48 columns",
        "kdd": "KDD Cup 99, 41 columns",
        "onehot": "made one-hot groups, 200 columns",
    }


def measured(case: Case) -> list[list[str]]:
    """The lines of one table, for each mechanism and budget."""
    table = case.table()
    workload = cs.marginals(table.schema, case.order)
    truth, starts = _truth(table, workload)
    asked = f"all {case.order}-way"
    further = None if case.order > 2 else _some_triples(table)
    lines = []
    runs = [(mechanism, epsilon) for mechanism in case.mechanisms for epsilon in case.budgets]
    for mechanism, epsilon in [*runs, *((rival, 1.0) for rival in case.rivals)]:
        # Intervals by reruns are post-processing with a benchmark of its own.
        settings = {"intervals": False} if mechanism == "adaptive" and INTERVALS else {}
        found, beyond = [], []
        for _ in range(RUNS):
            begun, used = time.perf_counter(), time.process_time()
            release = cs.release(table, workload, epsilon=epsilon, delta=case.delta, mechanism=mechanism, **settings)
            took = time.process_time() - used, time.perf_counter() - begun
            found.append((*_errors(release.answers, truth, starts), *took))
            if further is not None and mechanism == "adaptive":
                used, begun = time.process_time(), time.perf_counter()
                answers = release.synopsis.answer(further[0])
                more = took[0] + time.process_time() - used, took[1] + time.perf_counter() - begun
                beyond.append((*_errors(answers, *further[1:]), *more))
        start = [case.title, asked, f"`{mechanism}`", f"{epsilon:g}"]
        lines.append([*start, *_shown(found)])
        print(" | ".join(lines[-1]), flush=True)
        if beyond:
            lines.append([case.title, "3-way, not asked", *start[2:], *_shown(beyond)])
            print(" | ".join(lines[-1]), flush=True)
    return lines


def _truth(table: cs.Table, workload: Workload) -> tuple[np.ndarray, np.ndarray]:
    counts, rows = count(workload, table.chunks())
    return (counts / rows).astype(np.float32), np.array(workload.offsets[:-1])


def _some_triples(table: cs.Table) -> tuple[Workload, np.ndarray, np.ndarray]:
    domain = table.schema.domain
    every = [columns for columns in combinations(range(len(domain)), 3) if domain.project(columns).cells <= MOST_CELLS]
    rng = np.random.Generator(np.random.PCG64(1))
    drawn = sorted(every[i] for i in rng.choice(len(every), min(SOME_TRIPLES, len(every)), replace=False))
    workload = Workload(domain, tuple(Marginal(domain, columns) for columns in drawn))
    return (workload, *_truth(table, workload))


def _errors(answers: np.ndarray, truth: np.ndarray, starts: np.ndarray) -> tuple[float, float, float]:
    errors = np.abs(answers.astype(np.float32) - truth)
    apart = np.add.reduceat(errors, starts, dtype=np.float64)
    return float(apart.mean()), float(errors.max()), float(apart.max())


def _shown(found: list[tuple[float, ...]]) -> list[str]:
    mean, largest, worst, processor, clock = np.mean(found, axis=0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
        f"{mean:.4f}",
        f"{largest:.4f}",
        f"{worst:.3f}",
        f"{processor:.1f}",
        f"{clock:.1f}",
        f"{memory:.0f}",
        f"{len(found)}",
    ]


def _peer_lines(name: str, title: str) -> list[list[str]]:
    """What peers reached on the same table: means over their runs."""
    found: dict[tuple[str, float, int], list[dict]] = {}
    for run in json.loads(PEERS.read_text()) if PEERS.exists() else []:
        if run["table"] == name:
            found.setdefault((run["peer"], run["epsilon"], run["order"]), []).append(run)
    lines = []
    for (peer, epsilon, order), runs in found.items():
        start = [title, f"all {order}-way", TITLES[peer], f"{epsilon:g}"]
        ended = [run for run in runs if "mean" in run]
        if ended:
            mean = {key: np.mean([run[key] for run in ended]) for key in ended[0] if key in MEASURED}
            errors = [f"{mean['mean']:.4f}", f"{mean['largest']:.4f}", f"{mean['worst']:.3f}"]
            spent = [f"{mean[key]:.0f}" for key in ("processor", "clock", "memory")]
            lines.append([*start, *errors, *spent, f"{len(ended)}"])
        else:
            why = f"stopped: {runs[0]['limit']:.0f}" if "limit" in runs[0] else "fails"
            lines.append([*start, "–", "–", "–", why, "–", "–", f"{len(runs)}"])
    return lines


if __name__ == "__main__":
    main()

"""Means, totals and medians of 200 groups, by mechanisms of ours and by OpenDP and diffprivlib; tables and trees beside
what was chosen before them; quantiles of a long column; values inside bins.

`CONSPECTUS_LIBRARIES` names the Python of the environment with both libraries (bench/README.md says how it is made);
without it their lines are left out. `BENCH_RUNS` sets the number of runs of each line.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import data_file, markdown, record
from conspectus.counting.counters import count
from conspectus.mechanisms.choosing import make
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.registry import OFFLINE
from conspectus.privacy.guarantee import Budget
from conspectus.releases.cells.cell_estimates import CellCounts
from conspectus.releases.cells.ranks import quantile
from conspectus.releases.planning import problem_of, rank

RUNS = int(os.environ.get("BENCH_RUNS", "5"))
GROUPS = 200
EPSILON = 1.0
LARGE = 100
"""Rows of a group that is called large."""
NEW = ("histogram", "tree")


@dataclass(frozen=True)
class Case:
    """Codes of the columns to group by, their sizes, and a number for each row from 0 to `high`."""

    name: str
    codes: dict[str, np.ndarray]
    sizes: dict[str, int]
    value: np.ndarray
    high: int

    @property
    def schema(self) -> cs.Schema:
        columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in self.sizes.items()}
        columns["value"] = {"type": "integer", "min": 0, "max": self.high}
        return cs.Schema.from_dict({"name": "groups", "neighbours": "add-remove", "columns": columns})

    @property
    def groups(self) -> np.ndarray:
        """Which group each row is in, in row-major order of the columns."""
        return np.ravel_multi_index(tuple(self.codes.values()), tuple(self.sizes.values()))


def adult() -> Case:
    """Adult: hours per week by education, marital status and sex."""
    with gzip.open(data_file("adult.data.gz"), "rt") as lines:
        rows = np.array([line.strip().split(", ") for line in lines if line.count(",") == 14])
    codes, sizes = {}, {}
    for name, place in (("education", 3), ("marital", 5), ("sex", 9)):
        values, codes[name] = np.unique(rows[:, place], return_inverse=True)
        sizes[name] = len(values)
    return Case("Adult, hours per week by education, marital status and sex", codes, sizes, rows[:, 12].astype(int), 99)


def acs() -> Case:
    """ACS Income: hours per week by schooling and race."""
    import pandas as pd

    frame = pd.read_parquet(data_file("folktables_ACSIncome_2018_40pct.parquet"))
    codes, sizes = {}, {}
    for name in ("SCHL", "RAC1P"):
        values, codes[name] = np.unique(frame[name].to_numpy(), return_inverse=True)
        sizes[name] = len(values)
    return Case("ACS Income, hours per week by schooling and race", codes, sizes, frame["WKHP"].to_numpy(int), 99)


def medians(table: np.ndarray) -> np.ndarray:
    """The median of each group, as a SELECT has it, from the counts of groups × values."""
    size = table.shape[1]
    found = []
    for line in table:
        cells = CellCounts(counts=line, measured=line, law=None)
        one = quantile(cells, np.arange(size), size, 0.5, 0.05)
        found.append(size / 2 if one is None else one.code)
    return np.array(found)


def ours(case: Case) -> dict[str, dict[str, list[np.ndarray]]]:
    """By question and mechanism, the answers of each run."""
    schema = case.schema
    table = cs.open_table(pa.table({**case.codes, "value": case.value}), schema)
    by = list(case.sizes)
    joint = cs.marginal(schema, [*by, "value"])
    values = np.arange(case.high + 1)
    asked = {"mean": cs.means(schema, "value", by=by), "total": cs.sums(schema, "value", by=by), "median": joint}
    served = {
        "mean": ("laplace", "histogram", "projection", "auto"),
        "total": ("laplace", "histogram", "projection", "auto"),
        "median": ("laplace", "histogram", "tree", "auto"),
    }
    told: dict[str, dict[str, list[np.ndarray]]] = {what: {} for what in asked}
    for what, workload in asked.items():
        for name in served[what]:
            for _ in range(RUNS):
                try:
                    release = cs.release(table, workload, epsilon=EPSILON, mechanism=name, rows=len(case.value))
                except NoMechanism:
                    break
                answers = release.answers
                if what == "median":
                    answers = medians(answers.reshape(-1, len(values)) * release.total.divisor)
                label = name if name != "auto" else f"auto ({release.mechanism})"
                told[what].setdefault(label, []).append(answers)
    return told


def peers(case: Case) -> dict[str, dict[str, list[np.ndarray]]]:
    python = os.environ.get("CONSPECTUS_LIBRARIES")
    if python is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        given, taken = Path(folder) / "in.npz", Path(folder) / "out.npz"
        facts = {
            "low": 0,
            "high": case.high,
            "epsilon": EPSILON,
            "runs": RUNS,
            "count": np.prod([*case.sizes.values()]),
        }
        np.savez(given, groups=case.groups, values=case.value, **facts)
        script = Path(__file__).with_name("numbers_peers.py")
        subprocess.run([python, "-P", script, given, taken], check=True)  # its folder has a module named numbers
        found = np.load(taken)
        told: dict[str, dict[str, list[np.ndarray]]] = {"mean": {}, "total": {}, "median": {}}
        for key in found.files:
            name, what = key.rsplit(" ", 1)
            told[what][name] = list(found[key])
    return told


def group_lines(case: Case) -> list[list[str]]:
    held = case.groups
    size = int(np.prod([*case.sizes.values()]))
    rows = np.bincount(held, minlength=size).astype(float)
    total = np.bincount(held, weights=case.value, minlength=size)
    table = np.bincount(held * (case.high + 1) + case.value, minlength=size * (case.high + 1)).reshape(size, -1)
    truth = {"mean": total / np.maximum(rows, 1), "total": total, "median": medians(table.astype(float))}
    first = np.arange(size) < GROUPS
    there, large = first & (rows > 0), first & (rows >= LARGE)
    lines = []
    theirs = peers(case)
    for what, mechanisms in ours(case).items():
        for name, runs in {**mechanisms, **theirs.get(what, {})}.items():
            answers = np.array(runs)
            if what != "total":  # a mean or a median lies in the declared range, whoever says it
                answers = np.clip(answers, 0, case.high)
            off = np.abs(answers - truth[what])
            small, big = np.nanmean(off[:, there]), np.nanmean(off[:, large])
            shown = f"`{name}`" if name.split(" ")[0] in (*OFFLINE, "auto") else name
            lines.append([case.name, what, shown, f"{small:,.2f}", f"{big:,.2f}"])
            print(*lines[-1], sep=" | ", flush=True)
    print(f"{there.sum()} groups with rows, {large.sum()} with {LARGE} or more", flush=True)
    return lines


def before(schema: cs.Schema, workload: cs.Workload, rows: int, **budget: float) -> tuple[str, str]:
    """What the planner takes without tables and trees, and with them."""
    problem = problem_of(schema, workload, budget=Budget(**budget), neighbours=None, rows=rows)
    able = [make(name, {}) for name in OFFLINE]
    taken = []
    for left_out in (NEW, ()):
        proposals, _ = rank(problem, [one for one in able if one.name not in left_out])
        taken.append(proposals[0].mechanism.name)
    return taken[0], taken[1]


def better_lines() -> list[list[str]]:
    rng = np.random.Generator(np.random.PCG64(4))
    lines = []
    bits = {f"b{i}": rng.random(20_000) < p for i, p in enumerate(np.linspace(0.2, 0.6, 10))}
    schema = cs.Schema.from_dict({"name": "bits", "columns": {name: {"type": "boolean"} for name in bits}})
    cases: list[tuple[str, cs.Schema, pa.Table, cs.Workload]] = [
        ("1,000 conjunctions of 4 of 10 columns", schema, pa.table(bits), cs.random_conjunctions(schema, 4, 1000, 1)),
    ]
    for bins in (1_024, 65_536):
        columns = {"x": {"type": "integer", "min": 0, "max": bins - 1}}
        long = cs.Schema.from_dict({"name": "long", "columns": columns})
        drawn = np.minimum(rng.gamma(2.0, bins / 12, 20_000).astype(int), bins - 1)
        cases.append((f"prefixes of {bins:,} bins", long, pa.table({"x": drawn}), cs.prefixes(long, "x")))
    for title, schema, data, workload in cases:
        table = cs.open_table(data, schema)
        counts, rows = count(workload, table.chunks())
        start = time.process_time()
        earlier, now = before(schema, workload, rows, epsilon=EPSILON)
        planning = (time.process_time() - start) / 2
        for name, label in ((earlier, "before"), (now, "`auto` now"), ("histogram", ""), ("tree", "")):
            needless = name == "tree" and len(schema.columns) > 1, name == "histogram" and len(workload) > 5_000
            if (name == now and not label) or (any(needless) and not label):
                continue
            off, seconds = [], []
            for _ in range(RUNS):
                start = time.process_time()
                release = cs.release(table, workload, epsilon=EPSILON, mechanism=name)
                seconds.append(time.process_time() - start)
                off.append(release.answers * rows - counts)
            errors = np.array(off)
            worst, rms = np.abs(errors).max(axis=1).mean(), np.sqrt(np.square(errors).mean())
            shown = f"`{name}`" + (f" ({label})" if label else "")
            times = f"{planning:.2f}", f"{np.mean(seconds):.2f}"
            lines.append([title, shown, f"{worst:.0f}", f"{worst / rows:.4f}", f"{rms:.1f}", *times])
            print(*lines[-1], sep=" | ", flush=True)
    return lines


def inside_lines() -> list[list[str]]:
    rng = np.random.Generator(np.random.PCG64(6))
    rows = 20_000
    age = np.minimum(17 + rng.gamma(2.0, 10, rows), 99).astype(int)
    pay = np.minimum(rng.lognormal(10, 0.8, rows), 199_999)
    columns = {
        "age": {"type": "integer", "min": 0, "max": 99, "width": 20},
        "pay": {"type": "number", "edges": [0, 10_000, 20_000, 50_000, 100_000, 200_000]},
        "sex": {"type": "boolean"},
    }
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    table = cs.open_table(pa.table({"age": age, "pay": pay, "sex": rng.random(rows) < 0.4}), schema)
    truth = {"age": age.mean(), "pay": pay.mean()}
    lines = []
    for mechanism in ("laplace", "projection"):
        for share in (None, 0.05, 0.1, 0.3):
            off: dict[str, list[float]] = {name: [] for name in (*truth, "rows age", "rows pay")}
            for _ in range(RUNS):
                release = cs.release(
                    table, cs.marginals(schema, 2), epsilon=EPSILON, mechanism=mechanism, within_bins=share
                )
                made = release.synthetic(rows, public_seed=1)
                for name, true in truth.items():
                    off[name].append(abs(release.ask(cs.means(schema, name)).value - true))
                    off[f"rows {name}"].append(abs(made[name].to_numpy().mean() - true))
            shown = [f"{np.mean(errors):,.2f}" for errors in off.values()]
            lines.append([f"`{mechanism}`", "none" if share is None else f"{share:g}", *shown])
            print(*lines[-1], sep=" | ", flush=True)
    return lines


SELECT = """SELECT AVG(x) AS mean, SUM(x) AS total, MEDIAN(x) AS median, AVG(flag) AS rate FROM made"""


def covered(mechanism: str, runs: int) -> list[list[str]]:
    """How often intervals at 95 % hold the truth, for each number of a SELECT over some rows, and over all of them;
    and how wide they are."""
    rng = np.random.Generator(np.random.PCG64(7))
    rows, size = 5_000, 200
    x = np.minimum(rng.gamma(3.0, size / 10, rows), size - 1).astype(int)
    flag, kept = rng.random(rows) < 0.2 + 0.5 * x / size, rng.random(rows) < 0.6
    columns = {"x": {"type": "integer", "min": 0, "max": size - 1}, "flag": {"type": "boolean"}}
    schema = cs.Schema.from_dict({"name": "made", "columns": {**columns, "kept": {"type": "boolean"}}})
    table = cs.open_table(pa.table({"x": x, "flag": flag, "kept": kept}), schema)
    workload = cs.marginal(schema, ["x", "flag", "kept"])
    wheres = {" WHERE kept": kept, "": np.ones(rows, dtype=bool)}
    truth, lines = {}, []
    for where, chosen in wheres.items():
        held = x[chosen]
        median = int(np.searchsorted(np.cumsum(np.bincount(held, minlength=size)), len(held) / 2))
        truth[where] = {"mean": held.mean(), "total": held.sum(), "median": median, "rate": flag[chosen].mean()}
    found: dict[str, dict[str, list[tuple[bool, float]]]] = {where: {n: [] for n in truth[where]} for where in wheres}
    for _ in range(runs):
        release = cs.release(table, workload, epsilon=EPSILON, delta=1e-6, mechanism=mechanism)
        for where in wheres:
            told = release.query(SELECT + where).to_pylist()[0]
            for name, true in truth[where].items():
                low, high = told[f"{name}_low"], told[f"{name}_high"]
                if low is not None:
                    found[where][name].append((low - 1e-9 <= true <= high + 1e-9, high - low))
    for where, numbers in found.items():
        line = [f"`{mechanism}`", release.synopsis.kind, "kept" if where else "all"]
        for pairs in numbers.values():
            hits, widths = np.array(pairs, dtype=float).reshape(-1, 2).T
            few = "" if len(pairs) == runs else f" ({len(pairs)} runs)"
            line.append(f"{hits.mean():.1%}, {widths.mean():.3g}{few}" if pairs else "no interval")
        lines.append(line)
        print(*line, sep=" | ", flush=True)
    return lines


SECTIONS: dict[str, Callable[[], None]] = {}


def section(work: Callable[[], None]) -> Callable[[], None]:
    SECTIONS[work.__name__] = work
    return work


@section
def groups() -> None:
    lines = group_lines(adult()) + group_lines(acs())
    note = (
        f"Mean absolute errors over the first {GROUPS} groups, in hours: those with rows, and those with {LARGE} or "
        f"more. ε = {EPSILON:g}, pure, neighbours add or remove one row, {RUNS} runs each. Each question has the whole "
        "budget; every row is in one group, so the libraries' answers for one group have the whole ε too. Their means "
        "are a total and a count with half of ε each; their medians are drawn by permute-and-flip (OpenDP) and by the "
        "exponential mechanism (diffprivlib; where it fails on many equal values, which it does in large groups, it is "
        "left out). Means and medians are clipped to the declared range 0 to 99, for all."
    )
    heads = ["table", "question", "who", "groups with rows", f"groups of {LARGE} rows or more"]
    command = "CONSPECTUS_LIBRARIES=libraries/bin/python python -m bench.numbers groups"
    record("numbers", "Group means, totals and medians", f"{note}\n\n{markdown(heads, lines)}", command)


@section
def better() -> None:
    note = (
        f"20,000 rows, ε = {EPSILON:g}, pure, replace, {RUNS} runs each; *before* is what the planner takes without "
        "`histogram` and `tree`. Errors in counts, the largest also as a fraction of the rows. Processor seconds."
    )
    heads = ["questions", "mechanism", "max error", "as fraction", "rms error", "planning", "release"]
    table = markdown(heads, better_lines())
    record(
        "better",
        "Measuring something better than the questions",
        f"{note}\n\n{table}",
        "python -m bench.numbers better",
    )


@section
def quantiles() -> None:
    """Planning, releasing and asking quantiles of one long column; printed, and not recorded."""
    rng = np.random.Generator(np.random.PCG64(4))
    bins = 65_536
    columns = {"x": {"type": "integer", "min": 0, "max": bins - 1}}
    schema = cs.Schema.from_dict({"name": "long", "columns": columns})
    drawn = np.minimum(rng.gamma(2.0, bins / 12, 20_000).astype(int), bins - 1)
    table = cs.open_table(pa.table({"x": drawn}), schema)
    for title, workload in (("prefixes", cs.prefixes(schema, "x")), ("column", cs.marginal(schema, ["x"]))):
        times = [time.process_time()]
        cs.plan(schema, workload, rows=20_000, epsilon=EPSILON, mechanism="tree")
        times.append(time.process_time())
        release = cs.release(table, workload, epsilon=EPSILON, mechanism="tree")
        times.append(time.process_time())
        found = [release.quantile("x", q) for q in (0.1, 0.5, 0.9)]
        times.append(time.process_time())
        print(title, *np.diff(times).round(2), found[1], np.median(drawn), sep=" | ", flush=True)


@section
def inside() -> None:
    note = (
        f"20,000 made rows, all tables of two columns, ε = {EPSILON:g}, replace, {RUNS} runs each: mean absolute "
        "errors of the mean of a column, asked and from synthetic rows, by the share of the budget that `within_bins` "
        "takes. Ages in bins of 20 years, pay in 5 bins up to 200,000."
    )
    heads = ["mechanism", "`within_bins`", "mean age", "mean pay", "age, rows", "pay, rows"]
    table = markdown(heads, inside_lines())
    record("inside", "Values inside bins", f"{note}\n\n{table}", "python -m bench.numbers inside")


@section
def coverage() -> None:
    runs = int(os.environ.get("BENCH_RUNS", "1000"))
    names = os.environ.get("BENCH_MECHANISMS", "laplace,gaussian,histogram,projection,mwem,dual-query").split(",")
    note = (
        f"One SELECT, `{SELECT}`, over 5,000 made rows, and `WHERE kept`, which are 3,000 of them; x from 0 to 199, "
        f"from the table of all three columns, ε = {EPSILON:g}, δ = 1e-6, replace, {runs} runs: how often the interval "
        "at 95 % holds the truth, and how wide it is on average. `dual-query` measures columns alone: numbers of some "
        "rows have no interval there, and the result says why. An interval of a median ends at whole values, and many "
        "rows have the true one. It holds in 95 % at least wherever among these rows the middle one is: here that is "
        "neither the first nor the last of them, so that it holds more often."
    )
    heads = ["mechanism", "synopsis", "rows", "AVG", "SUM", "MEDIAN", "AVG of a flag"]
    table = markdown(heads, [line for name in names for line in covered(name, runs)])
    record(
        "coverage-sql",
        "Intervals of numbers",
        f"{note}\n\n{table}",
        f"BENCH_RUNS={runs} python -m bench.numbers coverage",
    )


def main() -> None:
    import sys

    named = [name for name in sys.argv[1:] if name in SECTIONS]
    for name in named or SECTIONS:
        SECTIONS[name]()


if __name__ == "__main__":
    main()

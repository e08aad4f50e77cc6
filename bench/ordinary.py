"""All marginals of ordinary tables, add-remove, δ = 1e-9: error, time and memory of `adaptive` and its rivals here.

`BENCH_RUNS` sets the number of runs of each line, and `BENCH_TABLES` names some of the tables: adult, nltcs, census,
acs, onehot.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import data_file, markdown, record
from conspectus.counting.counters import count

RUNS = int(os.environ.get("BENCH_RUNS", "5"))
DELTA = 1e-9
ORDERED_OF_ADULT = ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
CENSUS_BINS = {0: 91, 5: 32, 16: 32, 17: 32, 18: 32, 24: 32, 30: 7, 39: 53}
CENSUS_MOST = {5: 10_000, 16: 100_000, 17: 5_000, 18: 100_000, 24: 20_000}


@dataclass(frozen=True)
class Case:
    """A table as codes, which of its columns stand in an order, the marginals that are asked for, and who answers."""

    codes: dict[str, np.ndarray]
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    order: int
    mechanisms: tuple[str, ...] = ("adaptive",)


def adult() -> Case:
    import pandas as pd

    domain = json.loads(data_file("adult_ppgm-domain.json").read_text())
    frame = pd.read_csv(data_file("adult_ppgm.csv.gz"))
    sizes = {name: domain[name] if isinstance(domain[name], int) else domain[name]["domain"] for name in frame.columns}
    codes = {name: frame[name].to_numpy() for name in frame.columns}
    return Case(codes, sizes, ORDERED_OF_ADULT, 3)


def nltcs() -> Case:
    import pandas as pd

    frame = pd.read_csv(data_file("nltcs_named.csv.gz"))
    codes = {name: frame[name].astype(str).astype("category").cat.codes.to_numpy() for name in frame.columns}
    return Case(codes, dict.fromkeys(codes, 2), (), 3, ("adaptive", "projection", "mwem"))


def census() -> Case:
    """42 columns; amounts in 32 bins of equal width on a logarithmic scale, the values of the others as they occur."""
    with gzip.open(data_file("census-income-kdd.data.gz"), "rt") as lines:
        rows = np.array([[field.strip() for field in line.strip().rstrip(".").split(",")] for line in lines])
    codes, sizes, ordered = {}, {}, []
    for place in range(rows.shape[1]):
        name = f"c{place}"
        if place not in CENSUS_BINS:
            values, codes[name] = np.unique(rows[:, place], return_inverse=True)
            sizes[name] = len(values)
            continue
        bins, number = CENSUS_BINS[place], rows[:, place].astype(float)
        most = CENSUS_MOST.get(place)
        scaled = number / bins if most is None else np.log1p(number) / np.log1p(most)
        codes[name] = np.clip((scaled * bins).astype(np.int64), 0, bins - 1)
        sizes[name] = bins
        ordered.append(name)
    return Case(codes, sizes, tuple(ordered), 2)


def acs() -> Case:
    """11 columns of up to 529 values; the weight of a person is left out where there is one."""
    import pandas as pd

    frame = pd.read_parquet(data_file("folktables_ACSIncome_2018_40pct.parquet"))
    codes, sizes, ordered = {}, {}, []
    for name in frame.columns:
        column = frame[name]
        if name == "PINCP":
            codes[name] = np.clip((np.log1p(np.maximum(column.to_numpy(), 0)) * 5).astype(np.int64), 0, 74)
            sizes[name] = 75
        else:
            values, codes[name] = np.unique(column.to_numpy(), return_inverse=True)
            sizes[name] = len(values)
        if name in ("AGEP", "WKHP", "PINCP"):
            ordered.append(name)
    return Case(codes, sizes, tuple(ordered), 2)


def onehot() -> Case:
    """200 two-valued columns: groups of one-hot columns from 100,000 made rows of 20 columns of ten values."""
    rng = np.random.Generator(np.random.PCG64(1))
    rows = 100_000
    hidden = rng.integers(0, 10, rows)
    codes = {}
    for group in range(20):
        value = np.where(rng.random(rows) < 0.4, hidden, np.minimum(rng.geometric(0.35, rows) - 1, 9))
        codes |= {f"g{group}v{each}": (value == each).astype(np.int64) for each in range(10)}
    return Case(codes, dict.fromkeys(codes, 2), (), 2)


CASES: dict[str, Callable[[], Case]] = {"adult": adult, "nltcs": nltcs, "census": census, "acs": acs, "onehot": onehot}
TITLES = {
    "adult": "Adult, 14 columns",
    "nltcs": "NLTCS, 16 columns",
    "census": "Census-Income, 42 columns",
    "acs": "ACS Income, 11 columns of up to 529 values",
    "onehot": "made one-hot groups, 200 columns",
}
BUDGETS = {"acs": (1.0,), "onehot": (1.0,)}


def main() -> None:
    lines = []
    names = os.environ.get("BENCH_TABLES", ",".join(CASES)).split(",")
    for name in names:
        lines += _lines(name, CASES[name]())
    heads = [
        "table",
        "marginals",
        "mechanism",
        "ε",
        "mean L1",
        "largest cell",
        "worst marginal",
        "processor s",
        "s",
        "MB",
    ]
    note = (
        f"{RUNS} runs each, means; add-remove, δ = {DELTA:g}. L1 is the sum of |released − true| over the cells of a "
        "marginal, as a share of the rows: the mean over all marginals, and the largest. Seconds are those of a whole "
        "release, of the processors and on the clock. MB is the largest memory of the process so far, with the table "
        "and its true marginals."
    )
    record(
        "ordinary",
        "All marginals of ordinary tables",
        markdown(heads, lines) + "\n\n" + note,
        "python -m bench ordinary",
    )


def _lines(name: str, case: Case) -> list[list[str]]:
    columns = {
        key: {"type": "integer", "min": 0, "max": size - 1}
        if key in case.ordered
        else {"type": "categorical", "values": [str(code) for code in range(size)]}
        for key, size in case.sizes.items()
    }
    schema = cs.Schema.from_dict({"name": name, "neighbours": "add-remove", "columns": columns})
    data = {
        key: pa.array(codes) if key in case.ordered else pa.array(codes).cast(pa.string())
        for key, codes in case.codes.items()
    }
    table = cs.open_table(pa.table(data), schema)
    workload = cs.marginals(schema, case.order)
    counts, rows = count(workload, table.chunks())
    truth = (counts / rows).astype(np.float32)
    starts = np.array(workload.offsets[:-1])
    lines = []
    for mechanism in case.mechanisms:
        for epsilon in BUDGETS.get(name, (0.1, 1.0, 10.0)):
            found = []
            for _ in range(RUNS):
                begun, used = time.perf_counter(), time.process_time()
                release = cs.release(table, workload, epsilon=epsilon, delta=DELTA, mechanism=mechanism)
                took = time.process_time() - used, time.perf_counter() - begun
                errors = np.abs(release.answers.astype(np.float32) - truth)
                apart = np.add.reduceat(errors, starts, dtype=np.float64)
                found.append((apart.mean(), errors.max(), apart.max(), *took))
            mean, largest, worst, processor, clock = np.mean(found, axis=0)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            lines.append(
                [
                    TITLES[name],
                    f"all {case.order}-way",
                    f"`{mechanism}`",
                    f"{epsilon:g}",
                    f"{mean:.4f}",
                    f"{largest:.4f}",
                    f"{worst:.3f}",
                    f"{processor:.1f}",
                    f"{clock:.1f}",
                    f"{memory:.0f}",
                ]
            )
            print(" | ".join(lines[-1]), flush=True)
    return lines


if __name__ == "__main__":
    main()

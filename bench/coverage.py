"""Whether 95 % intervals hold the truth: all cells of all 3-way marginals of four real tables, by size of the answer.

`BENCH_RUNS` sets the number of runs of each line, `BENCH_BUDGETS` the ε of `adaptive`, and `BENCH_TABLES` names some of
the tables: adult, nltcs, diabetic, adult_small. Only their lines are measured again, and the others stay as they are.
How far intervals of reruns are widened was chosen on other tables (Census-Income, ACS income).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

import conspectus as cs
from bench import data_file, lines_of_page, markdown, record
from bench.ordinary_tables import Case, adult, nltcs
from conspectus.counting.counters import count
from conspectus.privacy.accounting import rho_of
from conspectus.queries.workload import Workload

BUDGETS = tuple(float(each) for each in os.environ.get("BENCH_BUDGETS", "1").split(","))
RUNS = int(os.environ.get("BENCH_RUNS", "5"))
DELTA, CONFIDENCE = 1e-9, 0.95
SIZES = (1.0, 10.0, 100.0, 1000.0)
HEADS = ("< 1", "1 to 10", "10 to 100", "100 to 1,000", "> 1,000")
SMALL_OF_ADULT = ("workclass", "marital-status", "relationship", "race", "sex", "income>50K", "occupation")
SMALL_OF_DIABETIC = ("race", "gender", "age", "A1Cresult", "insulin", "change", "readmitted")
NUMBERS_OF_DIABETIC = {
    "time_in_hospital": 1,
    "num_lab_procedures": 5,
    "num_procedures": 1,
    "num_medications": 3,
    "number_diagnoses": 1,
}
OTHERS_OF_DIABETIC = (
    "admission_type_id",
    "discharge_disposition_id",
    "admission_source_id",
    "max_glu_serum",
    "metformin",
    "diabetesMed",
)


def adult_small() -> Case:
    import pandas as pd

    sizes = json.loads(data_file("adult_small-domain.json").read_text())
    frame = pd.read_csv(data_file("adult_small.csv.gz"))
    ordered = tuple(name for name in frame.columns if sizes[name] >= 30)
    return Case("ADULT-small", {name: frame[name].to_numpy() for name in frame.columns}, sizes, ordered, 3)


def diabetic() -> Case:
    """The first visit of every patient: 18 columns, numbers in bins, the values of the others as they occur."""
    import pandas as pd

    frame = pd.read_csv(data_file("diabetic_data.csv.gz"), keep_default_na=False, low_memory=False)
    frame = frame.sort_values("encounter_id").drop_duplicates("patient_nbr")
    codes, sizes = {}, {}
    for name in (*SMALL_OF_DIABETIC, *NUMBERS_OF_DIABETIC, *OTHERS_OF_DIABETIC):
        if name in NUMBERS_OF_DIABETIC:
            codes[name] = frame[name].astype(int).to_numpy() // NUMBERS_OF_DIABETIC[name]
            sizes[name] = int(codes[name].max()) + 1
        else:
            values, codes[name] = np.unique(frame[name].astype(str).to_numpy(), return_inverse=True)
            sizes[name] = len(values)
    return Case("Diabetic, first visits", codes, sizes, ("age", *NUMBERS_OF_DIABETIC), 3)


def some(case: Case, names: tuple[str, ...]) -> Case:
    """Some columns of a table."""
    kept = tuple(name for name in case.ordered if name in names)
    codes, sizes = ({name: each[name] for name in names} for each in (case.codes, case.sizes))
    return Case(f"{case.title}, {len(names)} of them", codes, sizes, kept, 3)


CASES: dict[str, tuple[str, Callable[[], Case], tuple[str, ...]]] = {
    "adult": ("Adult", adult, SMALL_OF_ADULT),
    "nltcs": ("NLTCS", nltcs, ()),
    "diabetic": ("Diabetic", diabetic, SMALL_OF_DIABETIC),
    "adult_small": ("ADULT-small", adult_small, ()),
}


def main() -> None:
    named = os.environ.get("BENCH_TABLES", ",".join(CASES)).split(",")
    kept, lines = lines_of_page("coverage"), []
    for name, (title, made, few) in CASES.items():
        if name not in named:
            lines += [line for line in kept if line[0] in (title, f"{title}, 7 columns")]
            continue
        case = made()
        small = some(case, few) if few else case
        for epsilon in BUDGETS:
            lines.append(_line(title, case, "adaptive", epsilon))
        if few:
            lines.append(_line(f"{title}, 7 columns", small, "adaptive", 1.0))
        for how in ("proved", "simulated"):
            lines.append(_line(f"{title}, 7 columns" if few else title, small, "projection", 1.0, intervals=how))
    heads = ["table", "mechanism", "ε", "cells", "covered", "plain noise ±", *(f"answers {head}" for head in HEADS)]
    note = (
        f"{RUNS} run{'s' if RUNS > 1 else ''} each; add-remove, δ = {DELTA:g}; 95 % intervals of all cells of "
        "all 3-way marginals. By the size of the released answer, in counts: the share of intervals that hold "
        "the true count, and their mean half-width in counts, with ends below 0 cut. A cell whose count is 0 "
        "is covered by every interval that reaches 0, so that sparse tables are covered more often than 95 % "
        "in all. Plain noise is the half-width of measuring all these marginals with Gaussian noise for the "
        "same budget. Intervals of `adaptive` are simulated: how far they are widened was chosen on Census-Income "
        "and ACS income. Those of `projection` are proved, or the narrower of proved and simulated ones. "
        "`BENCH_BUDGETS=0.1,1,10` adds the other ε."
    )
    record("coverage", "Whether intervals cover", markdown(heads, lines) + "\n\n" + note, "python -m bench coverage")


def _line(title: str, case: Case, mechanism: str, epsilon: float, **settings: str) -> list[str]:
    table = case.table()
    workload = cs.marginals(table.schema, case.order)
    counts, _ = count(workload, table.chunks())
    held, cells, widths = (np.zeros(len(HEADS)) for _ in range(3))
    for _ in range(RUNS):
        release = cs.release(table, workload, epsilon=epsilon, delta=DELTA, mechanism=mechanism, **settings)
        for block, start in zip(workload.blocks, workload.offsets):
            asked = Workload(workload.domain, (block,))
            low, high = release.synopsis.intervals(asked, CONFIDENCE, release.evidence)
            answers = release.synopsis.answer(asked) * release.total.divisor
            truth = counts[start : start + len(block)]
            low = np.maximum(low, 0.0)
            group = np.searchsorted(SIZES, answers, side="right")
            held += np.bincount(group, (low <= truth) & (truth <= high), len(HEADS))
            cells += np.bincount(group, minlength=len(HEADS))
            widths += np.bincount(group, (high - low) / 2, len(HEADS))
    plain = ndtri((1 + CONFIDENCE) / 2) * math.sqrt(len(workload.blocks) / (2 * rho_of(epsilon, DELTA)))
    by_size = [
        f"{covered / many:.3f} (± {wide / many:.3g})" if many else "–"
        for covered, many, wide in zip(held, cells, widths)
    ]
    line = [
        title,
        " ".join([f"`{mechanism}`", *settings.values()]),
        f"{epsilon:g}",
        f"{len(workload):,}",
        f"{held.sum() / cells.sum():.4f}",
        f"{plain:.3g}",
        *by_size,
    ]
    print(" | ".join(line), flush=True)
    return line


if __name__ == "__main__":
    main()

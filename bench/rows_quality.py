"""What synthetic rows are good for: a classifier trained on them, tested on real rows that were held out.

The classifier is scikit-learn's gradient boosting, which is not among our dependencies: install it to run this. It sees
the codes of all columns but one, which it predicts. `BENCH_TABLES` names some of the tables, whose lines are measured
again while the others stay as they are; `BENCH_RUNS` is the number of runs. Rows of peers are taken from the folder
that CONSPECTUS_PEER_ROWS names, where `bench/peers.py` put them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import conspectus as cs
from bench import lines_of_page, markdown, record
from bench.ordinary import TITLES
from bench.ordinary_tables import CASES, Case

EPSILON = 1.0
RUNS = int(os.environ.get("BENCH_RUNS", "5"))
MOST_ROWS = 1_000_000
"""More rows than this are made only as many as the table has: a classifier would take minutes to learn from them."""
TARGETS = {"adult": ("income>50K", 1), "acs": ("PINCP", 1), "diabetic": ("readmitted", 2)}
"""The column that is predicted, and from which code on it counts as yes: incomes above 50,000 dollars, and stays after
which nobody came back."""
PEER_ROWS = {peer: f"rows of {title}" for peer, title in TITLES.items()}


def main() -> None:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: F401
    except ImportError:
        raise SystemExit("rows_quality trains a classifier: install scikit-learn beside conspectus") from None
    named = os.environ.get("BENCH_TABLES", ",".join(TARGETS)).split(",")
    kept, lines = lines_of_page("rows-quality"), []
    for name in TARGETS:
        case = CASES[name]()
        lines += _measured(name, case) if name in named else [line for line in kept if line[0] == case.title]
    heads = ["table", "trained on", "AUC on held-out real rows", "of real training", "processor seconds to make"]
    note = (
        f"ε = {EPSILON:g}, δ = 1e-9, add-remove; {RUNS} run{'s' if RUNS > 1 else ''} of every line. A third of the "
        "real rows is held out; `adaptive` releases the others for all their marginals (3-way of Adult, 2-way of the "
        f"others), and makes as many rows or, up to {MOST_ROWS:,}, ten times as many. Independent columns are the real "
        "ones, each shuffled by itself. Predicted are incomes above 50,000 dollars, and whether a patient is not "
        "admitted again. MST of OpenDP makes no rows of the other two tables (a rounding inside leaves its own budget "
        "short). Its AIM of all triples of Adult has no model after 900 processor seconds: its rows here are of one "
        "that measures pairs in a model of 2 MB; of Diabetic that has none after 300."
    )
    text = markdown(heads, lines) + "\n\n" + note
    record("rows-quality", "Rows to learn from", text, "python -m bench rows_quality")


def parted(name: str, case: Case, run: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The codes that are learned from, those that are held out, and the number of codes of each column.

    The column that is predicted has two values.
    """
    codes, sizes = case.matrix()
    target, yes = TARGETS[name]
    at = list(case.sizes).index(target)
    codes[:, at], sizes[at] = codes[:, at] >= yes, 2
    order = np.random.Generator(np.random.PCG64(run)).permutation(len(codes))
    return codes[order[len(codes) // 3 :]], codes[order[: len(codes) // 3]], sizes


def _measured(name: str, case: Case) -> list[list[str]]:
    at = list(case.sizes).index(TARGETS[name][0])
    found: dict[str, list[tuple[float, float]]] = {}
    for run in range(RUNS):
        kept, held, sizes = parted(name, case, run)
        for what, rows, seconds in _training_sets(name, case, kept, sizes, run):
            found.setdefault(what, []).append((_auc(rows, held, at), seconds))
            print(case.title, what, found[what][-1], flush=True)
    real = np.mean([auc for auc, _ in found["real rows"]])
    return [
        [
            case.title,
            what,
            f"{np.mean([a for a, _ in runs]):.4f}",
            f"{np.mean([a for a, _ in runs]) / real:.1%}",
            _seconds(runs),
        ]
        for what, runs in found.items()
    ]


def _training_sets(
    name: str, case: Case, kept: np.ndarray, sizes: np.ndarray, run: int
) -> Iterator[tuple[str, np.ndarray, float]]:
    """What the classifier is trained on, and the processor seconds that it took to make."""
    yield "real rows", kept, 0.0
    rng = np.random.Generator(np.random.PCG64(run))
    yield "independent columns", np.stack([rng.permutation(kept[:, c]) for c in range(kept.shape[1])], axis=1), 0.0
    names = list(case.sizes)
    target = TARGETS[name][0]
    own = replace(
        case,
        codes={column: kept[:, c] for c, column in enumerate(names)},
        sizes={column: int(sizes[c]) for c, column in enumerate(names)},
        ordered=tuple(column for column in case.ordered if column != target),
    )
    table = own.table()
    start = time.process_time()
    plain = cs.mechanisms.Adaptive(intervals=False)  # intervals are reruns, and change no row
    release = cs.release(
        table, cs.marginals(table.schema, case.order), epsilon=EPSILON, delta=case.delta, mechanism=plain
    )
    spent = time.process_time() - start
    for times, what in ((1, "rows of `adaptive`, as many"), (10, "rows of `adaptive`, ten times as many")):
        if times > 1 and times * len(kept) > MOST_ROWS:
            continue
        start = time.process_time()
        chunk = release.synopsis.sample(times * len(kept), public_seed=run)
        made = np.stack([chunk.column(c).astype(np.int64) for c in range(len(names))], axis=1)
        yield what, made, spent + time.process_time() - start
    for peer, what in PEER_ROWS.items():
        path = Path(os.environ.get("CONSPECTUS_PEER_ROWS", ".")) / f"{name}-train-{peer}-{EPSILON:g}-{run}.npz"
        if path.exists():
            told = json.loads(path.with_suffix(".json").read_text())
            with np.load(path) as rows:
                yield what, rows["codes"].astype(np.int64), told["processor"]


def _seconds(runs: list[tuple[float, float]]) -> str:
    mean = np.mean([seconds for _, seconds in runs])
    return f"{mean:.0f}" if mean else "–"


def _auc(train: np.ndarray, test: np.ndarray, at: int) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    others = [c for c in range(train.shape[1]) if c != at]
    if len(np.unique(train[:, at])) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0, max_iter=150).fit(train[:, others], train[:, at])
    return float(roc_auc_score(test[:, at], model.predict_proba(test[:, others])[:, 1]))

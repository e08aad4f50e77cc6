"""What synthetic rows are good for: a classifier trained on them, tested on real rows that were held out.

The classifier is scikit-learn's gradient boosting, which is not among our dependencies: install it to run this. It sees
the codes of all columns but one, which it predicts.
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import markdown, record
from bench.live_wide import adult

EPSILON, DELTA = 1.0, 1e-9
RUNS = 1


def main() -> None:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: F401
    except ImportError:
        raise SystemExit("rows_quality trains a classifier: install scikit-learn beside conspectus") from None
    lines = []
    for name, table, target in (("Adult, income", adult(), "income>50K"),):
        lines += [[name, *line] for line in _measured(table, target)]
    heads = ["table", "trained on", "AUC on held-out real rows", "of real training", "processor seconds to make"]
    note = (
        f"ε = {EPSILON:g}, δ = {DELTA:g}, add-remove; one run. A third of the real rows is held out; "
        "`adaptive` releases the others for all their 3-way marginals, and makes as many rows, or ten times as many. "
        "Independent columns are the real ones, each shuffled by itself."
    )
    text = markdown(heads, lines) + "\n\n" + note
    record("rows-quality", "Rows to learn from", text, "python -m bench rows_quality")


def _measured(table: cs.Table, target: str) -> list[list[str]]:
    schema = table.schema
    at = schema.domain.names.index(target)
    codes = np.concatenate(
        [
            np.stack([chunk.column(c).astype(np.int64) for c in range(len(schema.domain))], axis=1)
            for chunk in table.chunks()
        ]
    )
    found: dict[str, list[tuple[float, float]]] = {}
    for run in range(RUNS):
        order = np.random.Generator(np.random.PCG64(run)).permutation(len(codes))
        held, kept = codes[order[: len(codes) // 3]], codes[order[len(codes) // 3 :]]
        rng = np.random.Generator(np.random.PCG64(run))
        values = [column.decode(kept[:, c].astype(np.uint32), rng) for c, column in enumerate(schema.columns)]
        start = time.process_time()
        release = cs.release(
            cs.open_table(pa.table(dict(zip(schema.domain.names, values))), schema),
            cs.marginals(schema, 3),
            epsilon=EPSILON,
            delta=DELTA,
            neighbours="add-remove",
            mechanism="adaptive",
        )
        spent = time.process_time() - start
        sets = {"real rows": (kept, 0.0), "independent columns": (_shuffled(kept, run), 0.0)}
        for times, name in ((1, "synthetic rows, as many"), (10, "synthetic rows, ten times as many")):
            start = time.process_time()
            chunk = release.synopsis.sample(times * len(kept), public_seed=run)
            made = _codes(chunk, len(schema.domain))
            sets[name] = (made, spent + time.process_time() - start)
        for name, (rows, seconds) in sets.items():
            found.setdefault(name, []).append((_auc(rows, held, at), seconds))
    real = np.mean([auc for auc, _ in found["real rows"]])
    return [
        [name, f"{np.mean([a for a, _ in runs]):.4f}", f"{np.mean([a for a, _ in runs]) / real:.1%}", _seconds(runs)]
        for name, runs in found.items()
    ]


def _codes(chunk, columns: int) -> np.ndarray:
    return np.stack([chunk.column(c).astype(np.int64) for c in range(columns)], axis=1)


def _seconds(runs: list[tuple[float, float]]) -> str:
    mean = np.mean([seconds for _, seconds in runs])
    return f"{mean:.0f}" if mean else "–"


def _shuffled(rows: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.Generator(np.random.PCG64(seed))
    return np.stack([rng.permutation(rows[:, c]) for c in range(rows.shape[1])], axis=1)


def _auc(train: np.ndarray, test: np.ndarray, at: int) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    others = [c for c in range(train.shape[1]) if c != at]
    if len(np.unique(train[:, at])) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0, max_iter=150).fit(train[:, others], train[:, at])
    return float(roc_auc_score(test[:, at], model.predict_proba(test[:, others])[:, 1]))

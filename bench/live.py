"""Live sessions: an adaptive analyst on NLTCS, and lists of records from universes of any size.

The analyst keeps all answers so far and asks again and again where they look least consistent: the eight cells of three
columns should sum to one, and the cells of two columns to the same numbers whatever the third one is.
"""

from __future__ import annotations

import math
import time
from itertools import combinations

import numpy as np

import conspectus as cs
from bench import data_file, markdown, record
from bench.live_picture import draw
from conspectus.counting.counters import count
from conspectus.privacy.accounting import rho_of
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

EPSILON, DELTA = 1.0, 1e-6
LENGTHS = (10_000, 100_000)
BATCH = 200
SESSIONS = {"`pmw`": {}, "`pmw`, pairs first": {"order": 2}, "`pmw`, the book's": {"priming": 0.0}}


class Analyst:
    """Asks about triples of two-valued columns, half of the time where the answers so far contradict each other."""

    def __init__(self, columns: int, seed: int) -> None:
        self.triples = list(combinations(range(columns), 3))
        self.answers = np.full((len(self.triples), 8), np.nan)
        self._rng = np.random.Generator(np.random.PCG64(seed))
        pairs = {pair: number for number, pair in enumerate(combinations(range(columns), 2))}
        self._pair_of = np.array([[pairs[pair] for pair in combinations(triple, 2)] for triple in self.triples])
        self._pairs = len(pairs)

    def next(self) -> list[int]:
        """The next questions, as 8·triple + cell."""
        wild = self._rng.integers(0, 8 * len(self.triples), BATCH // 2)
        worst = np.argsort(self._inconsistency())[-(BATCH // 16) :]
        return [*(8 * worst[:, None] + np.arange(8)).ravel().tolist(), *wild.tolist()]

    def _inconsistency(self) -> np.ndarray:
        known = np.where(np.isnan(self.answers), 0.125, self.answers).reshape(-1, 2, 2, 2)
        # The pairs (0, 1), (0, 2), (1, 2) leave out the last column, the middle one, the first.
        sums = np.stack([known.sum(axis=3 - place).reshape(-1, 4) for place in range(3)], axis=1)
        totals, times = np.zeros((self._pairs, 4)), np.zeros(self._pairs)
        np.add.at(totals, self._pair_of, sums)
        np.add.at(times, self._pair_of, 1)
        mean = totals / times[:, None]
        apart = np.abs(sums - mean[self._pair_of]).sum(axis=(1, 2))
        return apart + np.abs(known.sum(axis=(1, 2, 3)) - 1) + np.isnan(self.answers).any(axis=1) * 1e-3


def main() -> None:
    nltcs()
    records()


def nltcs() -> None:
    import pandas as pd

    frame = pd.read_csv(data_file("nltcs_named.csv.gz"))
    schema = cs.Schema.from_dict({"name": "nltcs", "columns": {name: {"type": "boolean"} for name in frame.columns}})
    table = cs.open_table(frame, schema)
    domain = schema.domain
    workload = cs.marginals(schema, 3)
    counts, rows = count(workload, table.chunks())
    truth = counts / rows
    questions = [_question(domain, triple, cell) for triple in combinations(range(16), 3) for cell in range(8)]
    lines, series = [], {}
    for length in LENGTHS:
        rho = rho_of(EPSILON, DELTA)
        rng = np.random.Generator(np.random.PCG64(0))
        noisy = np.abs(rng.normal(0, math.sqrt(length / (2 * rho)) / rows, length))
        lines.append(["Gaussian noise on every question", f"{length:,}", f"{length:,}", *_errors(noisy), "–", "–"])
        for name, settings in SESSIONS.items():
            start = time.perf_counter()
            errors, budget, paid, bound = _session(table, questions, truth, length, settings)
            seconds = time.perf_counter() - start
            shown = "–" if bound is None else f"{bound:.3f}"
            lines.append([name, f"{length:,}", f"{paid:,}", *_errors(errors), shown, f"{seconds:.0f}"])
            series[name, length] = errors, budget
    heads = ["answers from", "questions", "paid for", "max error", "mean error", "bound on a guess", "seconds"]
    note = (
        f"ε = {EPSILON:g}, δ = {DELTA:g}, replace, {rows:,} rows, 2^16 cells; one run each. `pmw` buys marginals first "
        "with half of the budget: all that it can afford (triples here), or pairs. The analyst asks 3-way conjunctions "
        "where the answers so far look least consistent; a question that was asked before keeps its answer and costs "
        "nothing. Noise on every question is calibrated to the length of the stream.\n\n"
        "![Error and budget over the stream](live.svg)"
    )
    record("live", "Live sessions on NLTCS", markdown(heads, lines) + "\n\n" + note, "python -m bench live")
    draw(series, LENGTHS[-1])


def _question(domain, triple, cell: int) -> Workload:
    box = tuple(Literal(column, (cell >> 2 - place & 1,)) for place, column in enumerate(triple))
    return Workload(domain, (Conjunctions.of(domain, [Predicate((box,))]),))


def _errors(errors: np.ndarray) -> list[str]:
    return [f"{errors.max():.4f}", f"{errors.mean():.4f}"]


def _session(table, questions, truth, length: int, settings) -> tuple[np.ndarray, np.ndarray, int, float | None]:
    """The error of every answer and the budget spent by then, the surprises, and the margin of a guessed answer."""
    analyst = Analyst(16, seed=1)
    errors, budget, paid, bound = np.empty(length), np.empty(length), 0, None
    with cs.open_session(
        table, epsilon=EPSILON, delta=DELTA, mechanism="pmw", neighbours="replace", questions=length, **settings
    ) as session:
        cap = session.spent + session.remaining
        done, spent = 0, session.spent / cap
        while done < length:
            for index in analyst.next():
                if done == length:
                    break
                answer = session.ask(questions[index])
                if answer.cost and not answer.repeated:
                    spent = session.spent / cap
                    paid += answer.basis == "measured"
                if answer.basis == "guessed":
                    bound = answer.high - answer.fraction if answer.high < 1 else bound
                errors[done], budget[done] = abs(answer.fraction - truth[index]), spent
                analyst.answers.flat[index] = answer.fraction
                done += 1
    return errors, budget, paid, bound


def records() -> None:
    import pyarrow.parquet as pq

    pairs = pq.read_table(data_file("amazon-book_kgat.parquet"), columns=["user", "item"])
    rng = np.random.Generator(np.random.PCG64(3))
    users, items = (pairs.column(name).to_numpy() for name in ("user", "item"))
    table = cs.open_records(pairs, ["user", "item"])
    size, length = 32, 100_000
    known = rng.integers(0, len(users), (length, size // 2))
    made = np.stack([users[rng.integers(0, len(users), (length, size // 2))], items[known]], axis=2)
    real = np.stack([users[known], items[known]], axis=2)
    listed = np.concatenate([real, made], axis=1)
    there = set(zip(users.tolist(), items.tolist()))
    lines = []
    errors, seconds, bound, basis = [], [], 0.0, {"guessed": 0, "measured": 0, "unguaranteed": 0}
    with _sparse(table, length, sparsity=size) as session:
        for question in listed:
            asked = [tuple(pair) for pair in question.tolist()]
            workload = cs.sparse([asked])
            start = time.perf_counter()
            answer = session.ask(workload)
            seconds.append(time.perf_counter() - start)
            basis[answer.basis] += 1
            if answer.basis != "unguaranteed":
                errors.append(abs(answer.fraction - sum(pair in there for pair in set(asked)) / len(users)))
            bound = answer.high - answer.fraction if answer.basis == "guessed" else bound
    lines.append(
        ["Amazon books: pairs of user and item", "unbounded", f"{length:,}", f"{basis['measured']}"]
        + [f"{max(errors):.2g}", f"{bound:.2g}", f"{1e3 * np.median(seconds):.2f}"]
    )
    for digits in (6, 20, 40, 60):
        lines.append(_strings(digits))
    for width in (20, 60, 120, 200):
        lines.append(_conjunctions(width))
    heads = ["records", "universe", "questions", "paid for", "max error", "its bound", "milliseconds a question"]
    note = (
        "`sparse-mw` at ε = 1, δ = 1e-9, replace. Pairs: 846,434 rows, 32 pairs a question, half of them in the table. "
        "Strings: 100,000 rows of 5,000 different strings with frequencies 1/rank, 16 strings a question. "
        "Conjunctions: 20,000 rows, all but 8 columns fixed, 256 records a question; their time grows with the number "
        "of columns that a question names, not with the universe. Times are medians, of `ask` alone; errors are those "
        "of all answers with a guarantee, the bound is that of a guessed one, for all questions at once."
    )
    record("records", "Live sessions over any universe", markdown(heads, lines) + "\n\n" + note, "python -m bench live")


def _sparse(table, questions: int, **settings):
    return cs.open_session(
        table, epsilon=1.0, delta=1e-9, mechanism="sparse-mw", neighbours="replace", questions=questions, **settings
    )


def _strings(digits: int) -> list[str]:
    rng = np.random.Generator(np.random.PCG64(digits))
    texts = ["".join(map(str, rng.integers(0, 10, digits))) for _ in range(5_000)]
    shares = 1 / np.arange(1, 5_001)
    drawn = rng.choice(5_000, 100_000, p=shares / shares.sum())
    counts = np.zeros(5_000)
    np.add.at(counts, drawn, 1)
    table = cs.open_records([texts[i] for i in drawn])
    seconds, errors, paid, bound, length = [], [], 0, 0.0, 5_000
    with _sparse(table, length, sparsity=16, hits=100) as session:
        for _ in range(length):
            chosen = rng.choice(5_000, 16, replace=False)
            exact = {texts[i]: i for i in chosen}
            workload = cs.sparse([list(exact)])
            start = time.perf_counter()
            answer = session.ask(workload)
            seconds.append(time.perf_counter() - start)
            paid += answer.basis == "measured"
            if answer.basis != "unguaranteed":
                errors.append(abs(answer.fraction - counts[list(exact.values())].sum() / 100_000))
            bound = answer.high - answer.fraction if answer.basis == "guessed" else bound
    shown = [f"{max(errors):.2g}", f"{bound:.2g}", f"{1e3 * np.median(seconds):.2f}"]
    return [f"strings of {digits} digits", f"10^{digits}", f"{length:,}", f"{paid}", *shown]


def _conjunctions(width: int) -> list[str]:
    rng = np.random.Generator(np.random.PCG64(width))
    rows, length = 20_000, 5_000
    kinds = rng.integers(0, 2, (400, width), dtype=np.uint8)
    codes = kinds[rng.integers(0, 400, rows)] ^ (rng.random((rows, width)) < 0.2 / width)
    import pyarrow as pa

    names = [f"c{i}" for i in range(width)]
    schema = cs.Schema.from_dict({"name": "wide", "columns": {name: {"type": "boolean"} for name in names}})
    table = cs.open_table(pa.table({name: codes[:, i].astype(bool) for i, name in enumerate(names)}), schema)
    seconds, errors, paid, bound = [], [], 0, 0.0
    with _sparse(table, length) as session:
        for _ in range(length):
            fixed = np.sort(rng.choice(width, width - 8, replace=False))
            wanted = codes[rng.integers(rows)][fixed]
            box = tuple(Literal(int(c), (int(v),)) for c, v in zip(fixed, wanted))
            workload = Workload(schema.domain, (Conjunctions.of(schema.domain, [Predicate((box,))]),))
            start = time.perf_counter()
            answer = session.ask(workload)
            seconds.append(time.perf_counter() - start)
            paid += answer.basis == "measured"
            if answer.basis != "unguaranteed":
                errors.append(abs(answer.fraction - _share(codes, fixed, wanted)))
            bound = answer.high - answer.fraction if answer.basis == "guessed" else bound
    shown = [f"{max(errors):.2g}", f"{bound:.2g}", f"{1e3 * np.median(seconds):.2f}"]
    universe = f"10^{round(width * math.log10(2))}"
    return [f"conjunctions on {width - 8} of {width} columns", universe, f"{length:,}", f"{paid}", *shown]


def _share(codes: np.ndarray, fixed: np.ndarray, wanted: np.ndarray) -> float:
    left = np.arange(len(codes))
    for column, value in zip(fixed, wanted):
        left = left[codes[left, column] == value]
    return len(left) / len(codes)


if __name__ == "__main__":
    main()

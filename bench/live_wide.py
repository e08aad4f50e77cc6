"""Live sessions on tables that no histogram holds: Adult's 14 columns and Census-Income's 42, 10,000 questions.

Questions are conjunctions of one to four columns: a run of codes of an ordered column or of one with more than eight
values, a single value of any other. They are drawn from the schema alone. `BENCH_RUNS` sets the number of runs.
"""

from __future__ import annotations

import json
import math
import os
import time

import numpy as np

import conspectus as cs
from bench import data_file, markdown, record
from bench.census_income import census_income
from conspectus.counting.counters import count
from conspectus.privacy.accounting import rho_of
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.workload import Workload

EPSILON, DELTA = 1.0, 1e-9
LENGTH = 10_000
RUNS = int(os.environ.get("BENCH_RUNS", "5"))


def main() -> None:
    lines = []
    for name, table in (("Adult, 14 columns", adult()), ("Census-Income, 42 columns", census_income()[1])):
        questions = drawn_questions(table.schema.domain, LENGTH, seed=1)
        counts, rows = count(questions, table.chunks())
        truth = counts / rows
        rho = rho_of(EPSILON, DELTA)
        rng = np.random.Generator(np.random.PCG64(0))
        noise = np.abs(rng.normal(0, math.sqrt(LENGTH / (2 * rho)) / rows, (RUNS, LENGTH)))
        lines.append([name, "Gaussian noise on every question", *_errors(noise), "–", "all", "–"])
        lines.append([name, *_sessions(table, questions, truth)])
    heads = ["table", "answers from", "max error", "mean error", "interval ±", "guaranteed", "processor seconds"]
    note = (
        f"ε = {EPSILON:g}, δ = {DELTA:g}, add-remove, {LENGTH:,} conjunctions of one to four columns, {RUNS} runs: "
        "means, and the range of the largest errors. Errors and the mean half-width of 95 % intervals are shares of "
        "the rows. `live-mixture` spends half of the budget before the first question."
    )
    record(
        "live-wide", "Live sessions on wide tables", markdown(heads, lines) + "\n\n" + note, "python -m bench live_wide"
    )


def adult() -> cs.Table:
    import pandas as pd

    sizes = json.loads(data_file("adult_ppgm-domain.json").read_text())
    columns = {
        name: {"type": "integer", "min": 0, "max": size - 1}
        if size > 20
        else {"type": "categorical", "values": list(range(size))}
        for name, size in sizes.items()
    }
    schema = cs.Schema.from_dict({"name": "adult", "columns": columns})
    return cs.open_table(pd.read_csv(data_file("adult_ppgm.csv.gz")), schema)


def drawn_questions(domain, many: int, seed: int) -> Workload:
    """Conjunctions of one to four columns, from public sizes alone."""
    rng = np.random.Generator(np.random.PCG64(seed))
    usable = [c for c, size in enumerate(domain.sizes) if size > 1]
    asked = {}
    while len(asked) < many:
        columns = sorted(rng.choice(usable, int(rng.integers(1, 5)), replace=False).tolist())
        asked[Predicate((tuple(_literal(c, domain.sizes[c], rng) for c in columns),))] = None
    return Workload(domain, (Conjunctions.of(domain, list(asked)),))


def _literal(column: int, size: int, rng) -> Literal:
    if size <= 8:
        return Literal(column, (int(rng.integers(size)),))
    low = int(rng.integers(0, size - 1))
    high = int(rng.integers(low + 1, size + (low > 0)))
    return Literal(column, tuple(range(low, min(high, size - 1) + 1))[: size - 1])


def _errors(errors: np.ndarray) -> list[str]:
    """The largest and the mean error over the questions, averaged over runs."""
    largest = errors.max(axis=1)
    return [f"{largest.mean():.4f} ({largest.min():.4f} to {largest.max():.4f})", f"{errors.mean():.5f}"]


def _sessions(table: cs.Table, questions: Workload, truth: np.ndarray) -> list[str]:
    start = time.process_time()
    errors = np.zeros((RUNS, len(questions)))
    widths, bases = [], []
    settings = {"epsilon": EPSILON, "delta": DELTA, "neighbours": "add-remove", "questions": len(questions)}
    for run in range(RUNS):
        with cs.open_session(table, mechanism="live-mixture", **settings) as session:
            for place, (question, right) in enumerate(zip(questions, truth)):
                answer = session.ask(question)
                errors[run, place] = abs(answer.fraction - right)
                bases.append(answer.basis)
                if answer.low is not None:
                    widths.append((answer.high - answer.low) / 2)
        print(errors[run].max(), errors[run].mean(), bases.count("measured"), flush=True)
    promised = sum(basis != "unguaranteed" for basis in bases)
    return [
        f"`live-mixture`, {bases.count('measured') / RUNS:g} measured",
        *_errors(errors),
        f"{np.mean(widths):.4f}" if widths else "–",
        "all" if promised == len(bases) else f"{promised / len(bases):.2%}",
        f"{(time.process_time() - start) / RUNS:.0f}",
    ]

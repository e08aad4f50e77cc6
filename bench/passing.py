"""Whether a session answers all questions that were declared: the plan's word, the watch in law, and whole sessions."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pyarrow as pa
from tests.watching import share_that_passes

import conspectus as cs
from bench import markdown, record
from conspectus.counting.counters import count
from conspectus.mechanisms.choosing import make_online
from conspectus.privacy.guarantee import Budget
from conspectus.sessions.forecast import ranked
from conspectus.sessions.opening import session_problem

EPSILONS, DELTAS = (0.5, 1.0, 2.0, 4.0), (0.0, 1e-6)
QUESTIONS = (100, 1_000, 10_000, 100_000)
RUNS = 100_000
COLUMNS = 12
WHOLE = 10
"""Whole sessions for each cell of the second table."""
TABLES = {"uniform": 300_000, "classes": 21_574}


def main() -> None:
    tables = {name: made(name, rows) for name, rows in TABLES.items()}
    _in_law(tables)
    _whole(tables)


def made(name: str, rows: int, columns: int = COLUMNS, seed: int = 0):
    """Two-valued columns: fair coins, or four classes of people with their own shares, as in NLTCS."""
    rng = np.random.Generator(np.random.PCG64(seed))
    if name == "uniform":
        held = rng.random((rows, columns)) < 0.5
    else:
        classes = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
        held = rng.random((rows, columns)) < rng.beta(0.6, 1.4, (4, columns))[classes]
    names = [f"c{i}" for i in range(columns)]
    schema = cs.Schema.from_dict({"name": name, "columns": {column: {"type": "boolean"} for column in names}})
    return cs.open_table(pa.table({column: held[:, i] for i, column in enumerate(names)}), schema)


def _in_law(tables) -> None:
    lines = []
    for (name, table), delta, epsilon in product(tables.items(), DELTAS, EPSILONS):
        line = [f"{name}, {table.known_rows:,} rows", f"{delta:g}", f"{epsilon:g}"]
        for questions in QUESTIONS:
            budget = Budget(epsilon=epsilon, delta=delta)
            problem = session_problem(table, budget, questions=questions, neighbours="replace", rows=None)
            (pmw,), _ = ranked(problem, make_online("pmw", {}))
            best = ranked(problem, None)[0][0].claim
            plan = pmw.plan
            passed = share_that_passes(plan.sparse, questions, plan.guess_error, runs=RUNS, seed=questions)
            line += [f"{pmw.claim.answered:.4f}, {passed:.4f}"]
            line += [f"`{best.mechanism}` {best.expected_width / problem.rows:.4f}"]
        lines.append(line)
    heads = ["table", "δ", "ε", *(head for number in QUESTIONS for head in (f"{number:,} questions", "`auto` ±"))]
    note = (
        f"{COLUMNS} two-valued columns, replace. How likely all declared questions are answered with a guarantee by "
        "`pmw` where its guess is right: at least this likely, said the plan; and the share of "
        f"{RUNS:,} runs of the watch in law, with every guess as wrong as the plan allows for. Beside them what `auto` "
        "takes, and the width that it expects: the distance of the ends of a 95 % interval from the answer, as a "
        "fraction of the rows, on average over conjunctions of one to four columns. `laplace` and `gaussian` answer "
        "all that was declared for certain."
    )
    record("passing", "Sessions that answer all they declared", markdown(heads, lines) + "\n\n" + note, COMMAND)


COMMAND = "python -m bench passing"
CELLS = [(2.0, 0.0, 1_000), (0.5, 1e-6, 1_000)]


def _whole(tables) -> None:
    lines = []
    for (name, table), (epsilon, delta, questions), mechanism in product(tables.items(), CELLS, ("pmw", "auto")):
        asked = _asked(table.schema, questions)
        truth = count(sum(asked[1:], asked[0]), table.chunks())[0]
        full, inside, hits, seconds, worst = 0, 0, 0, 0.0, 0.0
        for _ in range(WHOLE):
            start = time.perf_counter()
            with cs.open_session(
                table, epsilon=epsilon, delta=delta, questions=questions, mechanism=mechanism, neighbours="replace"
            ) as session:
                answers = [session.ask(question) for question in asked]
                claim, chosen = session.claim, session.mechanism
            seconds += time.perf_counter() - start
            full += all(answer.basis != "unguaranteed" for answer in answers)
            hits += sum(answer.basis == "measured" and answer.cost > 0 for answer in answers)
            shares = truth / table.known_rows
            worst = max(worst, float(np.abs([answer.fraction for answer in answers] - shares).max()))
            inside += sum(a.low is not None and a.low <= share <= a.high for a, share in zip(answers, shares))
        lines.append(
            [
                name,
                f"{epsilon:g}",
                f"{delta:g}",
                f"{questions:,}",
                f"`{chosen}`" + (" (`auto`)" if mechanism == "auto" else ""),
                f"{claim.answered:.4f}",
                f"{full} of {WHOLE}",
                f"{hits / WHOLE:.1f}",
                f"{worst:.4f}",
                f"{inside / WHOLE / questions:.4f}",
                f"{seconds / WHOLE:.1f}",
            ]
        )
    heads = ["table", "ε", "δ", "questions", "mechanism", "the plan says", "sessions that answered all", "paid for"]
    heads += ["largest error", "truths inside", "seconds"]
    note = (
        f"Whole sessions, {WHOLE} for each line, on the same tables: random conjunctions of one to five columns, each "
        "asked once. Paid for: answers that were measured for themselves, a session. The largest error is over all "
        "sessions, as a fraction of the rows; truths inside is the share of 95 % intervals that held the truth."
    )
    record("passing-whole", "Whole sessions", markdown(heads, lines) + "\n\n" + note, COMMAND)


def _asked(schema, questions: int):
    """Different conjunctions, of three to five columns mostly: there are not many of fewer."""
    parts = [min(20, questions // 20), questions // 10, questions // 4]
    parts.append(questions // 3)
    sizes = [*parts, questions - sum(parts)]
    return [q for k, size in enumerate(sizes, 1) for q in cs.random_conjunctions(schema, k, count=size, public_seed=k)]


if __name__ == "__main__":
    main()

"""Live sessions on NLTCS (2^16 cells): how long an answer takes, and what holds when many ask at once or are killed."""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.children import child, killed

import conspectus as cs
from bench import data_file, markdown, record
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation
from conspectus.sessions.account import debits

BUDGET = {"epsilon": 1.0, "delta": 1e-6}
SURPRISED = {**BUDGET, "priming": 0.0, "hits": 60}
"""The book's unprimed weights, which are surprised often: so that many acts are in play."""
ASKED, THREADS, PROCESSES, KILLS = 2_000, 16, 8, 200


def main() -> None:
    import pandas as pd

    frame = pd.read_csv(data_file("nltcs_named.csv.gz"))
    schema = cs.Schema.from_dict({"name": "nltcs", "columns": {name: {"type": "boolean"} for name in frame.columns}})
    questions = list(cs.random_conjunctions(schema, 3, count=ASKED, public_seed=1))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder)
        _latency(frame, schema, questions, place)
        _stress(frame, schema, questions, place)


def _latency(frame: Any, schema: Any, questions: list[Any], place: Path) -> None:
    table = cs.open_table(frame, schema)
    with cs.open_session(table, mechanism="pmw", **BUDGET) as session:
        session.ask(questions[-1])  # compiles, fills caches
    lines = []
    wider = list(
        cs.random_conjunctions(schema, 4, count=ASKED, public_seed=2)
    )  # beyond the marginals bought in advance
    mixed = [question for pair in zip(questions, wider) for question in pair]
    texts = [_spelled(schema, question) for question in mixed]
    for what, path, asked in (
        ("in memory", None, mixed),
        ("in a file", place / "a.session", mixed),
        ("in a file, as SQL text", place / "b.session", texts),
    ):
        start = time.perf_counter()
        with cs.open_session(table, mechanism="pmw", path=path, questions=4 * ASKED, **BUDGET) as session:
            opened = time.perf_counter() - start
            took: dict[str, list[float]] = {"guessed": [], "measured": [], "repeated": []}
            for question in [*asked, *asked]:
                start = time.perf_counter()
                answer = session.ask(question)
                if answer.repeated or not answer.cost:
                    took["repeated" if answer.repeated else answer.basis].append(time.perf_counter() - start)
        guessed = 1e3 * np.array(took["guessed"])
        lines.append(
            [
                what,
                f"{np.median(guessed):.2f}",
                f"{np.quantile(guessed, 0.95):.2f}",
                f"{1e3 * statistics.median(took['measured']):.2f}",
                f"{1e3 * statistics.median(took['repeated']):.2f}",
                f"{opened:.1f}",
            ]
        )
    slow = {**SURPRISED, "path": place / "c.session"}
    with cs.open_session(table, **slow) as session:
        paid = []
        for question in questions:
            start = time.perf_counter()
            if session.ask(question).cost:
                paid.append(time.perf_counter() - start)
    start = time.perf_counter()
    with cs.resume_session(place / "c.session", table) as session:
        session.ask(questions[0])
    resumed = time.perf_counter() - start
    heads = ["session", "guessed", "its 95 % quantile", "bought in advance", "repeated", "seconds to open"]
    note = (
        f"Milliseconds an answer, medians over {ASKED:,} random 4-way conjunctions (guessed, through the watch) and as "
        "many 3-way ones (which the marginals bought in advance add up to) on 65,536 cells, primed `pmw`, ε = 1, "
        "δ = 1e-6. An answer is in the file before it is shown; one without acts is handed to the operating system "
        "and not waited for on the disk. One with acts waits for the disk several times: "
        f"{1e3 * statistics.median(paid):.0f} ms at the median "
        f"({len(paid)} of them, unprimed). Resuming that session takes {resumed:.1f} s."
    )
    text = markdown(heads, lines) + "\n\n" + note
    record("sessions-latency", "How long a session takes to answer", text, "python -m bench sessions")


def _stress(frame: Any, schema: Any, questions: list[Any], place: Path) -> None:
    lines = [
        _threads(frame, schema, questions[:400], place / "threads.session"),
        _processes(frame, schema, questions[:200], place / "processes.session"),
        _kills(frame, schema, questions, place),
    ]
    heads = ["what", "answers shown", "questions with two answers", "acts", "acts in the ledger", "ρ spent / allowed"]
    note = (
        f"Unprimed `pmw` with {SURPRISED['hits']} hits on NLTCS. All threads and processes ask the same questions in "
        "orders of their own. Each kill (`kill -9`) comes at a random moment after a random number of answers; then "
        "the session is resumed by another process. At the end everything that was ever shown is asked again."
    )
    text = markdown(heads, lines) + "\n\n" + note
    record("sessions-stress", "Sessions under stress", text, "python -m bench sessions")


def _threads(frame: Any, schema: Any, questions: list[Any], path: Path) -> list[str]:
    seen: dict[int, set[float]] = {}
    shown = []
    with cs.open_session(cs.open_table(frame, schema), path=path, **SURPRISED) as session:

        def analyst(seed: int) -> None:
            for number in random.Random(seed).sample(range(len(questions)), len(questions)):
                shown.append((number, session.ask(questions[number]).fraction))

        threads = [threading.Thread(target=analyst, args=(seed,)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number, fraction in shown:
        seen.setdefault(number, set()).add(fraction)
    return _line(f"{THREADS} threads, {len(questions)} questions each", path, frame, schema, len(shown), seen)


def _processes(frame: Any, schema: Any, questions: list[Any], path: Path) -> list[str]:
    cs.open_session(cs.open_table(frame, schema), path=path, **SURPRISED).close()
    orders = [random.Random(seed).sample(range(len(questions)), len(questions)) for seed in range(PROCESSES)]
    children = [child(partial(_analyst, frame, schema, questions, path, order)) for order in orders]
    seen: dict[int, set[float]] = {}
    shown = 0
    for process, read in children:
        with os.fdopen(read) as lines:
            for number, fraction in _answers(lines):
                seen.setdefault(number, set()).add(fraction)
                shown += 1
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    return _line(f"{PROCESSES} processes, {len(questions)} questions each", path, frame, schema, shown, seen)


def _kills(frame: Any, schema: Any, questions: list[Any], place: Path) -> list[str]:
    rng = random.Random(1)
    shown, sums, seen = 0, np.zeros(4), {}
    for start in range(0, KILLS, 10):
        path = place / f"kill{start}.session"
        cs.open_session(cs.open_table(frame, schema), path=path, **SURPRISED).close()
        mine: dict[int, set[float]] = {}
        for _ in range(10):
            order = rng.sample(range(len(questions)), len(questions))
            asking = partial(_analyst, frame, schema, questions, path, order)
            said = killed(asking, rng, lines=40, longest=0.05)
            for number, fraction in _answers(said):
                mine.setdefault(number, set()).add(fraction)
                shown += 1
        _again(frame, schema, questions, path, mine)
        sums += _standing(path, frame, schema)
        seen |= {(start, number): fractions for number, fractions in mine.items()}
    return _row(f"{KILLS} kills, ten a session", shown, seen, sums)


def _again(frame: Any, schema: Any, questions: list[Any], path: Path, seen: dict[int, set[float]]) -> None:
    """Ask for everything that was shown again: a lost answer would be given anew, and differ or cost."""
    with cs.resume_session(path, cs.open_table(frame, schema)) as session:
        for number, fractions in seen.items():
            answer = session.ask(questions[number])
            assert answer.repeated, "an answer that was shown is not in the file"
            fractions.add(answer.fraction)


def _analyst(frame: Any, schema: Any, questions: list[Any], path: Path, order: list[int], write: int) -> None:
    with cs.resume_session(path, cs.open_table(frame, schema)) as session:
        for number in order:
            os.write(write, f"{number} {session.ask(questions[number]).fraction!r}\n".encode())


def _answers(lines: Iterable[str]) -> list[tuple[int, float]]:
    return [(int(number), float(fraction)) for number, fraction in (line.split() for line in lines)]


def _standing(path: Path, frame: Any, schema: Any) -> np.ndarray:
    """Acts in the file and in the ledger, what was spent and what was allowed."""
    with cs.resume_session(path, cs.open_table(frame, schema)) as session:
        ledger = Ledger.open(f"{path}.ledger")
        paid = debits(Reservation(ledger, 1))
        assert session._store.acts() == paid, "file and ledger disagree"
        spent = float(sum(entry.price for entry in ledger.entries() if entry.kind == "debit"))
        assert spent == session.spent
        return np.array([len(session._store.acts()), len(paid), spent, session.spent + session.remaining])


def _line(what: str, path: Path, frame: Any, schema: Any, shown: int, seen: dict[Any, set[float]]) -> list[str]:
    return _row(what, shown, seen, _standing(path, frame, schema))


def _row(what: str, shown: int, seen: dict[Any, set[float]], standing: np.ndarray) -> list[str]:
    kept, paid, spent, allowed = standing
    double = sum(len(fractions) > 1 for fractions in seen.values())
    return [what, f"{shown:,}", str(double), f"{kept:.0f}", f"{paid:.0f}", f"{spent:.4f} / {allowed:.4f}"]


def _spelled(schema: Any, question: Any) -> str:
    from conspectus.queries.language.from_sql import to_sql

    return to_sql(schema, question.query(0))


if __name__ == "__main__":
    main()

"""Functions of the whole table in live sessions: by fresh noise, and by the median over all tables of as many rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.counting.statistic_counts import values_on_tables
from conspectus.curator.truth import Truth
from conspectus.data.domain import Domain
from conspectus.data.sources import Table
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.online.median import MedianGuess, TrivialNet
from conspectus.mechanisms.update_rules.update_counts import net_size
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.statistic import STATISTIC_STEPS
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total

SCHEMA = cs.Schema.from_dict(
    {"name": "made", "columns": {"age": {"type": "integer", "min": 0, "max": 2}, "ill": {"type": "boolean"}}}
)
ONE = cs.Schema.from_dict({"name": "one", "columns": {"ill": {"type": "boolean"}}})


def functions(schema: cs.Schema) -> list[Workload]:
    """One question of each kind, and all of some."""
    asked = cs.mode_shares(schema) + cs.truncated_means(schema, "age") + cs.interval_balances(schema, "age")
    asked += cs.quantile_shares(schema, "age", quantiles=[0.25, 0.5]) + cs.kolmogorov_distances(schema, "age")
    asked += cs.independence_distances(schema) + cs.independence_gaps(schema)
    asked += cs.satisfied_shares(schema, [[{"age": 0}, {"ill": True}]])
    return [asked[number] for number in range(len(asked))]


def table_of(schema: cs.Schema, counts: np.ndarray) -> Table:
    codes = np.unravel_index(np.repeat(np.arange(len(counts)), counts), schema.domain.sizes)
    kinds = {"age": pa.int64(), "ill": pa.bool_()}
    columns = {name: pa.array(code.tolist()).cast(kinds[name]) for name, code in zip(schema.domain.names, codes)}
    return cs.open_table(pa.table(columns), schema)


def test_values_on_many_tables_are_those_of_each() -> None:
    tables = np.random.default_rng(0).integers(0, 5, (4, 6))
    tables[0] = 0
    for question in functions(SCHEMA):
        found = values_on_tables(SCHEMA.domain, question.query(0), tables)
        alone = [int(Truth(table_of(SCHEMA, counts)).counts(question)[0]) for counts in tables]
        assert found.tolist() == alone


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_fresh_noise_answers_functions_within_their_intervals(mechanism: str, neighbours: str) -> None:
    counts = np.array([80, 10, 40, 30, 20, 20])
    table = table_of(SCHEMA, counts)
    asked = functions(SCHEMA)
    budget = {"epsilon": 100.0, "delta": 1e-6, "neighbours": neighbours, "rows": 200}
    with cs.open_session(table, questions=len(asked), mechanism=mechanism, **budget) as session:
        for question in asked:
            answer = session.ask(question, confidence=1 - 1e-9)
            true = values_on_tables(SCHEMA.domain, question.query(0), counts[None])[0] / STATISTIC_STEPS / 200
            assert answer.low is not None
            assert answer.high is not None
            assert answer.low <= true <= answer.high
            assert (answer.count is None) == (not question.query(0).counts_rows)
            again = session.ask(question)
            assert (again.repeated, again.fraction, again.cost) == (True, answer.fraction, 0.0)
        assert session.asked == len(asked)  # one that a unit moves by two rows has twice the noise, at the same price
        assert session.remaining >= 0
        assert len(session.release().answers) == len(asked)


def test_a_session_in_a_file_keeps_its_functions(tmp_path: Path) -> None:
    table = table_of(SCHEMA, np.array([80, 10, 40, 30, 20, 20]))
    asked = functions(SCHEMA)[:4]
    with cs.open_session(table, epsilon=10.0, questions=9, mechanism="laplace", path=tmp_path / "s") as session:
        given = [session.ask(question).fraction for question in asked]
        spent = session.spent
    with cs.resume_session(tmp_path / "s", table) as session:
        assert [session.ask(question).fraction for question in asked] == given
        assert session.spent == spent
        saved = session.release()
        saved.save(tmp_path / "r.conspectus")
    assert cs.load(tmp_path / "r.conspectus").ask(asked[0]).fraction == pytest.approx(given[0])


def nets(cells: int, rows: int) -> Iterator[tuple[int, ...]]:
    if cells == 1:
        yield (rows,)
        return
    for first in range(rows + 1):
        for rest in nets(cells - 1, rows - first):
            yield (first, *rest)


def guess_over(domain: Domain, rows: int) -> MedianGuess:
    guess = MedianGuess.__new__(MedianGuess)
    guess._domain, guess._total = domain, Total(value=float(rows), exact=True)
    guess._members = TrivialNet.of(domain, rows)
    return guess


def test_the_trivial_net_holds_every_table() -> None:
    net = TrivialNet.of(SCHEMA.domain, 4)
    assert len(net) == net_size(6, 4) == math.comb(9, 4)
    assert {tuple(row) for row in net._counts.tolist()} == set(nets(6, 4))


@pytest.mark.parametrize("truth", [(4, 0, 0, 0, 0, 0), (1, 1, 1, 0, 0, 1), (0, 2, 0, 2, 0, 0)])
def test_no_more_updates_than_the_theorem_says(truth: tuple[int, ...]) -> None:
    """Theorem 5.8 over the trivial net: an adversary who always asks the worst function, measured exactly."""
    asked = [question for question in functions(SCHEMA) if question.query(0).replaced == 1]
    true = [values_on_tables(SCHEMA.domain, q.query(0), np.array([truth]))[0] / STATISTIC_STEPS for q in asked]
    guess = guess_over(SCHEMA.domain, 4)
    updates = 0
    while True:
        off = [abs(guess.of(question) - value / 4) for question, value in zip(asked, true)]
        worst = int(np.argmax(off))
        if off[worst] < 1e-9:
            break
        guess.learn(asked[worst], true[worst], Noise("laplace", 1.0))
        updates += 1
        assert updates <= math.log2(net_size(6, 4))
    assert all(abs(guess.of(question) - value / 4) < 1e-9 for question, value in zip(asked, true))


def test_the_median_answers_functions_of_a_small_table() -> None:
    table = table_of(ONE, np.array([300, 700]))
    asked = cs.mode_shares(ONE)[0]
    median = cs.mechanisms.Median(functions=True)
    with cs.open_session(table, epsilon=200.0, questions=40, mechanism=median) as session:
        answer = session.ask(asked, confidence=1 - 1e-9)
        assert answer.low is not None
        assert answer.high is not None
        assert answer.low <= 0.7 <= answer.high
        assert abs(session.ask("ill").fraction - 0.7) < 0.05


def test_what_no_session_answers_is_refused_before_it_is_paid() -> None:
    table = table_of(SCHEMA, np.array([8, 1, 4, 3, 2, 2]))
    mode = cs.mode_shares(SCHEMA)[0]
    unsafe = cs.unsafe_functions(SCHEMA, {"f": (lambda codes: 0.5, 0.1)})
    for mechanism in ("pmw", "perceptron", "median", "sparse-mw"):
        with cs.open_session(table, epsilon=5.0, delta=1e-6, questions=9, mechanism=mechanism) as session:
            spent = session.spent
            for question in (mode, unsafe):
                with pytest.raises(WorkloadError):
                    session.ask(question)
                with pytest.raises(WorkloadError):
                    session.measure(question)
            assert session.spent == spent
    with cs.open_session(table, epsilon=5.0, questions=9, mechanism="laplace") as session:
        with pytest.raises(WorkloadError, match="declared"):
            session.ask(unsafe)
        with pytest.raises(WorkloadError, match="function of the whole table"):
            session.oracle(0.2)(mode)
    median = cs.mechanisms.Median(functions=True)
    with pytest.raises(NoMechanism, match="functions=True needs a public number of rows"):
        cs.open_session(table, epsilon=5.0, mechanism=median, neighbours="add-remove", rows=20)
    large = table_of(SCHEMA, np.array([80, 1, 4, 3, 2, 2]))
    with pytest.raises(NoMechanism, match="there are more than"):
        cs.open_session(large, epsilon=5.0, mechanism=median)


def test_a_function_that_moves_by_two_rows_is_not_watched() -> None:
    table = table_of(SCHEMA, np.array([2, 0, 1, 0, 1, 0]))
    (wide,) = [question for question in functions(SCHEMA) if question.query(0).replaced == 2]
    with cs.open_session(table, epsilon=5.0, questions=9, mechanism=cs.mechanisms.Median(functions=True)) as session:
        spent = session.spent
        with pytest.raises(WorkloadError, match="two rows"):
            session.ask(wide)
        assert session.spent == spent

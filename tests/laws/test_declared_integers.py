"""Whole numbers that a caller declares: each is served in bounded time, or refused in a sentence of our own.

The danger is a schema or an option with a few digits more, which hangs a release or ends in an error of Python's.
"""

from __future__ import annotations

import inspect
import io
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import typer
from tests.made import needed, people

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.app import app
from conspectus.mechanisms.choosing import settings_of
from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.mechanisms.stable_histogram import threshold
from conspectus.stability.value_planning import least_threshold
from conspectus.whole_numbers import MOST, MOST_SEED, is_seed, whole

WHOLE = (0, -1, 2**31, 2**53, 2**63, 10**20, 10**400, 10**5000)
NOT_WHOLE = (True, 2.5, float("nan"))
SECONDS = 10

SCHEMA, TABLE = people(60)
ASKED = cs.marginals(SCHEMA, 1)
PAIRS = pa.table({"user": ["1", "2", "2"], "item": ["a", "b", "c"]})
RELEASE = cs.release(TABLE, cs.marginals(SCHEMA, 2), epsilon=1.0)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@contextmanager
def in_time(what: str) -> Iterator[None]:
    """Fail where something hangs."""

    def late(*_: object) -> None:
        pytest.fail(f"{what} did not end within {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ours(error: Exception) -> bool:
    return any(kind.__module__.startswith("conspectus.") for kind in type(error).__mro__)


def put(call: Callable[[Any], object], number: object) -> bool:
    """Whether a number is refused, by us; it may also be served. All else is a failure."""
    with in_time(f"{number!r:.20}" if not isinstance(number, int) else "a number"):
        try:
            call(number)
        except Exception as error:
            if not ours(error) or len(str(error)) > 600:
                raise
            return True
    return False


def by_id(most: Any) -> tuple[cs.Schema, Any]:
    return people(60, unit={"kind": "id", "column": "person", "max_rows": most})


def released(most: Any, **budget: float) -> object:
    schema, table = by_id(most)
    return cs.release(table, cs.marginals(schema, 1), **budget)


def pairs(**given: Any) -> Any:
    return cs.open_pairs(PAIRS, items=["a", "b", "c"], **given)


def paired(**given: Any) -> object:
    table = pairs(**given)
    return cs.release(table, cs.marginals(table.schema, 1), epsilon=1.0, mechanism="laplace")


def aggregated(**given: Any) -> object:
    wanted = cs.aggregated(SCHEMA, lambda codes: 0.5, **{"blocks": 3, "range": (0, 1), **given})
    return cs.release_value(TABLE, wanted, epsilon=1.0)


def stepped(**given: Any) -> cs.Schema:
    return cs.open_stream(SCHEMA, ASKED, **{"horizon": 4, **BUDGET, **given})


PAIRED = cs.release(pairs(users=3), cs.marginals(pairs(users=3).schema, 2), epsilon=1.0)
AGE = cs.column_median(SCHEMA, "age")
THIRD = np.array([1 / 3])
FRAME = pa.table({"region": ["north"], "age": [20], "smoker": [True], "ill": [True]})

CALLS: dict[str, Callable[[Any], object]] = {
    "NoisySample.round": lambda n: None,  # it is handed to a generator, and made by nobody else
    "NoisySample.rounds": lambda n: None,
    "Release.left_out": lambda n: None,  # a field that `save` writes
    "Release.synthetic.public_seed": lambda n: RELEASE.synthetic(2, public_seed=n),
    "Release.synthetic.rows": lambda n: RELEASE.synthetic(n),
    "Release.synthetic_pairs.public_seed": lambda n: PAIRED.synthetic_pairs(2, public_seed=n),
    "Release.synthetic_pairs.users": lambda n: PAIRED.synthetic_pairs(n),
    "aggregated.blocks": lambda n: aggregated(blocks=n),
    "aggregated.levels": lambda n: aggregated(levels=n),
    "aggregated.public_seed": lambda n: aggregated(public_seed=n),
    "attacks.AttackResult.guesses": lambda n: None,  # a field of what is found
    "attacks.membership.rows": lambda n: cs.attacks.membership(THIRD, THIRD, THIRD[None] > 0, rows=n),
    "attacks.run.public_seed": lambda n: list(cs.attacks.run([], epsilons=[1.0], attacks=["linear"], public_seed=n)),
    "attacks.run.runs": lambda n: list(cs.attacks.run([], epsilons=[1.0], attacks=["linear"], runs=n)),
    "composition.advanced.count": lambda n: cs.composition.advanced(0.1, n, 1e-6),
    "composition.advanced_approximate.count": lambda n: cs.composition.advanced_approximate(0.1, 1e-9, n, 1e-6),
    "composition.advanced_share.count": lambda n: cs.composition.advanced_share(1.0, n, 1e-6),
    "composition.corollary_share.count": lambda n: cs.composition.corollary_share(1.0, n, 1e-6),
    "composition.group.units": lambda n: cs.composition.group(1.0, 1e-6, n),
    "composition.group_rho.units": lambda n: cs.composition.group_rho(1.0, n),
    "composition.loss_distribution_epsilon.acts": lambda n: cs.composition.loss_distribution_epsilon(
        {Fraction(1, 10): n}, 1e-6
    ),
    "composition.optimal_delta.count": lambda n: cs.composition.optimal_delta(0.5, n, 1e300),
    "composition.optimal_epsilon.count": lambda n: cs.composition.optimal_epsilon(n, 0.1, 1e-6),
    "composition.optimal_share.count": lambda n: cs.composition.optimal_share(1.0, n, 1e-6),
    "interquartile_range.bins": lambda n: cs.interquartile_range(SCHEMA, "age", bins=n),
    "marginals.k": lambda n: cs.marginals(SCHEMA, n),
    "open_pairs.public_seed": lambda n: paired(users=1, public_seed=n),
    "open_pairs.users": lambda n: paired(users=n),
    "open_session.questions": lambda n: cs.open_session(TABLE, questions=n, **BUDGET).ask("ill"),
    "open_session.rows": lambda n: cs.open_session(by_id(2)[1], questions=9, rows=n, **BUDGET).ask("ill"),
    "open_stream.events": lambda n: stepped(events=n),
    "open_stream.horizon": lambda n: stepped(horizon=n),
    "open_table.public_seed": lambda n: cs.open_table(FRAME, SCHEMA, public_seed=n),
    "parities.k": lambda n: cs.parities(SCHEMA, n),
    "plan.rows": lambda n: cs.plan(SCHEMA, ASKED, rows=n, **BUDGET),
    "plan_session.questions": lambda n: cs.plan_session(SCHEMA, rows=60, questions=n, **BUDGET),
    "plan_session.rows": lambda n: cs.plan_session(SCHEMA, rows=n, questions=9, **BUDGET),
    "plan_value.within": lambda n: cs.plan_value(AGE, **BUDGET, mechanism="propose-test-release", within=n),
    "quantile_edges.bins": lambda n: cs.quantile_edges(RELEASE, "age", n),
    "random_conjunctions.count": lambda n: cs.random_conjunctions(SCHEMA, 2, n, public_seed=1),
    "random_conjunctions.k": lambda n: cs.random_conjunctions(SCHEMA, n, 3, public_seed=1),
    "random_conjunctions.public_seed": lambda n: cs.random_conjunctions(SCHEMA, 2, 3, public_seed=n),
    "release.rows": lambda n: cs.release(by_id(2)[1], ASKED, rows=n, **BUDGET),
    "release_value.within": lambda n: cs.release_value(
        TABLE, AGE, **BUDGET, mechanism="propose-test-release", within=n
    ),
    "unsafe_functions.rows": lambda n: cs.unsafe_functions(SCHEMA, {"f": (lambda codes: 0.0, 0.01)}, rows=n),
}
"""What takes a whole number, by its name: what to call with one."""

POSITIONS = {"Ledger.entries_of.number", "Ledger.resume.number", "Schema.encode.position", "Workload.query.index"}
"""Numbers that name one of several things: an index that is out of range ends as Python's own does."""

IN_SCHEMAS: dict[str, Callable[[Any], object]] = {
    "max_rows, pure": lambda n: released(n, epsilon=1.0),
    "max_rows, with a delta": lambda n: released(n, **BUDGET),
    "max_rows, a stable value": lambda n: cs.plan_value(
        cs.column_median(by_id(n)[0], "age"), **BUDGET, mechanism="stable"
    ),
    "max_rows, a session": lambda n: cs.open_session(by_id(n)[1], questions=9, **BUDGET).ask("ill"),
}


def parameters(name: str, thing: Any) -> Iterator[str]:
    """The whole numbers that something public takes, by their names."""
    if isinstance(thing, ModuleType):
        for inner in getattr(thing, "__all__", ()):
            yield from parameters(f"{name}.{inner}", getattr(thing, inner))
        return
    if not callable(thing) or (isinstance(thing, type) and issubclass(thing, Exception)):
        return
    try:
        taken = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return
    kinds = {"int", "int | None", "Mapping[Fraction, int]"}
    yield from (f"{name}.{one.name}" for one in taken if str(one.annotation) in kinds)
    if isinstance(thing, type):
        for inner in (word for word in vars(thing) if not word.startswith("_")):
            yield from parameters(f"{name}.{inner}", getattr(thing, inner))


def test_every_public_whole_number_is_put_to_the_test() -> None:
    modules = ("composition", "attacks", "local")  # settings of mechanisms are found by themselves
    names = [name for name in cs.__all__ if name not in ("mechanisms", *modules)]
    found = {one for name in (*names, *modules) for one in parameters(name, getattr(cs, name))}
    assert found - POSITIONS <= set(CALLS), "add a call for each of these"
    assert len(found) > 40


@pytest.mark.parametrize("what", [*CALLS, *IN_SCHEMAS])
def test_no_number_hangs_or_overflows(what: str) -> None:
    call = CALLS.get(what) or IN_SCHEMAS[what]
    for number in (*WHOLE, *NOT_WHOLE):
        put(call, number)
    seed = what.endswith("public_seed")
    if "lambda n: None" not in inspect.getsource(call):
        assert put(call, -1)
        assert put(call, 10**400)
        assert put(call, 2.5)
        assert not seed or put(call, MOST_SEED + 1)
        assert not seed or not put(call, MOST_SEED)


SETTINGS = [
    (name, setting, online)
    for online, entries in ((False, OFFLINE), (True, ONLINE))
    for name in entries
    for setting, field in settings_of(name, entries).items()
    if "int" in str(field.type).split(" | ")
]


@pytest.mark.parametrize(("name", "setting", "online"), SETTINGS, ids=lambda part: str(part))
def test_no_setting_hangs_or_overflows(name: str, setting: str, online: bool) -> None:
    """Plans alone: how long rounds take that are allowed is said there."""

    def call(number: Any) -> object:
        if online:
            chosen = {"mechanism": name, setting: number}
            return cs.plan_session(SCHEMA, rows=60, questions=9, **BUDGET, **chosen)
        chosen = {**needed(name, SCHEMA), "mechanism": name, setting: number}
        return cs.plan(SCHEMA, ASKED, rows=60, **BUDGET, **chosen)

    for number in (*WHOLE, *NOT_WHOLE):
        put(call, number)
    assert put(call, 10**400)
    assert put(call, -1)
    assert put(call, True)


def test_work_that_is_counted_in_turns_has_a_limit() -> None:
    assert put(lambda n: cs.plan(SCHEMA, ASKED, rows=60, epsilon=1.0, mechanism="mwem", rounds=n), 2**31)
    assert put(lambda n: cs.plan(SCHEMA, ASKED, rows=60, epsilon=1.0, mechanism="mwem", evaluations=n), 2**31)
    assert put(lambda n: cs.plan(SCHEMA, ASKED, rows=60, epsilon=1.0, mechanism="iterative", rounds=n), 2**31)


def test_numbers_of_seconds_that_no_system_waits_for() -> None:
    for seconds in (3e6, 1e300, 2**40):
        assert not put(lambda n: aggregated(seconds=n), seconds)
    assert put(lambda n: aggregated(seconds=n), 10**400)


def test_the_largest_numbers_are_served() -> None:
    assert not put(CALLS["plan.rows"], MOST)
    assert not put(CALLS["plan_session.questions"], MOST)
    assert not put(CALLS["open_stream.events"], MOST)
    assert not any(put(call, MOST) for call in IN_SCHEMAS.values())
    assert whole(MOST)
    assert not whole(MOST + 1)
    assert not whole(True)
    assert is_seed(0)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5, 40.0, 1e5])
@pytest.mark.parametrize("most", [1, 3, 1000])
@pytest.mark.parametrize("delta", [0.4, 1e-3, 1e-6, 1e-12])
def test_thresholds_are_the_least_that_fit(scale: float, most: int, delta: float) -> None:
    """One below has a δ that is too large; P(Z ≥ t) = p^t/(1 + p), as the prices say it."""
    from conspectus.curator.acts import keys_act
    from conspectus.privacy.accounting import price_approximate
    from conspectus.privacy.relation import Neighbours

    def shows(level: int) -> Fraction:
        return price_approximate(keys_act(scale, level, max_rows=most), Neighbours.ADD_REMOVE)[1]

    found = threshold(scale, most, delta)
    assert shows(found) <= Fraction(delta)
    assert found == most + 1 or shows(found - 1) > Fraction(delta)
    if most == 1:
        assert least_threshold(scale, 1, Fraction(delta)) == found


OPTIONS = {
    "plan --rows": "plan --schema SCHEMA --marginals 1 --epsilon 1 --rows N",
    "plan --session": "plan --schema SCHEMA --rows 60 --epsilon 1 --session N",
    "plan --marginals": "plan --schema SCHEMA --epsilon 1 --marginals N",
    "plan --parities": "plan --schema SCHEMA --epsilon 1 --parities N",
    "plan --random-conjunctions": "plan --schema SCHEMA --epsilon 1 --random-conjunctions 2:N:1",
    "plan --set": "plan --schema SCHEMA --epsilon 1 --marginals 1 --mechanism mwem --set rounds=N",
    "synthesize --rows": "synthesize RELEASE -o OUT --rows N",
    "synthesize --public-seed": "synthesize RELEASE -o OUT --rows 2 --public-seed N",
    "release --rows": "release DATA --schema SCHEMA --marginals 1 --epsilon 1 -o SAVED --rows N",
    "session --rows": "session DATA --schema SCHEMA --path KEPT --epsilon 1 --rows N",
    "session --questions": "session DATA --schema SCHEMA --path KEPT --epsilon 1 --questions N",
    "token add --questions": "serve token add ada --folder FOLDER --questions N",
    "schema draft --bins": "schema draft DATA --bins N",
    "evaluate --worst": "evaluate SMALL DATA --worst N",
    "sql --lines": "sql RELEASE 'SELECT COUNT(*) GROUP BY ill' --lines N",
    "audit --trials": "audit --mechanism nobody --trials N",
    "attack --runs": "attack --attack linear --mechanism laplace --epsilon 1 --runs N",
    "attack --seed": "attack --attack linear --mechanism laplace --epsilon 1 --runs 1 --seed N",
    "value --within": "value DATA --schema SCHEMA --median age --epsilon 1 --delta 1e-6 "
    "--mechanism propose-test-release --within N",
}


FILES = {"SCHEMA": "s.toml", "RELEASE": "r.conspectus", "SMALL": "small.conspectus", "DATA": "d.csv"} | {
    "OUT": "o.csv", "SAVED": "o.conspectus", "KEPT": "kept", "FOLDER": "served"
}  # fmt: skip


def options_of(command: Any) -> Iterator[Any]:
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)
    yield from command.params


def test_every_option_that_takes_a_whole_number_is_put_to_the_test() -> None:
    every = options_of(typer.main.get_command(app))
    found = {one.opts[-1] for one in every if one.type_descriptor.annotation in (int, list[int])}
    assert found - {"--port", "--workers"} <= {name.split()[-1] for name in OPTIONS}
    assert len(found) > 10


@pytest.mark.parametrize("option", OPTIONS)
def test_no_option_ends_in_an_internal_error(option: str, tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    RELEASE.save(tmp_path / "r.conspectus")
    (tmp_path / "s.toml").write_text(
        '[columns.age]\ntype = "integer"\nmin = 0\nmax = 9\n[columns.ill]\ntype = "boolean"\n'
    )
    (tmp_path / "d.csv").write_text("age,ill\n3,true\n4,false\n")
    (tmp_path / "served").mkdir()
    schema = cs.Schema.load(tmp_path / "s.toml")
    table = cs.open_table(tmp_path / "d.csv", schema)
    cs.release(table, cs.marginals(schema, 1), epsilon=1.0).save(tmp_path / "small.conspectus")
    for number in ("0", "-1", *(f"{2**bits}" for bits in (31, 63)), f"{10**400}", "9" * 5000, "2.5"):
        words = [str(tmp_path / FILES[word]) if word in FILES else word for word in shlex.split(OPTIONS[option])]
        (tmp_path / "kept").unlink(missing_ok=True)
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        with in_time(option):
            code = run([word.replace("N", number) if word in ("N", "2:N:1", "rounds=N") else word for word in words])
        said = capsys.readouterr()
        assert code in (0, 2, 3, 4), f"{option} {number[:24]}: {said.err}"


@pytest.mark.parametrize("line", ["max_rows = N\nkind = 'id'", "users = N\nkind = 'pairs'\nitem = 'i'"])
def test_no_schema_file_ends_in_an_internal_error(line: str, tmp_path: Any) -> None:
    for number in (*(str(2**bits) for bits in (31, 53, 63)), str(10**20), str(10**400), "9" * 5000):
        path = tmp_path / "s.toml"
        columns = "" if "max" in line else 'items = ["a"]\n'
        unit = f"[unit]\ncolumn = 'u'\n{line.replace('N', number)}\n"
        path.write_text(columns + unit + ("[columns.a]\ntype = 'boolean'\n" if not columns else ""))
        code = None
        with in_time("a schema"):
            code = run(["plan", "--schema", str(path), "--marginals", "1", "--epsilon", "1", "--delta", "1e-6"])
        assert code == (0 if number == str(2**31) and "max" in line else 2)

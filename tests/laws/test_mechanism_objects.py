"""Mechanisms as objects, wherever a name is; and the registry, of which one line is all that a mechanism needs."""

from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus.mechanisms.choosing import given_settings, make, make_online
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.mwem import Mwem
from conspectus.mechanisms.registry import OFFLINE, ONLINE, Entry
from conspectus.mechanisms.settings import SettingError

ALL = {f"{name} {where}": entry for where, table in (("", OFFLINE), ("live", ONLINE)) for name, entry in table.items()}
"""By name, with "live" behind those of sessions: `laplace` and `gaussian` are of either kind."""
SCHEMA = cs.Schema.from_dict({"name": "tiny", "columns": {name: {"type": "boolean"} for name in "ab"}})
TABLE = cs.open_table(pa.table({"a": [True] * 300 + [False] * 100, "b": [True, False] * 200}), SCHEMA)
QUESTIONS = cs.marginals(SCHEMA, 2)


@pytest.mark.parametrize("name", ALL)
def test_a_line_names_a_class_of_that_name_whose_defaults_are_accepted(name: str) -> None:
    kind, (called, live) = ALL[name].load(), name.split(" ")
    assert (kind.name, kind.__name__) == (called, ALL[name].kind)
    assert getattr(cs.mechanisms, kind.__name__) is kind
    made = (make_online if live else make)(kind(), {})
    assert made == (make_online if live else make)(called, {})
    if live:
        assert given_settings(made) == {}, "what a session's file holds"


def test_all_classes_are_exported_by_name_and_to_type_checkers() -> None:
    kinds = [entry.kind for entry in ALL.values()]
    assert cs.mechanisms.__all__ == kinds
    assert dir(cs.mechanisms) == sorted(kinds)
    assert "mechanisms" in dir(cs)
    with pytest.raises(AttributeError, match="no attribute 'Boostin'"):
        _ = cs.mechanisms.Boostin
    tree = ast.parse(Path(cs.mechanisms.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert {alias.name for line in block.body for alias in line.names} == set(kinds), "what editors know"


def test_an_object_is_what_its_name_and_settings_are() -> None:
    asked = {"rows": 400, "epsilon": 1.0}
    by_name = cs.plan(SCHEMA, QUESTIONS, **asked, mechanism="mwem", rounds=3)
    assert cs.plan(SCHEMA, QUESTIONS, **asked, mechanism=cs.mechanisms.Mwem(rounds=3)) == by_name
    release = cs.release(TABLE, QUESTIONS, epsilon=1.0, mechanism=cs.mechanisms.Mwem(rounds=3))
    assert (release.mechanism, release.parameters["rounds"], release.claim) == ("mwem", 3, by_name.best)


def test_a_session_is_resumed_as_the_object_that_it_was_opened_with(tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    mechanism = cs.mechanisms.Pmw(priming=0.25, order=1, hits=2)
    with cs.open_session(TABLE, epsilon=20.0, questions=20, path=path, mechanism=mechanism) as session:
        answer = session.ask("a AND b")
        before = session.release().parameters
    with cs.resume_session(path, TABLE) as session:
        assert session.ask("a AND b").fraction == answer.fraction
        assert session.release().parameters == before
    assert given_settings(mechanism) == {"priming": 0.25, "order": 1, "hits": 2}
    assert before["priming"] == 0.25


CALLS = {
    "plan": lambda **k: cs.plan(SCHEMA, QUESTIONS, rows=400, epsilon=1.0, **k),
    "release": lambda **k: cs.release(TABLE, QUESTIONS, epsilon=1.0, **k),
    "open_session": lambda **k: cs.open_session(TABLE, epsilon=1.0, **k),
}


@pytest.mark.parametrize("call", CALLS)
def test_settings_beside_an_object_are_refused(call: str) -> None:
    made = cs.mechanisms.Pmw() if call == "open_session" else cs.mechanisms.Mwem()
    word = "hits" if call == "open_session" else "rounds"
    with pytest.raises(SettingError, match=rf'"{word}" was given beside an object: .* {type(made).__name__}\({word}='):
        CALLS[call](mechanism=made, **{word: 3})


@pytest.mark.parametrize("call", CALLS)
def test_a_class_is_no_object_and_values_are_checked(call: str) -> None:
    online = call == "open_session"
    with pytest.raises(SettingError, match=r"is a class: make an object"):
        CALLS[call](mechanism=cs.mechanisms.Pmw if online else cs.mechanisms.Mwem)
    wrong = dataclasses.replace(cs.mechanisms.Pmw(), order=2.5) if online else cs.mechanisms.Mwem(rounds=2.5)
    with pytest.raises(SettingError, match=r"takes int \| None, not 2.5"):
        CALLS[call](mechanism=wrong)


class Mine(Mwem):
    """A stranger's class, with the name of one of ours."""


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("stranger", [Mine(), 3, None, object(), Mine])
def test_the_list_of_classes_is_closed(call: str, stranger: object) -> None:
    with pytest.raises(NoMechanism, match=r"no mechanism is a .*: give a name, or an object of cs.mechanisms: \w+, "):
        CALLS[call](mechanism=stranger)


def test_a_mechanism_of_the_other_kind_is_answered_with_the_right_call() -> None:
    for call in ("plan", "release"):
        for live in ("pmw", cs.mechanisms.Pmw()):
            with pytest.raises(NoMechanism, match="it answers live sessions, see open_session"):
                CALLS[call](mechanism=live)
    for whole in ("mwem", cs.mechanisms.Mwem()):
        with pytest.raises(NoMechanism, match="it answers a whole workload, see release"):
            CALLS["open_session"](mechanism=whole)


@pytest.mark.parametrize("name", [name for name in ALL if dataclasses.fields(ALL[name].load())])
def test_a_misspelt_setting_of_a_class_is_answered_with_the_right_one(name: str) -> None:
    kind = ALL[name].load()
    word = max((field.name for field in dataclasses.fields(kind)), key=len)
    with pytest.raises(TypeError, match=f'{kind.__name__} takes no "{word}s", did you mean "{word}"'):
        kind(**{word + "s": 1})


@pytest.mark.parametrize("name", ONLINE)
def test_every_setting_of_an_online_mechanism_is_explained(name: str) -> None:
    kind = ONLINE[name].load()
    explained, example = kind.__doc__.split("Example:")
    assert all(f"    {field.name}: " in explained for field in dataclasses.fields(kind))
    assert f"cs.mechanisms.{kind.__name__}(" in example


MADE = """
from dataclasses import dataclass
from typing import ClassVar
from conspectus.mechanisms.additive import Laplace

@dataclass(frozen=True, kw_only=True)
class Louder:
    '''Laplace, under another name.'''
    times: int = 1
    name: ClassVar[str] = "louder"
    def plan(self, problem): return Laplace().plan(problem)
    def claim(self, problem, plan):
        import dataclasses
        return dataclasses.replace(Laplace().claim(problem, plan), mechanism=self.name)
    def declare(self, problem, plan): return Laplace().declare(problem, plan)
    def release(self, curator, problem, plan): return Laplace().release(curator, problem, plan)
"""
ONE_LINE = """
import contextlib, io, json, sys
from conspectus.mechanisms import registry
registry.OFFLINE["louder"] = registry.Entry("louder", "Louder", ("measure-laplace",))

import conspectus as cs
from conspectus.cli import run
from conspectus.cli.audit_command import doors_of

def told(*words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        run(words)
    return out.getvalue() + err.getvalue()

schema = cs.Schema.from_dict({"name": "t", "columns": {"a": {"type": "boolean"}}})
plan = cs.plan(schema, cs.marginals(schema, 1), rows=100, epsilon=1.0)
one = cs.plan(schema, cs.marginals(schema, 1), rows=100, epsilon=1.0, mechanism=cs.mechanisms.Louder(times=2))
try:
    cs.plan(schema, cs.marginals(schema, 1), rows=100, epsilon=1.0, times=2)
except ValueError as error:
    owner = str(error)
json.dump({
    "planned": [claim.mechanism for claim in plan.claims],
    "one": [claim.mechanism for claim in one.claims],
    "owner": owner,
    "help": told("release", "--help"),
    "misspelt": told(*"plan --rows 9 --epsilon 1 --marginals 1 --schema s --mechanism loudr".split()),
    "doors": doors_of("louder"),
    "audited": told("audit", "--mechanism", "loudr"),
    "exported": dir(cs.mechanisms),
}, sys.stdout)
"""


def test_one_line_of_the_registry_is_all_that_a_mechanism_needs(tmp_path: Path) -> None:
    (tmp_path / "louder.py").write_text(MADE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ONE_LINE],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)]), "COLUMNS": "200", "HOME": str(tmp_path)},
    )
    found = json.loads(done.stdout)
    assert "louder" in found["planned"]
    assert found["one"] == ["louder"]
    assert "it is a setting of louder" in found["owner"]
    assert "louder" in found["help"]
    assert 'did you mean "louder"?' in found["misspelt"]
    assert found["doors"] == ["measure-laplace"]
    assert 'did you mean "louder"?' in found["audited"]
    assert "Louder" in found["exported"]


HEAVY = ("numba", "scipy", "duckdb", "pyarrow", "numpy", "opendp")


@pytest.mark.parametrize("module", ["conspectus.mechanisms", "conspectus.mechanisms.registry", "conspectus.cli.app"])
def test_names_are_known_before_anything_heavy_is_imported(module: str) -> None:
    code = f"import {module}, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert done.stdout.strip() == "[]"


def test_an_entry_may_live_anywhere() -> None:
    assert Entry("tests.standin", "StandIn", ()).load().name == "standin"
    assert Entry(".mwem", "Mwem", ()).load() is Mwem


DOORS = {
    "LaplaceNoise": ("measure-laplace", "project"),
    "GaussianNoise": ("measure-gaussian", "project"),
    "MixedGaussianNoise": ("residual",),
    "ExponentialDraws": ("select", "boosting", "dual-query", "net", "top"),
    "NoisyMaxima": ("top",),
    "StableKeys": ("stable-keys", "stable-records"),
    "ThresholdWatch": ("above-threshold", "watch"),
    "FurtherHit": ("watch",),
    "RowTotal": ("",),  # the public number of rows, which is free
}
FEW = {
    "mwem": {"rounds": 2},
    "boosting": {"rounds": 2},
    "dual-query": {"rounds": 2},
    "small-db": {"size": 2},
    "top": {"count": 2},
}


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}])
@pytest.mark.parametrize("name", ALL)
def test_all_that_is_done_goes_through_the_doors_that_the_line_names(name: str, budget: dict[str, float]) -> None:
    schema, table = people(rows=200)
    called, live = name.split(" ")
    net = {"net": cs.net(schema, [np.zeros((2, len(schema.domain)), dtype=int)])}
    settings = net if called == "net" else FEW.get(called, {})
    try:
        if not live:
            release = cs.release(table, cs.marginals(schema, 1), mechanism=called, **budget, **settings)
        else:
            with cs.open_session(table, mechanism=called, questions=9, **budget) as session:
                for wide in list(cs.marginals(schema, 4))[:3]:
                    session.ask(wide)
                release = session.release()
    except NoMechanism:
        refused = ("gaussian", "adaptive", "live-mixture", "stable-histogram")
        assert called in refused
        assert "delta" not in budget
        return
    assert release.events
    for event in release.events:
        assert any(door.startswith(DOORS[type(event).__name__]) for door in ALL[name].doors), event

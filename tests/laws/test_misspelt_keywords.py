"""Every public function and method answers a misspelt keyword with the right one, and before it does anything."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

import conspectus as cs
from conspectus.data.sources.pairs import PairsTable
from conspectus.data.sources.record_tables import RecordTable
from conspectus.data.sources.table import Table
from conspectus.service.client import RemoteRelease
from conspectus.sessions.session import Session
from conspectus.suggestions import suggest_keywords
from conspectus.synopses import synopsis

KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def classes() -> Iterator[type]:
    yield from (value for name in cs.__all__ if inspect.isclass(value := getattr(cs, name)))
    yield from (Session, Table, RecordTable, PairsTable)
    for module, name in synopsis._HOMES.values():
        yield getattr(importlib.import_module(f"conspectus.synopses.{module}"), name)


def public(kind: type) -> Iterator[tuple[str, object]]:
    """All public methods with a keyword, bound to nothing: a misspelt call never gets as far as its object."""
    for name in dir(kind):
        if not name.startswith("_") and (inspect.isfunction(raw := getattr(kind, name)) or inspect.ismethod(raw)):
            yield name, raw


def calls() -> list[tuple[str, object, str]]:
    made = []
    for kind in classes():
        made += [(f"{kind.__name__}.{name}", method) for name, method in public(kind)]
    made += [(name, value) for name in cs.__all__ if inspect.isfunction(value := getattr(cs, name))]
    found = []
    for name, call in made:
        parameters = inspect.signature(call).parameters.values()
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            words = [p.name for p in parameters if p.kind in KEYWORDS and p.name != "self"]
            found += [(f"{name}({word})", call, word) for word in words]
    return found


CALLS = calls()


@pytest.mark.parametrize("place", range(len(CALLS)), ids=[name for name, _, _ in CALLS])
def test_a_misspelt_keyword_is_answered_with_the_right_one(place: int) -> None:
    _, call, word = CALLS[place]
    wrong = word + word[-1]
    with pytest.raises(TypeError, match=f'takes no "{wrong}", did you mean "{word}"'):
        call(**{wrong: 1})


def test_the_calls_that_people_make_are_among_them() -> None:
    names = {name for name, _, _ in CALLS}
    for known in (
        "Release.ask(confidence)",
        "Release.table(columns)",
        "Release.synthetic(public_seed)",
        "Release.save(path)",
        "Release.save(questions)",
        "Session.ask(snap)",
        "Ledger.create(neighbours)",
        "Ledger.open(path)",
        "Histogram.answer(workload)",
        "SparseTable.sample(rows)",
        "Workload.take(indices)",
        "Schema.load(path)",
    ):
        assert known in names


def test_methods_stay_what_they_were() -> None:
    @suggest_keywords
    class Thing:
        @staticmethod
        def still(word: int) -> int:
            return word

        @classmethod
        def made(cls, word: int) -> tuple[type, int]:
            return cls, word

        def own(self, *, word: int) -> tuple[Thing, int]:
            """What it does."""
            return self, word

        def _hidden(self, word: int) -> int:
            return word

    thing = Thing()
    assert Thing.still(word=1) == thing.still(1) == 1
    assert Thing.made(2) == thing.made(word=2) == (Thing, 2)
    assert thing.own(word=3) == (thing, 3)
    assert (Thing.own.__doc__, Thing.own.__name__) == ("What it does.", "own")
    with pytest.raises(TypeError, match=r'own takes no "wrd", did you mean "word"\?'):
        thing.own(wrd=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword"):
        thing._hidden(wrd=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r'takes no "entirely"$'):
        thing.own(entirely=3)  # type: ignore[call-arg]


def test_texts_that_belong_into_one_list_are_answered_with_that_list() -> None:
    """Two columns of a table, questions of a workload: the natural slip, before anything is done."""
    for call, given, cure in (
        (cs.Release.table, ("age", "sex"), 'takes its columns as one list: table(["age", "sex"])'),
        (RemoteRelease.table, ("age", "sex"), 'takes its columns as one list: table(["age", "sex"])'),
    ):
        with pytest.raises(TypeError, match=re.escape(cure)):
            call(None, *given)
    with pytest.raises(TypeError, match=re.escape('sql takes its predicates as one list: sql(…, ["ill", "age < 20"])')):
        cs.sql(None, "ill", "age < 20")


def test_other_surplus_arguments_are_left_to_python() -> None:
    with pytest.raises(TypeError, match="positional argument"):
        cs.Release.table(None, ["age"], 0.9)
    with pytest.raises(TypeError, match="positional argument"):
        cs.Release.table(None, "age", 0.9)

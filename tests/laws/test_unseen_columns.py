"""What a release never saw is refused, by every mechanism and every synopsis, with the columns that it knows."""

from __future__ import annotations

import pytest
from tests.made import needed, people

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE
from conspectus.synopses.synopsis import CannotAnswer, load_synopsis

SCHEMA, TABLE = people(400)
ASKED = cs.marginals(SCHEMA, 1, ["region", "smoker"])
KNOWN = "this release knows region, smoker"
WHOLE = ("sparse-project", "stable-histogram")  # records of all columns at once: there is nothing that they never saw
FITTED = [name for name in OFFLINE if name not in WHOLE]


def released(name: str) -> cs.Release:
    own = needed(name, SCHEMA)
    return cs.release(TABLE, ASKED, epsilon=2.0, delta=1e-6, mechanism=name, **own)


@pytest.mark.parametrize("name", FITTED)
def test_a_column_that_was_never_asked_about_is_refused(name: str, tmp_path) -> None:
    release = released(name)
    release.save(tmp_path / "r.conspectus")
    for held in (release, cs.load(tmp_path / "r.conspectus")):
        for question in ("ill", "age < 42", "smoker AND ill", cs.marginal(SCHEMA, ["ill"])[0]):
            with pytest.raises(CannotAnswer) as refusal:
                held.ask(question)
            assert KNOWN in str(refusal.value)
        with pytest.raises(CannotAnswer):
            held.table(["ill"])
        assert held.ask("smoker OR NOT smoker").fraction == 1
        assert held.ask("smoker").fraction > -1
    if name == "net":
        return  # a table of the net is public, and knows all of its columns
    synopsis = release.synopsis
    for again in (synopsis, load_synopsis(SCHEMA.domain, synopsis.kind, *synopsis.parts())):
        with pytest.raises(CannotAnswer, match=KNOWN):
            again.answer(cs.sql(SCHEMA, ["ill"]))
        assert len(again.answer(ASKED)) == len(ASKED)


def test_a_session_publishes_nothing_about_what_was_not_asked() -> None:
    with cs.open_session(TABLE, epsilon=50.0, delta=1e-6, questions=5, mechanism="pmw", priming=0.0) as session:
        session.ask("smoker")
        release = session.release()
    assert release.ask("smoker").basis == "measured"
    with pytest.raises(CannotAnswer, match="nothing was released about ill: this release knows smoker"):
        release.ask("ill")

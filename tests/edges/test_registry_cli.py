"""Studies, burn rate, retiring, and series on the command line: what is said, and what is refused with which code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from .conftest import RELEASE, Command

INIT = ("ledger", "init", "l.ledger", "--schema", "small.toml", "--epsilon", 4)
ASK = (*RELEASE, "--marginals", 1, "--epsilon", 1, "--mechanism", "laplace", "--ledger", "l.ledger", "--quiet")
OPEN = (
    "series",
    "open",
    "s.series",
    "--schema",
    "small.toml",
    "--marginals",
    1,
    "--epsilon",
    2,
    "--mechanism",
    "laplace",
)


def shown(command: Command) -> dict[str, Any]:
    return json.loads(command("ledger", "show", "l.ledger", "--json").out)


def test_studies_are_declared_named_capped_and_shown(place: Path, command: Command) -> None:
    assert command(*INIT).code == 0
    study = ("ledger", "study", "l.ledger", "trial-7", "--purpose", "Does it help?")
    said = command(*study, "--epsilon", 1.5, "--by", "the board")
    assert (said.code, "ε = 1.5" in said.out) == (0, True), said.err
    nameless = command(*ASK, "-o", "a.conspectus")
    assert (nameless.code, "name one of trial-7" in nameless.err) == (2, True)
    misspelt = command(*ASK, "--study", "trial7", "-o", "a.conspectus")
    assert (misspelt.code, 'did you mean "trial-7"' in misspelt.err) == (2, True)
    named = command(*ASK, "--study", "trial-7", "--by", "Ada", "-o", "a.conspectus")
    assert named.code == 0, named.err
    beyond = command(*ASK, "--study", "trial-7", "-o", "b.conspectus")
    assert (beyond.code, 'the study "trial-7" has' in beyond.err) == (3, True)
    assert not Path("b.conspectus").exists()
    found = shown(command)
    assert [(one["name"], one["by"]) for one in found["studies"]] == [("trial-7", "the board")]
    assert [(one["study"], one["by"]) for one in found["releases"]] == [("trial-7", "Ada")]
    text = command("ledger", "show", "l.ledger", "--picture", "burn.svg").out
    assert all(word in text for word in ("trial-7", "Ada", "Does it help?", "burn rate"))
    assert ElementTree.parse("burn.svg").getroot().attrib["role"] == "img"
    assert command("ledger", "show", "l.ledger", "--picture", "burn.png").code == 2
    without = command(*RELEASE, "--marginals", 1, "--epsilon", 1, "--by", "Ada", "-o", "c.conspectus")
    assert (without.code, "give --ledger, too" in without.err) == (2, True)


def test_a_ledger_is_retired_once_and_only_if_meant(place: Path, command: Command, monkeypatch: Any) -> None:
    assert command(*INIT).code == 0
    retire = ("ledger", "retire", "l.ledger", "--reason", "the consent ended")
    monkeypatch.setattr("typer.confirm", lambda *args, **kwargs: (_ for _ in ()).throw(KeyboardInterrupt))
    assert command(*retire).code != 0
    assert shown(command)["retired"] is None
    assert command(*retire, "--yes", "--by", "the board").code == 0
    found = shown(command)
    assert (found["retired"]["reason"], found["remaining"], found["spent"]) == ("the consent ended", 0.0, 0.0)
    again = command(*retire, "--yes")
    assert (again.code, "was retired on" in again.err) == (3, True)
    refused = command(*ASK, "-o", "a.conspectus")
    assert (refused.code, "was retired on" in refused.err) == (3, True)
    assert "because: the consent ended" in " ".join(command("ledger", "show", "l.ledger").out.split())


def test_the_budget_of_a_series_is_cut_as_told(place: Path, command: Command) -> None:
    assert command(*INIT).code == 0
    shares = (*OPEN, "--periods", 3, "--ledger", "l.ledger", "--shares")
    assert command(*shares, "2,1,much").code == 2
    assert command(*shares, "2,1").code == 2
    assert shown(command)["releases"] == []
    assert command(*shares, "2,1,1").code == 0
    lines = json.loads(command("series", "show", "s.series", "--json").out)["periods"]
    assert [line["share"] for line in lines] == [1.0, 0.5, 0.5]


def test_a_series_goes_period_by_period(place: Path, command: Command) -> None:
    assert command(*INIT).code == 0
    opened = command(*OPEN, "--periods", "2026-01,2026-02,2026-03", "--ledger", "l.ledger", "--by", "Ada")
    assert opened.code == 0, opened.err
    assert shown(command)["releases"][0]["by"] == "Ada"
    one = ("series", "release", "s.series", "small.csv", "--quiet")
    first = command(*one, "-o", "jan.conspectus")
    assert (first.code, "Period 2026-01, 1 of 3." in first.out) == (0, True), first.err
    again = command(*one, "--period", "2026-01", "-o", "again.conspectus")
    assert (again.code, "was released on" in again.err) == (2, True)
    early = command(*one, "--period", "2026-03", "-o", "mar.conspectus")
    assert (early.code, "would be left out for good" in early.err) == (2, True)
    assert command(*one, "--period", "2026-03", "--skip", "-o", "mar.conspectus").code == 0
    found = json.loads(command("series", "show", "s.series", "--json").out)
    assert [line["state"] for line in found["periods"]] == ["released", "skipped", "released"]
    assert (found["next"], found["ended"]) == (None, False)
    before = shown(command)["spent"]
    assert command("series", "end", "s.series").code == 0
    assert shown(command)["spent"] < before
    assert command(*OPEN, "--periods", "3", "--ledger", "l.ledger").code == 2  # the file is there
    assert command("series", "show", "nowhere.series").code == 2

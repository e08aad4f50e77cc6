"""`ledger init --aside`: made, shown, spent in both parts, refused with a way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import conspectus as cs
from conspectus.privacy.accounting import rho_of

from .conftest import RELEASE, Command

INIT = ("ledger", "init", "l.ledger", "--schema", "small.toml", "--epsilon", 200, "--delta", 1e-6)
KEYS = (*RELEASE, "--marginals", 2, "--mechanism", "stable-histogram", "--ledger", "l.ledger", "--quiet")


def shown(command: Command) -> dict[str, Any]:
    return json.loads(command("ledger", "show", "l.ledger", "--json").out)


def test_keys_are_paid_from_what_was_set_aside(place: Path, command: Command) -> None:
    made = command(*INIT, "--aside", 0.5)
    assert made.code == 0, made.err
    assert "(200, 1e-06)-differential privacy and 5e-07-approximate" in made.out
    said = command(*KEYS, "--epsilon", 50, "--delta", 4e-7, "-o", "keys.conspectus")
    assert said.code == 0, said.err
    assert "4e-07)-differential privacy and " in said.out
    assert "-approximate " in said.out
    found = shown(command)
    assert found["cap"] == pytest.approx(rho_of(200, 5e-7))
    assert found["spent"] == pytest.approx(rho_of(50, 2e-7), rel=1e-3)
    assert found["delta_cap"] == 5e-7
    assert 0 < found["delta_spent"] <= 2e-7
    assert found["delta_remaining"] == pytest.approx(5e-7 - found["delta_spent"])
    assert found["releases"][0]["delta"] == found["delta_spent"]
    text = command("ledger", "show", "l.ledger").out
    assert "set aside for published keys" in " ".join(text.split())
    assert " δ " in text
    report = command("report", "keys.conspectus", "--ledger", "l.ledger", "-o", "r.html")
    assert report.code == 0, report.err
    page = (place / "r.html").read_text(encoding="utf-8")
    assert "5e-07 set aside for published keys" in page
    assert "but for δ = " in page


def test_what_is_not_left_is_refused_and_costs_nothing(place: Path, command: Command) -> None:
    assert command(*INIT, "--aside", 1e-6).code == 0
    said = command(*KEYS, "--epsilon", 50, "--delta", 4e-7, "-o", "keys.conspectus")
    assert (said.code, said.err.count("\n")) == (4, 1)
    assert "ask for a smaller delta" in said.err
    assert (shown(command)["releases"], Path("keys.conspectus").exists()) == ([], False)


def test_a_ledger_without_a_share_says_how_to_make_one(place: Path, command: Command) -> None:
    assert command(*INIT).code == 0
    said = command(*KEYS, "--epsilon", 50, "--delta", 4e-7, "-o", "keys.conspectus")
    assert (said.code, said.err.count("\n")) == (4, 1)
    assert "ledger init --aside 0.5" in said.err
    text = command("ledger", "show", "l.ledger").out
    assert "aside" not in text
    assert not [line for line in text.splitlines() if " δ " in line and "acts" in line]


@pytest.mark.parametrize("more", [("--aside", 1), ("--aside", -0.1), ("--aside", "nan"), ("--aside", "half")])
def test_shares_that_are_none_are_bad_input(place: Path, command: Command, more: tuple[object, ...]) -> None:
    said = command(*INIT, *more)
    assert said.code == 2
    assert "Traceback" not in said.err
    assert not Path("l.ledger").exists()


def test_a_pure_ledger_has_no_delta_to_set_aside(place: Path, command: Command) -> None:
    said = command("ledger", "init", "l.ledger", "--schema", "small.toml", "--epsilon", 2, "--aside", 0.5)
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "a delta above 0" in said.err
    assert not Path("l.ledger").exists()


def test_the_planner_takes_keys_under_a_ledger_only_where_it_can_pay(place: Path, command: Command) -> None:
    assert command(*INIT).code == 0
    declared = cs.Schema.load("small.toml")
    table = cs.open_table("small.csv", declared)
    release = cs.release(table, cs.marginals(declared, 2), epsilon=50, delta=1e-7, ledger="l.ledger")
    assert release.mechanism != "stable-histogram"
    table.close()

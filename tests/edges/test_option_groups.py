"""Commands that take a workload or a budget take the same options for it: each is written down once."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from conspectus.cli import options
from conspectus.cli.app import app

COMMANDS = typer.main.get_command(app).commands
FLAGS = {field.name for group in (options.Questions, options.Spending) for field in dataclasses.fields(group)}
BUDGET = {field.name for field in dataclasses.fields(options.Spending)}


def taken(command: str, names: set[str]) -> dict[str, tuple]:
    found = [option for option in COMMANDS[command].params if option.name in names]
    return {option.name: (tuple(option.opts), option.help, option.default, option.multiple) for option in found}


def test_plan_and_release_take_the_same_workload_and_budget() -> None:
    assert set(taken("plan", FLAGS)) == FLAGS
    assert taken("plan", FLAGS) == taken("release", FLAGS)
    assert taken("session", BUDGET) == taken("plan", BUDGET)


def test_a_command_gets_its_groups_whole() -> None:
    seen = []
    one = typer.Typer()

    @one.command()
    @options.grouped
    def command(
        name: Annotated[str, typer.Argument()], spending: options.Spending, questions: options.Questions
    ) -> None:
        seen.append((name, spending, questions))

    said = CliRunner().invoke(one, ["x", "--rho", "0.5", "--marginals", "2", "--marginals", "3"])
    assert said.exit_code == 0, said.output
    assert seen == [("x", options.Spending(rho=0.5), options.Questions(marginals=[2, 3]))]
    assert CliRunner().invoke(one, ["--rho", "0.5"]).exit_code == 2


@pytest.mark.parametrize("name", ["mwem", "iterative"])
@pytest.mark.parametrize("wrong", [{"rounds": 0}, {"selection": 0.0}, {"selection": 1.0}, {"certificate": 1.0}])
def test_loops_refuse_the_same_settings_in_the_same_words(name: str, wrong: dict[str, float]) -> None:
    from conspectus.mechanisms.choosing import make
    from conspectus.mechanisms.settings import SettingError

    with pytest.raises(SettingError, match=r"^(rounds lie|selection lies between 0.000000001 and)"):
        make(name, wrong)

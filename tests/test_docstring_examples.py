"""Examples in docstrings run, and say what happens."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
from pathlib import Path

import pytest

from conspectus.mechanisms.registry import ONLINE

SOURCE = Path(__file__).parent.parent / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert tried > 0
    assert failed == 0


def test_the_calls_that_people_make_have_examples() -> None:
    import conspectus as cs

    kinds = (cs.mechanisms.Pmw, cs.mechanisms.SparseMw, cs.mechanisms.Median, cs.mechanisms.Perceptron)
    for call in (cs.plan, cs.release, cs.open_session, cs.resume_session, *kinds):
        assert ">>> " in (call.__doc__ or ""), call
        assert "Args:" in (call.__doc__ or ""), call


@pytest.mark.parametrize("name", ONLINE)
def test_every_setting_of_an_online_mechanism_is_explained(name: str) -> None:
    kind = ONLINE[name].load()
    explained = kind.__doc__.split("Args:")[1].split("Example:")[0]
    assert all(f"    {field.name}: " in explained for field in dataclasses.fields(kind))

"""The table of the theory is true: every item is there once, every module and test file exists and has its name."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
GROUPS = {1: 12, 2: 8, 3: 16, 4: 8, 5: 8, 6: 8, 7: 5, 8: 6, 9: 7, 10: 5, 11: 6, 12: 6, 13: 2}
"""How many items each group of the theory has."""


def rows(text: str) -> list[tuple[str, str, str]]:
    found = re.findall(r"^\| (\d+\.\d+) [^|]+ \| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    return [(number, where.strip(), tested.strip()) for number, where, tested in found]


def mistakes(text: str) -> list[str]:
    """What the table says and is not so."""
    wrong = []
    for number, where, tested in rows(text):
        if where in ("out", "not yet"):
            wrong += [] if len(tested) > 20 and "`tests/" not in tested else [f"{number}: says no reason"]
            continue
        for cell, folder in ((where, ROOT / "src" / "conspectus"), (tested, ROOT)):
            named = re.fullmatch(r"`([\w/.]+\.py)` `([^`]+)`", cell)
            if named is None:
                wrong.append(f"{number}: {cell}")
            elif not (folder / named[1]).is_file():
                wrong.append(f"{number}: there is no {named[1]}")
            elif named[2].lower() not in (folder / named[1]).read_text(encoding="utf-8").lower():
                wrong.append(f"{number}: {named[1]} has no {named[2]}")
    return wrong


TEXT = (ROOT / "docs" / "inventory.md").read_text(encoding="utf-8")


def test_every_item_is_there_once() -> None:
    expected = [f"{group}.{number}" for group, items in GROUPS.items() for number in range(1, items + 1)]
    assert [number for number, _, _ in rows(TEXT)] == expected


def test_every_module_and_test_is_where_the_table_says() -> None:
    assert mistakes(TEXT) == []


def test_a_false_line_is_noticed() -> None:
    line = "| 1.2 x | `local/randomised_response.py` `{}` | `tests/theorems/{}.py` `decode` |"
    assert mistakes(line.format("RandomisedResponse", "test_local")) == []
    assert mistakes(line.format("Nothing", "test_local")) == ["1.2: local/randomised_response.py has no Nothing"]
    assert mistakes(line.format("decode", "test_gone")) == ["1.2: there is no tests/theorems/test_gone.py"]
    assert mistakes("| 1.2 x | out | no |") == ["1.2: says no reason"]

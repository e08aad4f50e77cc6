"""Tables on a terminal: all of it is shown, within the width there is, and no label steers the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from conspectus.cli import printing

CELLS = st.text(st.sampled_from("ab 9-é日\n\t\x1b\u202e[]"), max_size=60) | st.text(max_size=12)


def printed(titles: list[str], rows: list[list[str]]) -> list[str]:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda *parts: said.append(" ".join(parts)))
        printing.table(titles, rows, right=(1,))
    return said


@given(st.integers(2, 6).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=5)))
@settings(max_examples=150, deadline=None)
def test_every_sign_is_shown_once_and_no_line_is_too_long(rows: list[list[str]]) -> None:
    titles = [f"t{number}" for number in range(len(rows[0]))]
    lines = printed(titles, rows)
    assert all(cell_len(line) <= printing.width() for line in lines)
    assert all(sign.isprintable() for line in lines for sign in line)
    for signs in "ab9é日[]":
        assert sum(line.count(signs) for line in lines) == sum(cell.count(signs) for row in rows for cell in row)


def test_numbers_stand_to_the_right_and_long_cells_are_folded_between_words() -> None:
    long = "a label of words " * 12
    lines = printed(["name", "n", "what"], [["first", "7", long], ["an_unfolded_name_of_24_si", "1,000", "short"]])
    assert lines[3].split()[:2] == ["first", "7"]
    assert lines[3].index("7") == lines[-2].index("1,000") + 4
    assert all(line.split()[-1] in ("words", "label", "of", "a") for line in lines[3:-2])

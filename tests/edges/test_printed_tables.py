"""Tables on a terminal: all of it is shown, within the width there is, and no label steers the terminal."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from conspectus.cli import printing
from conspectus.plain_text import plain

CELLS = st.text(st.sampled_from("ab 9-é日\n\t\x1b\u202e[]"), max_size=60) | st.text(max_size=12)


def printed(titles: list[str], rows: list[list[str]]) -> list[str]:
    with redirect_stdout(StringIO()) as said:
        printing.table(titles, rows, right=(1,))
    return said.getvalue().removesuffix("\n").split("\n")


@given(st.integers(2, 40).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=1, max_size=5)))
@settings(max_examples=150, deadline=None)
def test_every_sign_is_shown_once_and_no_line_is_too_long(lines_of_cells: list[list[str]]) -> None:
    titles, *rows = lines_of_cells
    lines = printed(titles, rows)
    # Names keep up to 24 signs and all others 6, with three between; fewer than eleven columns fit that way.
    assert all(cell_len(line) <= max(printing.width(), 24 + 9 * len(titles)) for line in lines)
    assert all(plain(line) == line for line in lines)
    for signs in "ab9é日[]":
        said = sum(cell.count(signs) for cells in lines_of_cells for cell in cells)
        assert sum(line.count(signs) for line in lines) == said


def test_numbers_stand_to_the_right_and_long_cells_are_folded_between_words() -> None:
    long = "a label of words " * 12
    lines = printed(["name", "n", "what"], [["first", "7", long], ["an_unfolded_name_of_24_si", "1,000", "short"]])
    assert lines[3].split()[:2] == ["first", "7"]
    assert lines[3].index("7") == lines[-2].index("1,000") + 4
    assert all(line.split()[-1] in ("words", "label", "of", "a") for line in lines[3:-2])

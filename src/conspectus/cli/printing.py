"""How results look on a terminal: short labelled lines and tables."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from conspectus.plain_text import plain

if TYPE_CHECKING:
    from conspectus.mechanisms.bounds import Certificate, Potential
    from conspectus.privacy.guarantee import Guarantee
    from conspectus.releases.release import Release

GAP = "   "
"""What stands between the columns of a table."""

wrap = partial(textwrap.wrap, break_on_hyphens=False, break_long_words=False)
"""The lines of a text; paths stay whole."""


def width() -> int:
    """The columns there are: the terminal's, or a fixed number where nobody looks."""
    return max(60, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 120


def line(text: str = "", *, aside: bool = False) -> None:
    """One line, whatever is in it; `aside` where only people look.

    What a command says goes through here, or through `as_json`.
    """
    print(plain(text), file=sys.stderr if aside else sys.stdout, flush=True)


def passing(text: str) -> None:
    """A line of a terminal that the next one takes over; nothing where nobody looks."""
    if sys.stderr.isatty():
        print(f"\x1b[2K{plain(text)}", end="\r", file=sys.stderr, flush=True)


def paragraph(text: str) -> None:
    """Plain text, folded to the width there is."""
    for one in wrap(text, width()):
        line(one)


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Labelled lines with a hanging indent."""
    pairs = list(pairs)
    room = max((len(label) for label, _ in pairs), default=0) + 4
    for label, text in pairs:
        wrapped = wrap(text, max(30, width() - room)) or [""]
        line(f"  {label:<{room - 2}}{wrapped[0]}")
        for more in wrapped[1:]:
            line(" " * room + more)


def notes(said: Iterable[str]) -> None:
    """What must be said besides, each note as a sentence."""
    for note in said:
        line(f"{note[:1].upper()}{note[1:]}.")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A plain table; the columns numbered in `right` hold numbers. What is too wide is folded."""
    from rich.cells import cell_len

    lines = [list(map(plain, cells)) for cells in (titles, *rows)]
    needed = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    gaps = len(GAP) * (len(needed) - 1)
    widths = _fitted(needed, width() - gaps - 2)
    line()
    for number, cells in enumerate(lines):
        folded = [_folded(cell, room) for cell, room in zip(cells, widths, strict=True)]
        for parts in zip_longest(*folded, fillvalue=""):
            spaces = [" " * (room - cell_len(part)) for part, room in zip(parts, widths, strict=True)]
            placed = [
                s + part if i in right else part + s for i, (part, s) in enumerate(zip(parts, spaces, strict=True))
            ]
            line(f" {GAP.join(placed)}".rstrip())
        if not number:
            line(f" {'─' * (sum(widths) + gaps)}")
    line()


def _fitted(needed: list[int], room: int) -> list[int]:
    """Widths of columns: what they need, the widest made narrower; names of up to 24 signs stay whole.

    Where many columns leave less than six signs to each, lines are longer than the room.
    """
    least = [max(1, min(one, 6 if number else 24)) for number, one in enumerate(needed)]
    widths = [max(low, min(one, room)) for low, one in zip(least, needed, strict=True)]
    while sum(widths) > room:
        foldable = [i for i, low in enumerate(least) if widths[i] > low]
        if not foldable:
            break
        widths[max(foldable, key=widths.__getitem__)] -= 1
    return widths


def _folded(cell: str, room: int) -> list[str]:
    """The lines of a cell, broken between words where that can be."""
    from rich.cells import cell_len, chop_cells

    if cell_len(cell) <= room:
        return [cell]
    return [part for line in wrap(cell, room) for part in chop_cells(line, room)]


def as_json(value: Mapping[str, Any] | Sequence[Any], *, indent: int | None = 2) -> None:
    """A value for a program, the same whatever can be printed here: other signs are escaped."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False, default=str)
    _file(text, lambda sign: json.dumps(sign)[1:-1])


def as_toml(text: str) -> None:
    """A TOML file whose texts are all between double quotes, with the same values whatever can be printed here."""
    _file(text.removesuffix("\n"), lambda sign: f"\\U{ord(sign):08x}")


def _file(text: str, escape: Callable[[str], str]) -> None:
    """A file, with each sign escaped that cannot be printed, or is not in the encoding of the output."""
    lines = (
        one if _is_shown(one) else "".join(sign if _is_shown(sign) else escape(sign) for sign in one)
        for one in text.split("\n")
    )
    print("\n".join(lines), flush=True)


def _is_shown(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return text.isprintable()


def guarantee_json(guarantee: Guarantee) -> dict[str, Any]:
    """A guarantee for a program."""
    return {**dataclasses.asdict(guarantee), "text": str(guarantee)}


VACUOUS = "none that says anything: for so few rows or so small a budget, its noise is larger than any error can be"


def certificate_text(release: Release) -> str:
    """What the certificate says, in words."""
    held = release.certificate
    if held is None:
        noise = release.synopsis.all_measured and release.answered
        return "none: intervals come from the noise itself" if noise else "none"
    if held.vacuous:
        said = VACUOUS
    else:
        odds = f"except with probability {held.failure_probability:g} ({held.scope})"
        said = f"every released answer is within {held.bound:.4f} of the truth, {odds}"
    potential = held.potential
    if potential is None:
        return said
    # Where the total is noisy a fraction would carry its error too: the bound is in counts there.
    within = f"{potential.inaccurate:,.0f} rows" if held.slip else f"{potential.inaccurate / held.total:.4f}"
    outcome = f"so all are within {within}" if potential.holds else f"so it does not prove all within {within}"
    return f"{said}; ln Z is at most {potential.upper:.2f}, {outcome}"


def certificate_json(release: Release) -> dict[str, Any] | None:
    """The certificate of a release for a program."""
    held = release.certificate
    if held is None:
        return None
    potential = held.potential
    proved = potential and {
        "upper": potential.upper,
        "bound": None if held.slip else potential.inaccurate / held.total,
        "bound_in_counts": potential.inaccurate,
        **_proved(potential),
    }
    return {"bound": held.bound, **_proved(held), "potential": proved}


def _proved(what: Certificate | Potential) -> dict[str, Any]:
    return {name: getattr(what, name) for name in ("holds", "failure_probability", "scope")}

"""How results look on a terminal: short labelled lines and tables."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conspectus.mechanisms.bounds import Certificate, Potential
    from conspectus.privacy.guarantee import Guarantee
    from conspectus.releases.release import Release


def width() -> int:
    """The columns there are: the terminal's, or a fixed number where nobody looks."""
    return max(60, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 120


def paragraph(text: str) -> None:
    """Plain text, folded to the width there is; paths stay whole."""
    print(textwrap.fill(text, width(), break_on_hyphens=False, break_long_words=False))


def facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Labelled lines with a hanging indent."""
    pairs = list(pairs)
    room = max((len(label) for label, _ in pairs), default=0) + 4
    for label, text in pairs:
        wrapped = textwrap.wrap(text, max(30, width() - room), break_on_hyphens=False, break_long_words=False) or [""]
        print(f"  {label:<{room - 2}}{wrapped[0]}")
        for line in wrapped[1:]:
            print(" " * room + line)


def notes(said: Iterable[str]) -> None:
    """What must be said besides, each note as a sentence."""
    for note in said:
        print(f"{note[:1].upper()}{note[1:]}.")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A plain table; the columns numbered in `right` hold numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, title in enumerate(titles):
        # Names of up to 24 signs stay whole; what is too wide is folded elsewhere.
        name = None if number else min(24, max((len(row[0]) for row in rows), default=0))
        grid.add_column(title, justify="right" if number in right else "left", overflow="fold", min_width=name)
    for row in rows:
        # As plain text: a label such as "[bold]" is data and no mark-up.
        grid.add_row(*(Text(cell) for cell in row))
    Console(width=width(), highlight=False).print(grid)


def as_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str))


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

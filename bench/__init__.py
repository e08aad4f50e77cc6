"""Benchmarks on real data: true errors and times, measured outside the package. See `bench/README.md`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def data_file(name: str) -> Path:
    """A file of the data folder, which the environment variable CONSPECTUS_DATA names."""
    folder = os.environ.get("CONSPECTUS_DATA")
    if folder is None:
        raise SystemExit(
            "set CONSPECTUS_DATA to the folder with the data sets; bench/README.md says what belongs there"
        )
    path = Path(folder) / name
    if not path.exists():
        raise SystemExit(f"{name} is not in the data folder; bench/README.md says where it comes from")
    return path


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table for the page."""
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def lines_of_page(name: str) -> list[list[str]]:
    """The lines of the table that the page has under a name now, for what is not measured again."""
    page = PAGE.read_text().partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    return [row for row in rows[2:] if len(row) == len(rows[0])]


def record(name: str, title: str, text: str, command: str) -> None:
    """Print a result and put it into its section of docs/benchmarks.md, with the command that reproduces it."""
    section = f"<!-- {name} -->\n## {title}\n\n{text}\n\nReproduce with `{command}`.\n<!-- /{name} -->"
    print(section)
    page = PAGE.read_text() if PAGE.exists() else "# Benchmarks\n"
    pattern = re.compile(f"<!-- {name} -->.*?<!-- /{name} -->", re.DOTALL)
    page = pattern.sub(lambda _: section, page) if pattern.search(page) else f"{page.rstrip()}\n\n{section}\n"
    PAGE.write_text(page)

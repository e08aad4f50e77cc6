"""The owner's own look at a file, before there is anything private about it: a drafted schema, and how the rows lie.

NOT PRIVATE, all of it: exact counts and values of the rows, for the owner on this computer, and marked so wherever they
go. Nothing of it enters a release; what the owner declares does.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.data.schema import Schema
from conspectus.data.sources.drafting import check_lines, draft
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload

SHOWN = 40
"""Bars of a preview at most: more codes are put together."""


def drafted(path: Path) -> dict[str, Any]:
    """A first schema for a file, and what the owner should know of each column before publishing it."""
    declared = tomllib.loads(draft(path))
    schema = Schema.from_dict(declared)
    with cs.open_table(str(path), schema) as table:
        ones = tuple(Marginal(schema.domain, (position,)) for position in range(len(schema.columns)))
        counts, rows = count(Workload(schema.domain, ones), table.chunks())
    odd = check_lines(schema, str(path))
    columns, place = [], 0
    for column, (name, plain) in zip(schema.columns, declared["columns"].items()):
        share = [int(number) for number in counts[place : place + column.size]]
        place += column.size
        columns.append(
            {
                **{key: _plain(value) for key, value in plain.items()},
                "name": name,
                "source": "rows",
                "preview": {"counts": _together(share), "labels": [column.labels[0], column.labels[-1]]},
                "risks": _risks(plain),
            }
        )
    return {
        "private": False,
        "file": path.name,
        "bytes": path.stat().st_size,
        "rows": int(rows),
        "odd_lines": 0 if odd is None else odd.odd_quotes + odd.wrong_fields + odd.too_long,
        "name": declared["name"],
        "null_values": list(declared.get("null_values", ())),
        "columns": columns,
    }


def _plain(value: Any) -> Any:
    """A value of a schema file as JSON has it: dates as texts."""
    return value.isoformat() if hasattr(value, "isoformat") else value


def _together(counts: list[int]) -> list[int]:
    step = -(-len(counts) // SHOWN)
    return [sum(counts[start : start + step]) for start in range(0, len(counts), step)]


def _risks(plain: dict[str, Any]) -> list[dict[str, Any]]:
    """What publishing the drafted values would tell, in one sentence a column."""
    match plain["type"]:
        case "categorical":
            size = len(plain["values"])
            text = f"{size:,} values were found in the rows. List those that are public; the others count as other."
            return [{"field": "values", "text": text}]
        case "integer" | "date":
            low, high = _plain(plain["min"]), _plain(plain["max"])
            text = (
                f"{low} and {high} are values in your rows. Write bounds that you would have written without the file."
            )
            return [{"field": "max", "text": text}]
        case "number":
            text = f"The edges were read off the rows, up to {plain['edges'][-1]:g}. Write those that are public."
            return [{"field": "edges", "text": text}]
    return []

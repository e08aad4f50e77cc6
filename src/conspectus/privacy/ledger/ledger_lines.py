"""A ledger as a table: one line for every release and session under it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from conspectus.tabular import Bars

from .ledger_store import Entry

_LINES = pa.schema(
    [
        ("number", pa.int64()),
        ("made", pa.string()),
        ("label", pa.string()),
        ("price", pa.float64()),
        ("delta", pa.float64()),
        ("acts", pa.int64()),
        ("settled", pa.bool_()),
    ]
)


def lines_of(entries: Iterable[Entry]) -> pa.Table:
    """One line for every reservation: what it costs, its acts, and whether it was settled."""
    lines: dict[int, dict[str, Any]] = {}
    for entry in entries:
        price = {"price": float(entry.price), "delta": float(entry.delta)}
        if entry.kind == "reserve":
            made = entry.made.replace("T", " ").removesuffix("+00:00")
            named = {"number": entry.number, "made": made, "label": entry.label}
            lines[entry.number] = {**named, **price, "acts": 0, "settled": False}
        elif entry.kind == "debit":
            lines[entry.reservation]["acts"] += 1
        else:
            lines[entry.reservation] |= {**price, "settled": True}
    return pa.Table.from_pylist(list(lines.values()), schema=_LINES)


def pictured(lines: pa.Table, remaining: float, sign: str) -> Bars:
    """What each release took, and what is left."""
    labels, prices = [*lines["label"].to_pylist(), "left"], [*lines["price"].to_pylist(), remaining]
    nothing = [None] * len(labels)
    return Bars(labels=labels, sizes=prices, lows=nothing, highs=nothing, axis=sign)

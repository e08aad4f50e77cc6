"""A declared schema as the text of a schema file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from conspectus.data.schema import Schema


def schema_text(schema: Schema) -> str:
    """The schema as TOML, which `Schema.load` reads back as the same schema.

    Example:
        >>> import conspectus as cs
        >>> print(schema_text(cs.Schema.from_dict({"name": "made", "columns": {"ill": {"type": "boolean"}}})))
        name = "made"
        <BLANKLINE>
        [unit]
        kind = "row"
        <BLANKLINE>
        [columns."ill"]
        type = "boolean"
        <BLANKLINE>
    """
    declared = schema.to_dict()
    columns = declared.pop("columns")
    unit = declared.pop("unit")
    unit = {"kind": "row"} if unit["kind"] == "row" else unit
    lines = [f"{key} = {_toml(value)}" for key, value in declared.items() if _said(value)]
    lines += ["", "[unit]", *_lines(unit)]
    named = columns.items() if isinstance(columns, Mapping) else ((one["name"], one) for one in columns)
    for name, column in named:
        lines += ["", f"[columns.{_toml(str(name))}]", *_lines({k: v for k, v in column.items() if k != "name"})]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in table.items() if _said(value)]


def _said(value: Any) -> bool:
    """Whether a key needs to be written: what is absent is the default."""
    return value is not None and value is not False and value != [] and value != ()


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the one control sign that JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)

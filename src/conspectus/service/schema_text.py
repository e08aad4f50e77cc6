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
    lines = [*_lines(declared), "", "[unit]", *_lines(unit)]
    for column in columns:
        lines += ["", f"[columns.{_toml(column.pop('name'))}]", *_lines(column)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, Any]) -> list[str]:
    """The keys that need to be written: what is absent is the default."""
    said = {key: value for key, value in table.items() if value is not None and value is not False}
    return [f"{key} = {_toml(value)}" for key, value in said.items() if value not in ([], ())]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the one control sign that JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value)

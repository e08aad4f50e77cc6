"""Trees as TOML, for schemas that were changed as trees."""

from __future__ import annotations

import json
import math
from typing import Any


def toml_text(tree: Any) -> str:
    """A tree of JSON values as TOML; what TOML has no word for is left out."""
    if not isinstance(tree, dict):
        return f"name = {_value(tree)}\n"
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in tree.items() if value is not None)


def _key(key: object) -> str:
    return json.dumps(str(key))


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(part)}" for key, part in value.items() if part is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(part) for part in value if part is not None) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return '""' if value is None else json.dumps(value)

"""The cases that the planner is judged on: real and made tables, many shapes of questions, budgets and relations."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import data_file
from conspectus.queries.workload import Workload

BITS = 16


@dataclass(frozen=True, eq=False)
class Case:
    """A table, its questions and a budget."""

    name: str
    table: Any
    workload: Workload
    epsilon: float = 1.0
    delta: float = 1e-6
    neighbours: str = "replace"

    @property
    def budget(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self.delta, "neighbours": self.neighbours}

    def at(self, **changes: Any) -> Case:
        return replace(self, **changes)


@cache
def nltcs() -> tuple[cs.Schema, Any]:
    import pandas as pd

    frame = pd.read_csv(data_file("nltcs_named.csv.gz"))
    schema = cs.Schema.from_dict({"name": "nltcs", "columns": {name: {"type": "boolean"} for name in frame.columns}})
    return schema, cs.open_table(frame, schema)


@cache
def adult() -> tuple[cs.Schema, Any]:
    import pandas as pd

    sizes = json.loads(data_file("adult_small-domain.json").read_text())
    columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in sizes.items()}
    schema = cs.Schema.from_dict({"name": "adult", "columns": columns})
    return schema, cs.open_table(pd.read_csv(data_file("adult_small.csv.gz")), schema)


@cache
def made(kind: str, rows: int, *, columns: int = BITS) -> tuple[cs.Schema, Any]:
    """Two-valued columns: "xor", fair coins of which each third is almost the parity of two others; "independent",
    coins of all biases; "chain", each column a noisy copy of the one before."""
    rng = np.random.Generator(np.random.PCG64(5))
    values = rng.integers(0, 2, (columns, rows))
    if kind == "xor":
        for a, b, c in rng.permutation(columns)[: columns // 3 * 3].reshape(-1, 3):
            values[c] = values[a] ^ values[b] ^ (rng.random(rows) < 0.05)
    elif kind == "independent":
        values = (rng.random((columns, rows)) < np.linspace(0.02, 0.5, columns)[:, None]).astype(np.int64)
    else:
        for c in range(1, columns):
            values[c] = np.where(rng.random(rows) < 0.8, values[c - 1], values[c])
    names = [f"a{c}" for c in range(columns)]
    schema = cs.Schema.from_dict({"name": kind, "columns": {name: {"type": "boolean"} for name in names}})
    return schema, cs.open_table(pa.table({name: row.astype(bool) for name, row in zip(names, values)}), schema)


@cache
def column(bins: int, rows: int = 20_000) -> tuple[cs.Schema, Any]:
    """One long ordered column."""
    rng = np.random.Generator(np.random.PCG64(8))
    values = np.minimum(rng.gamma(2.0, bins / 12, rows).astype(int), bins - 1)
    schema = cs.Schema.from_dict({"name": "column", "columns": {"x": {"type": "integer", "min": 0, "max": bins - 1}}})
    return schema, cs.open_table(pa.table({"x": values}), schema)


@cache
def groups(rows: int = 20_000) -> tuple[cs.Schema, Any]:
    """A number from 0 to 99 in groups of two columns."""
    rng = np.random.Generator(np.random.PCG64(9))
    first, second = rng.integers(0, 12, rows), np.minimum(rng.geometric(0.3, rows) - 1, 9)
    value = np.clip(rng.normal(30 + 3 * first, 15, rows), 0, 99).astype(int)
    sizes = {"a": 12, "b": 10, "x": 100}
    columns = {name: {"type": "integer", "min": 0, "max": size - 1} for name, size in sizes.items()}
    schema = cs.Schema.from_dict({"name": "groups", "columns": columns})
    return schema, cs.open_table(pa.table({"a": first, "b": second, "x": value}), schema)

"""Small made tables for the tests: everything here is public."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.data.domain import Domain
from conspectus.mechanisms.mechanism import Claim, Mechanism, Problem, Refusal, propose


class BareSchema:
    """A schema of which only the domain matters: one of its own, or columns of these sizes."""

    def __init__(self, *sizes: int, domain: Domain | None = None) -> None:
        self.domain = domain or Domain(tuple(f"c{i}" for i in range(len(sizes))), sizes)

    def column(self, name: str) -> object:
        raise LookupError(name)


def people(rows: int = 2000, *, public_seed: int = 1, neighbours: str = "replace", unit: dict | None = None):
    """A table of made people with correlated columns, and its schema."""
    rng = np.random.Generator(np.random.PCG64(public_seed))
    age = rng.integers(18, 90, rows)
    smoker = rng.random(rows) < np.where(age < 50, 0.35, 0.15)
    region = rng.choice(["north", "east", "south", "west"], rows, p=[0.4, 0.3, 0.2, 0.1])
    ill = rng.random(rows) < 0.05 + 0.2 * smoker + 0.002 * (age - 18)
    declared = {
        "name": "people",
        "neighbours": neighbours,
        "columns": {
            "region": {"type": "categorical", "values": ["north", "east", "south", "west"]},
            "age": {"type": "integer", "min": 18, "max": 89, "width": 12},
            "smoker": {"type": "boolean"},
            "ill": {"type": "boolean"},
        },
    }
    if unit is not None:
        declared["unit"] = unit
    data = pa.table({"region": region, "age": age, "smoker": smoker, "ill": ill, "person": np.arange(rows) // 2})
    schema = cs.Schema.from_dict(declared)
    return schema, cs.open_table(data, schema)


def needed(name: str, schema) -> dict[str, object]:
    """The settings without which a mechanism serves nothing: some tables to choose among, or how many to find."""
    if name == "net":
        return {"net": cs.net(schema, [np.ones(schema.domain.cells), np.eye(len(schema.domain), dtype=np.int64)])}
    return {"count": 1000} if name == "top" else {}


def grid(width: int, rows: int, *, neighbours: str):
    """A table of two many-valued columns: one marginal with width² cells."""
    rng = np.random.Generator(np.random.PCG64(7))
    declared = {
        "name": "grid",
        "neighbours": neighbours,
        "columns": {name: {"type": "integer", "min": 0, "max": width - 1} for name in ("a", "b")},
    }
    schema = cs.Schema.from_dict(declared)
    data = pa.table({name: rng.integers(0, width, rows) for name in ("a", "b")})
    return schema, cs.open_table(data, schema)


def truth(table, workload):
    """The exact counts and the number of rows: for comparison, outside the package."""
    return count(workload, table.chunks())


def claimed(mechanism: Mechanism, problem: Problem) -> Claim | Refusal:
    """What a mechanism says about a problem before anything is spent."""
    said = propose(mechanism, problem)
    return said if isinstance(said, Refusal) else said.claim

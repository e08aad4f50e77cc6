"""Made tables whose secrets are known, and the questions that an attacker asks about them.

Everybody has a public number and one secret bit, or 240 traits. The secrets are fair coins, so that who knows nothing
guesses one half of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.schema import Schema
from conspectus.queries.builders.conjunctions import conjunctions
from conspectus.queries.builders.marginals import marginals
from conspectus.queries.workload import Workload

from .attackers import Bits, differencing, exhaustive, linear, membership


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A made table, what is asked about it, and the attack on the answers.

    Attributes:
        schema: Declares the table.
        rows: The table itself, secrets and all: it is made, and nobody's.
        workload: The questions.
        guessed: The attack: from the answers, as counts, to guesses.
        secret: What the guesses should be.
    """

    schema: Schema
    rows: pa.Table
    workload: Workload
    guessed: Callable[[NDArray[np.float64]], Bits]
    secret: Bits


def differenced(public_seed: int, people: int = 20) -> Target:
    """How many have the trait, and how many besides one person: all of the budget goes into two questions."""
    secret, schema = _coins(public_seed, people), _people(people)
    others = {"person": list(range(1, people)), "secret": True}
    return Target(
        schema=schema,
        rows=_table(secret),
        workload=conjunctions(schema, [{"secret": True}, others]),
        guessed=lambda counts: differencing(float(counts[0]), counts[1:]),
        secret=secret[:1],
    )


def enumerated(public_seed: int, people: int = 8) -> Target:
    """Every group of a few people."""
    groups = np.array(list(itertools.product([False, True], repeat=people)))[1:]
    return _reconstructed(public_seed, groups, exhaustive)


def programmed(public_seed: int, people: int = 48, questions: int = 192) -> Target:
    """Random groups of many people."""
    rng = np.random.Generator(np.random.PCG64(public_seed + 1))
    return _reconstructed(public_seed, rng.random((questions, people)) < 0.5, linear)


def homer(public_seed: int, people: int = 24, traits: int = 240) -> Target:
    """The shares of many traits in a small table: who is in it, of its rows and as many others?"""
    rng = np.random.Generator(np.random.PCG64(public_seed))
    population = rng.uniform(0.2, 0.8, traits)
    records = rng.random((2 * people, traits)) < population
    names = [f"trait{i}" for i in range(traits)]
    schema = Schema.from_dict({"name": "traits", "columns": {name: {"type": "boolean"} for name in names}})

    def guessed(counts: NDArray[np.float64]) -> Bits:
        shares = counts.reshape(traits, 2)[:, 1] / people
        return membership(shares, population, records, rows=people)

    return Target(
        schema=schema,
        rows=pa.table({name: records[:people, i] for i, name in enumerate(names)}),
        workload=marginals(schema, 1),
        guessed=guessed,
        secret=np.arange(2 * people) < people,
    )


def _reconstructed(public_seed: int, groups: Bits, attack: Callable[[Bits, NDArray[np.float64]], Bits]) -> Target:
    people = groups.shape[1]
    secret, schema = _coins(public_seed, people), _people(people)
    asked = [{"person": np.flatnonzero(group).tolist(), "secret": True} for group in groups]
    return Target(
        schema=schema,
        rows=_table(secret),
        workload=conjunctions(schema, asked),
        guessed=partial(attack, groups),
        secret=secret,
    )


def _coins(public_seed: int, people: int) -> Bits:
    return np.random.Generator(np.random.PCG64(public_seed)).random(people) < 0.5


def _people(people: int) -> Schema:
    columns = {"person": {"type": "integer", "min": 0, "max": people - 1}, "secret": {"type": "boolean"}}
    return Schema.from_dict({"name": "people", "columns": columns})


def _table(secret: Bits) -> pa.Table:
    return pa.table({"person": np.arange(len(secret)), "secret": secret})


TARGETS: dict[str, Callable[[int], Target]] = {
    "differencing": differenced,
    "exhaustive": enumerated,
    "linear": programmed,
    "membership": homer,
}
"""The attacks by the names that users type."""
TIMES = {"differencing": 8}
"""How many tables are made for one run, where it is more than one: an attack on a single person guesses once."""

"""Mutated workload files of every kind: each is refused, or has at least the sensitivity that brute force finds.

`python -m tests.fuzzing.workload_files --count 100000 --seed 1` prints how many were accepted, refused and broken. A
file is read by the command line's own function. Half of the changes keep what a file means and respell it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from functools import cache, lru_cache
from itertools import combinations_with_replacement
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.fuzzing.mutations import mutated_json, nudged
from tests.reference import is_true, records, statistic_value

import conspectus as cs
from conspectus.cli.exit_codes import BAD_INPUT, explain
from conspectus.cli.options import Questions
from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries import from_json
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.blocks.parity_list import ParityList
from conspectus.queries.blocks.statistic import Statistic
from conspectus.queries.blocks.unsafe_functions import UnsafeFunctions
from conspectus.queries.query import Linear, Sparse
from conspectus.queries.workload import Workload

SECONDS = 10.0
RELATIONS = (Relation("replace"), Relation("add-remove"))
UNITS = (Relation("replace", 2, False), Relation("add-remove", 2, False))


def _schema(**columns: Any) -> cs.Schema:
    return cs.Schema.from_dict({"name": "made", "columns": columns})


SMALL = _schema(
    sex={"type": "categorical", "values": ["m", "f"]},
    age={"type": "integer", "min": 0, "max": 1, "missing": True},
    ill={"type": "boolean"},
)
TINY = _schema(age={"type": "integer", "min": 0, "max": 2}, ill={"type": "boolean"})
WIDE = _schema(age={"type": "integer", "min": 0, "max": 6}, ill={"type": "boolean"})
BOTH = _schema(age={"type": "integer", "min": 0, "max": 2}, visits={"type": "integer", "min": 0, "max": 1})
TWOS = _schema(**{name: {"type": "boolean"} for name in "abcde"})


def _some(codes: Any) -> float:
    return float(len(codes) > 3)


@cache
def bases() -> list[tuple[cs.Schema, Any]]:
    """Workloads of every kind, as they are stored."""
    found = [
        (SMALL, cs.marginals(SMALL, 2) + cs.marginals(SMALL, 0)),
        (SMALL, cs.ranges(SMALL, "age") + cs.prefixes(SMALL, "age")),
        (TWOS, cs.parities(TWOS, 2) + cs.parities(TWOS, 4)),
        (TWOS, Workload(TWOS.domain, (ParityList(TWOS.domain, ((0,), (0, 2), (), (1, 2, 4))),))),
        (SMALL, cs.marginals(SMALL, 2).take([0, 3, 5, 5, 9])),
        (SMALL, cs.conjunctions(SMALL, [{"sex": "m", "age": [0, 1]}, {"ill": True}, {}, {"age": None, "ill": False}])),
        (SMALL, cs.sql(SMALL, ["sex = 'm' OR ill", "NOT (ill AND age = 1)", "age IS NULL OR sex = 'f'"])),
        (TWOS, cs.random_conjunctions(TWOS, 3, 12, 1, negations=True)),
        (TWOS, cs.random_conjunctions(TWOS, 2, 6, 2) + cs.random_conjunctions(TWOS, 4, 6, 3)),
        (SMALL, cs.sparse([{("m", 0, True): 1.0, ("f", 1, False): 0.25}, [("m", 1, True), ("f", 0, False)]], SMALL)),
        (SMALL, cs.sparse([[("m", 0, True)], [("m", 0, True), ("f", 1, False)]], SMALL) + cs.marginals(SMALL, 1)),
        (TINY, cs.mode_shares(TINY) + cs.truncated_means(TINY, "age") + cs.quantile_shares(TINY, "age", [0.5])),
        (TINY, cs.interval_balances(TINY, "age")[:3] + cs.independence_distances(TINY)),
        (TINY, cs.kolmogorov_distances(TINY, "age", [[2, 1, 1]]) + cs.mode_shares(TINY, given=[{"ill": True}])),
        (TINY, cs.satisfied_shares(TINY, [[{"ill": True}, {"age": 1}], [{"age": 2}]]) + cs.marginals(TINY, 1)),
        (SMALL, cs.unsafe_functions(SMALL, {"some": (_some, 1.0), "less": (_some, 0.5)})),
    ]
    return [(schema, json.loads(json.dumps(workload.to_json()))) for schema, workload in found]


@cache
def later_bases() -> list[tuple[cs.Schema, Any]]:
    """The kinds that came later, in a list of their own: numbers of files keep their meaning."""
    parts = cs.means(TINY, "age", by=["ill"]).measured()
    weighed = cs.variances(TINY, "age", where="ill").measured(total_known=True) + cs.marginals(TINY, 1)
    tree = DyadicTree(WIDE.domain, 0, (), 2), DyadicTree(WIDE.domain, 0, (1,), 3)
    found = [
        (TINY, parts),
        (TINY, parts + parts[:2]),
        (TINY, weighed),
        (SMALL, cs.sums(SMALL, "age", by=["sex"]).measured()),
        (TINY, cs.variances(TINY, "age", by=["ill"])),
        (BOTH, cs.covariances(BOTH, "age", "visits") + cs.means(BOTH, "visits", by=["age"])),
        (TINY, cs.means(TINY, "age") + cs.sums(TINY, "age", where="NOT ill")),
        (WIDE, Workload(WIDE.domain, tree[:1])),
        (WIDE, Workload(WIDE.domain, tree)),
        (WIDE, Workload(WIDE.domain, tree[1:]) + cs.prefixes(WIDE, "age")),
    ]
    return [(schema, json.loads(json.dumps(workload.to_json()))) for schema, workload in found]


def case_of(seed: int, number: int, *, later: bool = False) -> tuple[cs.Schema, Any]:
    """The schema and the changed file of a number: the same in every process."""
    random = Random(f"{seed}:{number}")
    known = later_bases() if later else bases()
    schema, stored = known[number % len(known)]
    stored = json.loads(json.dumps(stored))
    shape = random.random()
    if shape < 0.08:
        return schema, mutated_json(random, stored)
    if shape < 0.7:
        place = random.randrange(len(stored["blocks"]))
        change = nudged if random.random() < 0.75 else mutated_json
        stored["blocks"][place] = change(random, stored["blocks"][place])
        if random.random() < 0.6:
            stored["blocks"][place] = _tidied(schema.domain, stored["blocks"][place])
    if shape > 0.5 and all(isinstance(block, dict) for block in stored["blocks"]):
        for _ in range(random.choice((1, 1, 2, 3))):
            _respell(random, stored)
    return schema, stored


def _tidied(domain: Domain, block: Any) -> Any:
    """A changed block as its builder would have written it, so that not all changes end at the spelling."""
    try:
        if block["kind"] == "conjunctions":
            literals = [from_json._literal(domain, entry) for entry in block["literals"]]
            rows = np.array(block["terms"], dtype=np.int64).reshape(-1, block["width"])
            starts = None if block["starts"] is None else np.array(block["starts"], dtype=np.int64)
            return json.loads(json.dumps(Conjunctions.build(domain, literals, rows, starts).to_json()))
        return json.loads(json.dumps(from_json._READERS[block["kind"]](domain, block).to_json()))
    except Exception:
        return block


def _respell(random: Random, stored: Any) -> None:
    """Another spelling of the same questions, or of some of them more often."""
    blocks = stored["blocks"]
    if random.random() < 0.2:
        blocks.insert(0, json.loads(json.dumps(random.choice(blocks))))
    block = random.choice(blocks)
    try:
        match block["kind"]:
            case "conjunctions":
                _respell_boxes(random, block)
            case "sparse":
                block["grid"] = random.choice((block["grid"] * 2, max(1, block["grid"] // 2)))
            case "marginal" | "parities":
                random.shuffle(block["columns"])
            case "parity-list":
                block["sets"].append(random.choice(block["sets"])[:: random.choice((1, -1))])
            case "tree":
                block["columns"], block["fanout"] = block["columns"][::-1], random.choice((2, 3, 4))
            case "linear":
                block["weightings"].append(random.choice(block["weightings"]))
                block["which"] = block["which"][:: random.choice((1, -1))]
            case "moments":
                random.shuffle(block["functions"])
            case "statistics":
                random.shuffle(block["functions"])
                block["given"].append(random.choice(block["given"]))
    except (LookupError, TypeError, ValueError, AttributeError):
        return  # the block was changed before, and is no such block any more


def _respell_boxes(random: Random, block: Any) -> None:
    """Padding moved and added, boxes repeated with other paddings, literals twice, starts written out."""
    width, terms = block["width"], block["terms"]
    if type(width) is not int or not 0 <= width < 9:
        return
    rows = [terms[at : at + width] for at in range(0, len(terms), width or 1)]
    wider = width + random.choice((0, 0, 1, 1, 2, 5))
    rows = [row + [-1] * (wider - width) for row in rows]
    chance = random.choice((0.0, 0.1, 0.5))
    for row in rows:
        if random.random() < chance:
            row[:] = _moved(random, row)
    if rows and random.random() < 0.7:
        row = random.choice(rows)
        again = [_moved(random, row) for _ in range(random.choice((1, 3, 20)))]
        if block["starts"] is not None:
            block["starts"] += [block["starts"][-1] + 1 + n for n in range(len(again))]
        rows += again
    if random.random() < 0.1:
        block["literals"].append(random.choice(block["literals"]))
        rows = [[len(block["literals"]) - 1 if t >= 0 and random.random() < 0.1 else t for t in row] for row in rows]
    if random.random() < 0.5 and block["starts"] is None:  # with a question that is never true, or without one
        block["starts"] = [*range(len(rows) + 1), *random.choice(([], [len(rows)]))]
    block["width"], block["terms"] = wider, [t for row in rows for t in row]


def _moved(random: Random, row: list[Any]) -> list[Any]:
    """The same box with its padding elsewhere, its literals in order or not."""
    named = [t for t in row if t != -1]
    places = sorted(random.sample(range(len(row)), len(named)))
    if random.random() < 0.1:
        random.shuffle(named)
    new = [-1] * len(row)
    for place, t in zip(places, named):
        new[place] = t
    return new


class Judge:
    """Reads files as a command does, and compares what is declared with what is true."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "questions.json"

    def verdict(self, schema: cs.Schema, stored: Any, *, units: bool = False) -> tuple[str, str]:
        """ "accepted", "refused" or "broken", and what was said."""
        self._path.write_text(json.dumps(stored), encoding="utf-8")
        started = time.monotonic()
        try:
            # What is measured of means and the like are their parts, with the number of rows or without.
            read = Questions(stored=[self._path]).workload(schema).measured(total_known=units)
            declared = [read.sensitivity(relation) for relation in RELATIONS + UNITS]
        except Exception as problem:
            code, said = explain(problem)
            return ("refused" if code == BAD_INPUT else "broken"), said
        if time.monotonic() - started > SECONDS:
            return "broken", "slow"
        if any(isinstance(block, UnsafeFunctions) for block in read.blocks):
            return "accepted", "declared by its owner"
        try:
            tables = _Tables.of(read)
        except ValueError as problem:
            return "broken", f"it was read, and its questions have no meaning: {problem}"
        for relation, said in zip(RELATIONS + UNITS, declared):
            if relation.max_rows > 1 and not units:
                continue
            true = tables.sensitivity(relation)
            if said.l1 < true[0] or said.l2_squared < true[1] or said.linf < true[2]:
                return "broken", f"{relation}: declared {said}, true {true}"
        return "accepted", ""


class _Tables:
    """The values of a workload on small tables, in steps of its grid, by the meaning of each query."""

    def __init__(self, rows: list[tuple[int, ...]], values: NDArray[np.int64], linear: bool) -> None:
        self._rows, self._values, self._linear = rows, values, linear
        self._at = {table: place for place, table in enumerate(rows)}

    @classmethod
    def of(cls, workload: Workload) -> _Tables:
        universe = records(workload.domain)
        linear = not any(isinstance(query, Statistic) for query in workload.queries())
        rows = [
            table for n in range(3 if linear else 5) for table in combinations_with_replacement(range(len(universe)), n)
        ]
        single = {block: workload.grid // block.grid for block in workload.blocks}
        columns = []
        for block in workload.blocks:
            for query in (block.query(i) for i in range(len(block))):
                if isinstance(query, Statistic):
                    values = [_statistic(query, tuple(universe[r] for r in table)) for table in rows]
                    columns.append(np.array(values) * single[block])
                    continue
                each = np.array([_value(query, workload.domain, x) for x in universe]) * single[block]
                if isinstance(query, Sparse):
                    each = each * block.grid // query.grid
                columns.append(np.array([sum(each[r] for r in table) for table in rows]))
        return cls(rows, np.array(columns, dtype=np.int64).reshape(len(columns), len(rows)).T, linear)

    def sensitivity(self, relation: Relation) -> tuple[int, int, int]:
        """The largest norms over all pairs of tables of which one unit makes the other."""
        if self._linear:
            few = relation.rows_are_units and relation.replace
            held = [
                at for table, at in self._at.items() if (len(table) == 1 if few else len(table) <= relation.max_rows)
            ]
            values = self._values[held]
            if not relation.replace:
                return _norms(values)
            return tuple(np.max([_norms(values - one) for one in values], axis=0).tolist())  # type: ignore[return-value]
        moves = [self._values[one] - self._values[other] for one, other in self._neighbours(relation)]
        return _norms(np.array(moves))

    def _neighbours(self, relation: Relation) -> list[tuple[int, int]]:
        return _pairs(len({r for table in self._rows for r in table}), relation)


@cache
def _pairs(universe: int, relation: Relation) -> list[tuple[int, int]]:
    """Pairs of tables of up to four rows, by their places, of which one unit of the relation makes the other."""
    rows = [table for n in range(5) for table in combinations_with_replacement(range(universe), n)]
    place = {table: at for at, table in enumerate(rows)}
    found = set()
    m = relation.max_rows
    units = [unit for n in range(m + 1) for unit in combinations_with_replacement(range(universe), n)]
    for table in rows:
        for unit in units:
            if len(table) + len(unit) <= 4:
                one = place[tuple(sorted(table + unit))]
                if not relation.replace:
                    found.add((place[table], one))
                    continue
                for other in units:
                    same = len(unit) == len(other) == 1 or not relation.rows_are_units
                    if same and len(table) + len(other) <= 4:
                        found.add((one, place[tuple(sorted(table + other))]))
    return sorted(found)


@lru_cache(1 << 17)
def _statistic(query: Statistic, rows: tuple[tuple[int, ...], ...]) -> int:
    return statistic_value(query, rows)


def _value(query: Any, domain: Domain, record: tuple[int, ...]) -> int:
    if isinstance(query, Linear):
        weights = query.weighting.table(domain)
        return int(weights[tuple(record[c] for c in query.weighting.columns)]) * int(is_true(query.given, record))
    if isinstance(query, Sparse):
        place = int(np.ravel_multi_index(record, domain.sizes))
        return dict(zip(query.addresses, query.steps)).get(place, 0)
    return int(is_true(query, record))


def _norms(moves: NDArray[np.int64]) -> tuple[int, int, int]:
    size = np.abs(moves)
    return int(size.sum(1).max(initial=0)), int((size**2).sum(1).max(initial=0)), int(size.max(initial=0))


def run(seed: int, count: int, first: int = 0, *, later: bool = False) -> Counter[str]:
    """Judge some files, and print those that break."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        judge = Judge(Path(folder))
        for number in range(first, first + count):
            verdict, said = judge.verdict(*case_of(seed, number, later=later), units=number % 16 == 0)
            counts[verdict] += 1
            if verdict == "broken":
                print(f"{number}: {said[:300]}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--later", action="store_true", help="linear queries, moments and trees")
    asked = parser.parse_args()
    started = time.monotonic()
    counts = run(asked.seed, asked.count, asked.first, later=asked.later)
    total = " ".join(f"{name} {counts[name]:,}" for name in ("accepted", "refused", "broken"))
    print(f"seed {asked.seed}: {counts.total():,} workload files: {total}, in {time.monotonic() - started:.0f} s")
    return 1 if counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())

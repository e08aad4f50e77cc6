"""Short files that say large numbers: each is read or refused within a time and a memory that its length explains.

`python -m tests.fuzzing.grown_files --count 2000 --seed 1` prints how many were read, refused and broken. Other fuzzers
change small files a little. Here counts grow inside them: columns and their sizes, classes of questions, values, lists.
With `--later` the files are those that are gone on with (`grown_rows`), each put to all that is done with it.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, redirect_stdout
from fractions import Fraction
from functools import cache
from io import StringIO
from itertools import accumulate, combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tests.fuzzing import grown_rows
from tests.fuzzing.mutations import at, paths
from tests.fuzzing.releases import packed, unpacked

import conspectus as cs
from conspectus.cli import ledger_commands
from conspectus.cli.exit_codes import BAD_INPUT, BUG, explain
from conspectus.data.code_sets import of_runs
from conspectus.data.domain import Domain
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.query import VALUE_STEPS, Linear, Literal, Predicate, Weighting
from conspectus.queries.workload import Workload

SECONDS, LARGE = 3.0, 500 << 10
"""Seconds of processor, and KiB, that no file of at most `LONGEST` bytes may take; a longer one in proportion."""
LONGEST = 1 << 18
YARDSTICK = 0.4
"""Seconds of processor that `_slowness` takes where `SECONDS` are as long as they say."""
KINDS = (
    "linear",
    "boxes",
    "moments",
    "statistics",
    "parities",
    "values",
    "release",
    "ranges",
    "small_blocks",
    "unions",
    "chains",
    "ledger",
    "acts",
    "schema",
)
RELATIONS = (Relation("replace"), Relation("add-remove", 2, False))


def _domain(random: Random, columns: int, most: int) -> Domain:
    sizes = [random.choice((1, 2, 3, 17, most)) for _ in range(columns)]
    return Domain(tuple(f"c{place}" for place in range(columns)), tuple(sizes))


def _predicates(random: Random, domain: Domain, many: int) -> list[Predicate]:
    """As many different ones as a domain has room for: cells of one column or two, or sets of codes."""
    found = {}
    for _ in range(many):
        chosen = sorted(random.sample(range(len(domain)), random.choice((1, 1, 2, min(3, len(domain))))))
        box = []
        for column in chosen:
            codes = sorted({random.randrange(domain.sizes[column]) for _ in range(random.choice((1, 1, 2, 3)))})
            if len(codes) < domain.sizes[column]:
                box.append(Literal(column, tuple(codes)))
        found[tuple(box)] = None
    return [Predicate((box,)) for box in found]


def linear(random: Random) -> Any:
    """Classes of predicates, each with weightings of its own, some over several columns."""
    sizes = [random.choice((3, most, most, most)) for most in random.choice(((161,) * 3, (64,) * 4, (20,) * 6))]
    domain = Domain((*(f"c{place}" for place in range(len(sizes))), "by"), (*sizes, 300))
    questions: list[Linear] = []
    rng, left = np.random.default_rng(random.randrange(1 << 30)), LONGEST // 6
    for predicate in _predicates(random, domain, random.choice((3, 200, 2_000))):
        several = random.choice((1, 3, 3, 4))
        for place in range(several):
            other = (place + random.choice((0, 0, 0, 1))) % len(sizes)
            columns = tuple(sorted({place % len(sizes), other}))
            if (cells := domain.project(columns).cells) > 500:
                columns, cells = columns[:1], sizes[columns[0]]
            if (left := left - cells - 8) < 0:
                return Workload(domain, (LinearQueries.of(domain, questions),)).to_json()
            questions.append(Linear(predicate, Weighting(columns, rng.integers(0, VALUE_STEPS + 1, cells))))
    return Workload(domain, (LinearQueries.of(domain, questions),)).to_json()


def boxes(random: Random) -> Any:
    """Lists of predicates, in one block or in many."""
    domain = _domain(random, random.choice((3, 6, 30)), random.choice((256, 5_000)))
    predicates = _predicates(random, domain, random.choice((50, 3_000)))
    parts = random.choice((1, 1, 20))
    return Workload(
        domain, tuple(Conjunctions.of(domain, predicates[place::parts]) for place in range(parts))
    ).to_json()


def moments(random: Random) -> Any:
    """Columns of declared sizes, and moments of many pairs of them."""
    many, most = random.choice(((3, 2_000), (10, 200), (40, 20)))
    columns = {f"c{place}": {"type": "integer", "min": 0, "max": random.randrange(1, most)} for place in range(many)}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    pairs = random.sample(list(combinations(columns, 2)), min(many * 2, many * (many - 1) // 2))
    stored = sum((cs.covariances(schema, *pair) for pair in pairs[1:]), cs.covariances(schema, *pairs[0])).to_json()
    for _ in range(random.choice((0, 1, 3))):
        stored["sizes"][random.randrange(many)] *= random.choice((2, 1_000, 1 << 40))
    for block in stored["blocks"]:
        if random.random() < 0.3:  # a short name for a large thing, many times
            block["functions"] *= random.choice((5, 500))
            block["given"]["terms"] *= len(block["functions"])
            starts = block["given"]["starts"]
            block["given"]["starts"] = None if starts is None else list(range(len(block["functions"]) + 1))
    return stored


def statistics(random: Random) -> Any:
    """Many functions that name one long list of classes."""
    size = random.choice((50, 5_000, 40_000))
    schema = cs.Schema.from_dict({"name": "made", "columns": {"age": {"type": "integer", "min": 0, "max": size}}})
    kinds = (cs.mode_shares(schema), cs.quantile_shares(schema, "age", [0.5]))
    stored = random.choice(kinds).to_json() if size < 5_000 else kinds[0].to_json()
    functions = stored["blocks"][0]["functions"]
    stored["blocks"][0]["functions"] = functions * random.choice((2, 300, 3_000))
    return stored


def parities(random: Random) -> Any:
    """Many two-valued columns, and parities of few or of nearly all of them."""
    many = random.choice((20, 300, 3_000))
    domain = Domain(tuple(f"c{place}" for place in range(many)), (2,) * many)
    k = random.choice((0, 1, 2, many // 2, many - 2, many - 1, many))
    blocks = [{"kind": "parities", "columns": list(range(many)), "k": k}] * random.choice((1, 2, 5))
    return {**Workload(domain, ()).to_json(), "blocks": blocks}


def ranges(random: Random) -> Any:
    """Ranges over columns that are far too long to look through, in lists and as the blocks that name them."""
    sizes = [random.choice((1 << 24, 1 << 27, 1 << 31, 1 << 40, 1 << 62)) for _ in range(random.choice((1, 2, 4)))]
    domain = Domain(tuple(f"c{place}" for place in range(len(sizes))), tuple(sizes))
    predicates = []
    for _ in range(random.choice((1, 2, 30, 1_000))):
        box = []
        for column in sorted(random.sample(range(len(sizes)), random.randint(1, len(sizes)))):
            first = random.choice((0, random.randrange(sizes[column] - 1)))
            last = random.randrange(first, sizes[column] - 1)
            box.append(Literal(column, of_runs([(first, last)])))
        predicates.append(Predicate((tuple(box),)))
    stored = Workload(domain, (Conjunctions.of(domain, predicates),)).to_json()
    long = random.choice((1, 1_000, 16_000, 1 << 27, 1 << 31))
    stored["blocks"] += random.choice(
        (
            [],
            [{"kind": "ranges", "column": 0, "regular": long}],
            [{"kind": "prefixes", "column": 0, "regular": long}],
            [{"kind": "tree", "column": 0, "columns": [], "fanout": random.choice((2, 256, 1 << 16))}],
            [{"kind": "marginal", "columns": [0]}],
        )
    ) * random.choice((1, 1_000))
    return stored


def small_blocks(random: Random) -> Any:
    """Many lists of few questions, each of which is looked at by itself."""
    columns, size, width = random.choice(((2, 3_000, 2), (3, 50, 2), (7, 300, 7), (5, 9, 3)))
    domain = Domain(tuple(f"c{place}" for place in range(columns)), (size,) * columns)
    questions = random.choice((1, 2, 12, 40))
    blocks, left = [], LONGEST
    while left > 0 and len(blocks) < 1_500:
        predicates = []
        for _ in range(questions):
            box = []
            for column in sorted(random.sample(range(columns), width)):
                first = random.randrange(size - 1)
                box.append(Literal(column, of_runs([(first, random.randrange(first, size - 1))])))
            predicates.append(Predicate((tuple(box),)))
        blocks.append(Conjunctions.of(domain, predicates))
        left -= len(json.dumps(blocks[-1].to_json()))
    return Workload(domain, tuple(blocks)).to_json()


def unions(random: Random) -> Any:
    """Predicates of hundreds of boxes, whose literals have one run or several."""
    runs, many = random.choice((1, 1, 5, 18)), random.choice((9, 100, 512))
    literals = [[0, *(end for k in range(runs) for end in (2_000 * k + 3 * j,) * 2)] for j in range(many)]
    each = [sorted(random.sample(range(many), random.randint(2, many))) for _ in range(random.choice((1, 60)))]
    for queries in ([*range(many)], *each):
        if sum(map(len, each)) < LONGEST // 6:
            each.append(queries)
    stored = Workload(Domain(("a",), (40_000,)), ()).to_json()
    terms = [number for query in each for number in query]
    starts = [0, *accumulate(map(len, each))]
    used = sorted(set(terms))
    literals, terms = [literals[number] for number in used], [used.index(number) for number in terms]
    stored["blocks"] = [{"kind": "conjunctions", "literals": literals, "width": 1, "terms": terms, "starts": starts}]
    return stored


def chains(random: Random) -> Any:
    """Short weightings of two columns each, one column shared with the next: together they read all columns."""
    many, size = random.choice(((9, 2), (8, 3), (5, 16), (4, 30)))
    domain = Domain(tuple(f"c{place}" for place in range(many)), (size,) * many)
    rng = np.random.default_rng(random.randrange(1 << 30))
    weighed = [
        Linear(Predicate(((),)), Weighting((place, place + 1), rng.integers(0, VALUE_STEPS + 1, size * size)))
        for place in range(many - 1)
    ]
    block = LinearQueries.of(domain, weighed)
    copies = min(random.choice((1, 30, 400)), LONGEST // len(json.dumps(block.to_json())))
    return Workload(domain, (block,) * copies).to_json()


def schema(random: Random) -> Any:
    """Many columns that say many codes each."""
    long = random.choice((10**4, 10**6, (1 << 24) - 10, 1 << 40))
    kinds: tuple[dict[str, Any], ...] = (
        {"type": "integer", "min": 0, "max": long},
        {"type": "integer", "min": -long, "max": long, "width": random.choice((1, 7, 1 << 20)), "default": 3},
        {"type": "number", "min": 0, "max": long, "width": random.choice((1, 0.5, 1e-9, 1_000))},
        {"type": "date", "min": "0001-01-01", "max": "9999-12-31", "width": random.choice(("day", "week", "month"))},
        {"type": "boolean"},
    )
    columns = {f"c{place}": random.choice(kinds) for place in range(random.choice((1, 3, 50, 1_000)))}
    return {"name": "made", "columns": columns}


def _fraction(random: Random, digits: int) -> str:
    return str(Fraction(random.randrange(1, 10**digits), random.randrange(10 ** (digits - 1), 10**digits)))


def ledger(random: Random) -> bytes:
    """A ledger of many lines, whose prices and acts are all different."""
    kind, digits = random.choice(("reserve", "settle", "debit", "study")), random.choice((5, 18, 100, 1_000))
    many = min(3_000, LONGEST // (80 + {"reserve": 1, "settle": 3, "debit": 5, "study": 2}[kind] * digits))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.ledger"
        cs.Ledger.create(
            path,
            budget=Budget(epsilon=1.0, delta=1e-6),
            neighbours=Neighbours.REPLACE,
            unit="row",
            schema_fingerprint="made",
            table="made",
        )
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN")

            def add(line: str, owner: int | None, price: str, total: str, content: Any) -> int:
                made = (line, owner, price, total, json.dumps(content), "2026-01-01T00:00:00+00:00")
                insert = "INSERT INTO entries VALUES (NULL, ?, ?, ?, ?, '0', '0', ?, ?)"
                return int(connection.execute(insert, made).lastrowid or 0)

            first = add("reserve", None, "0", "0", {"label": "first"})
            if kind == "study":
                said = {"name": "s", "purpose": "p", "cap": None}
                add("reserve", None, "0", "0", {"label": "s", "declares": said})
            for _ in range(many):
                price = _fraction(random, digits)
                if kind == "debit":
                    bounds = {name: _fraction(random, digits) for name in ("replace", "add_remove")}
                    act = {"event": "gaussian", "reach_squared": bounds, "sigma_squared": _fraction(random, digits)}
                    add("debit", first, price, price, {"event": act})
                    continue
                named = {"label": "made"} | ({"study": "s"} if kind == "study" else {})
                number = add("reserve", None, price, "0", named)
                if kind == "settle":
                    add("settle", number, price, price, {})
            connection.execute("COMMIT")
        return path.read_bytes()


def acts(random: Random) -> bytes:
    """A release whose acts are many and different, or say that they are very many."""
    members = dict(random.choice(_made()[1]))
    manifest = json.loads(members["manifest.json"])
    large = random.choice((1 << 20, 1 << 27, 1 << 30, 10**12, 10**300))
    digits = random.choice((3, 30, 1_000))
    many = min(random.choice((1, 2, 300, 3_000)), LONGEST // (150 + 4 * digits))
    tiny = dict.fromkeys(("replace", "add_remove"), f"1/{large * 10**digits}")
    few = {name: str(large) for name in ("replace", "add_remove")}
    one = dict.fromkeys(("replace", "add_remove"), "1")
    made: list[dict[str, Any]] = []
    for place in range(many):
        match random.randrange(4):
            case 0:
                made.append({"event": "exponential", "range": tiny, "draws": large + place})
            case 1:
                made.append({"event": "noisy-maxima", "epsilon": tiny, "draws": large + place})
            case 2:
                reach = {"reach": few, "reach_squared": few, "reach_max": one}
                made.append({"event": "laplace", **reach, "scale": str(large * 10**6 + place)})
            case _:
                bound = Fraction(_fraction(random, digits)) / 10**9
                made.append({"event": "threshold", "epsilon": dict.fromkeys(one, str(bound))})
    said = manifest["release"]
    said["events"] = [*said["events"], *made] if random.random() < 0.5 else made
    said["guarantee"] |= {"epsilon": 5.5, "rho": None, "delta": 1e-6}
    return packed(members, top=manifest)


@cache
def _made() -> tuple[dict[str, bytes], list[dict[str, bytes]]]:
    """A file of a value, and some releases, taken apart."""
    schema = cs.Schema.from_dict(
        {"name": "made", "columns": {"ill": {"type": "boolean"}, "age": {"type": "integer", "min": 0, "max": 9}}}
    )
    table = cs.open_table(pa.table({"ill": [True, False] * 30, "age": list(range(10)) * 6}), schema)
    votes = cs.aggregated(schema, lambda codes: "a", blocks=4, values=["a", "b"])
    pairs, budget = cs.marginals(schema, 2), {"epsilon": 5.0, "delta": 1e-6}
    releases = [
        cs.release(table, pairs, mechanism="gaussian", **budget),
        cs.release(table, pairs, mechanism="mwem", **budget),
        cs.release(table, pairs, mechanism="projection", **budget),
        cs.release(table, cs.means(schema, "age", by=["ill"]), mechanism="laplace", epsilon=5.0),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path, members = Path(folder) / "one.conspectus", []
        for made in (cs.release_value(table, votes, epsilon=1.0), *releases):
            made.save(path)
            members.append(unpacked(path.read_bytes()))
    return members[0], members[1:]


def _many(random: Random, here: Any, many: int) -> list[Any]:
    """Different things like one, or things of another form."""
    match random.randrange(5):
        case 0 if isinstance(here, str):
            return [f"{here}{place}" for place in range(many)]
        case 1:
            return [place * ((1 << 61) - 1) for place in range(many)]
        case 2:
            return [[0.5] * random.choice((3, 50)) + [place] for place in range(many)]
        case 3:
            return [{str(place): here} for place in range(many)]
        case _:
            return [here] * many


def values(random: Random) -> bytes:
    """A file of a value, of which the values are many."""
    members = _made()[0]
    manifest = json.loads(members["manifest.json"])
    many = _many(random, "a", random.choice((300, 6_000, 60_000)))
    manifest["release"]["values"]["wanted"]["values"] = many
    return packed(members, top=manifest)


def release(random: Random) -> bytes:
    """A release in whose manifest or workload a list or a number has grown."""
    members = dict(random.choice(_made()[1]))
    name = random.choice(("manifest.json", "manifest.json", "workload.json"))
    tree = json.loads(members[name])
    places = [path for path in paths(tree) if path and isinstance(at(tree, path), list | int)]
    path = random.choice([path for path in places if path[0] != "members"])
    here, parent = at(tree, path), at(tree, path[:-1])
    if isinstance(here, list):
        parent[path[-1]] = here + _many(random, here[-1] if here else 0, random.choice((50, 5_000)))
    else:
        parent[path[-1]] = random.choice((1 << 16, 1 << 24, 1 << 31, 10**9, 10**12))
    if name == "manifest.json":
        return packed(members, top=tree)
    members[name] = json.dumps(tree).encode()
    return packed(members)


def case_of(seed: int, number: int) -> tuple[str, Any]:
    """The kind and the file of a number: the same in every process."""
    kind = KINDS[number % len(KINDS)]
    return kind, globals()[kind](Random(f"{seed}:{number}"))


def _read(kind: str, path: Path) -> None:
    """What a command does with such a file."""
    if kind == "values":
        cs.load_value(path)
    elif kind in ("release", "acts"):
        cs.load(path).ask("ill")
    elif kind == "schema":
        read_schema = cs.Schema.from_dict(json.loads(path.read_text(encoding="utf-8")))
        assert read_schema.fingerprint
    elif kind == "ledger":
        with redirect_stdout(StringIO()):
            ledger_commands.show(str(path))
    else:
        read = Workload.from_json(json.loads(path.read_text(encoding="utf-8")))
        for relation in RELATIONS:
            read.measured().sensitivity(relation)


def judged(kind: str, file: Any, folder: Path) -> tuple[str, str]:
    """ "read", "refused" or "broken", and what was said."""
    path = folder / "grown.conspectus"
    path.write_bytes(file if isinstance(file, bytes) else json.dumps(file).encode())
    peak, started, code, said = _peak(), time.process_time(), 0, ""
    try:
        _read(kind, path)
    except Exception as problem:
        code, said = explain(problem)
    took, grown = time.process_time() - started, _peak() - peak
    room = max(1.0, path.stat().st_size / LONGEST)
    if _beyond(took, grown, room):
        return "broken", f"{took:.0f} s and {grown >> 10} MiB for {path.stat().st_size:,} bytes"
    return ("read" if not code else "refused" if code == BAD_INPUT else "broken"), said


def judged_later(seed: int, number: int, folder: Path) -> tuple[str, str]:
    """The same of a file that is gone on with; what is refused must have spent nothing."""
    kind = grown_rows.KINDS[number % len(grown_rows.KINDS)]
    grown_rows.case_of(kind, Random(f"{seed}:{number}"), folder)
    room = max(1.0, sum(path.stat().st_size for path in folder.iterdir()) / LONGEST)
    verdict, said = "read", ""
    acts = grown_rows.acts_of(kind, folder)
    while True:
        peak, started, before = _peak(), time.process_time(), grown_rows.debits(folder)
        try:
            act = next(acts, None)  # a file is opened by the first
            if act is not None:
                act()
        except Exception as problem:
            code, said = explain(problem)
            if code == BUG:
                return "broken", f"{type(problem).__name__}: {problem}"
            if grown_rows.debits(folder) != before:
                return "broken", f"refused, and spent: {said}"
            verdict, act = "refused", None
        took, grown = time.process_time() - started, _peak() - peak
        if _beyond(took, grown, room):
            return "broken", f"{took:.0f} s and {grown >> 10} MiB, {room:.1f} of room"
        if act is None:
            acts.close()
            return verdict, said


def _beyond(took: float, grown: int, room: float) -> bool:
    """Whether a file took more than its length explains; seconds are those of a machine with nothing else to do."""
    return grown > LARGE * room or (took > SECONDS * room and took > SECONDS * room * _slowness())


def _slowness() -> float:
    """How many times as long as usual this machine takes now: fixed work in Python and in numpy, as reading is."""
    started, numbers = time.process_time(), np.arange(12)
    for _ in range(60_000):
        np.flatnonzero(np.where(numbers > 5, numbers, -1)).tolist()
    for _ in range(60):
        json.loads(json.dumps(list(range(5_000))))
    return (time.process_time() - started) / YARDSTICK


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(seed: int, count: int, first: int = 0, *, later: bool = False) -> Counter[str]:
    """Judge some files, and print those that break."""
    counts: Counter[str] = Counter()
    for number in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            if later:
                kind = grown_rows.KINDS[number % len(grown_rows.KINDS)]
                verdict, said = judged_later(seed, number, Path(folder))
            else:
                kind, file = case_of(seed, number)
                verdict, said = judged(kind, file, Path(folder))
            counts[verdict] += 1
            counts[f"{kind} {verdict}"] += 1
            if verdict == "broken":
                print(f"{number} ({kind}): {said[:300]}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--later", action="store_true")
    asked = parser.parse_args()
    started = time.monotonic()
    counts = run(asked.seed, asked.count, asked.first, later=asked.later)
    total = " ".join(f"{name} {counts[name]:,}" for name in ("read", "refused", "broken"))
    print(f"seed {asked.seed}: {asked.count:,} grown files: {total}, in {time.monotonic() - started:.0f} s")
    print(", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()) if " " in name))
    return 1 if counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())

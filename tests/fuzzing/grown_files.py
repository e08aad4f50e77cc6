"""Short files that say large numbers: each is read or refused within a time and a memory that its length explains.

`python -m tests.fuzzing.grown_files --count 2000 --seed 1` prints how many were read, refused and broken. Other fuzzers
change small files a little. Here counts grow inside them: columns and their sizes, classes of questions, values, lists.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tests.fuzzing.mutations import at, paths
from tests.fuzzing.releases import packed, unpacked

import conspectus as cs
from conspectus.cli.exit_codes import BAD_INPUT, explain
from conspectus.data.domain import Domain
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.query import VALUE_STEPS, Linear, Literal, Predicate, Weighting
from conspectus.queries.workload import Workload

SECONDS, LARGE = 20.0, 3 << 20
"""Seconds of processor, and KiB, that no file of at most `LONGEST` bytes may take."""
LONGEST = 1 << 18
KINDS = ("linear", "boxes", "moments", "statistics", "parities", "values", "release")
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
    elif kind == "release":
        cs.load(path).ask("ill")
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
    if took > SECONDS or grown > LARGE:
        return "broken", f"{took:.0f} s and {grown >> 10} MiB for {path.stat().st_size:,} bytes"
    return ("read" if not code else "refused" if code == BAD_INPUT else "broken"), said


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run(seed: int, count: int, first: int = 0) -> Counter[str]:
    """Judge some files, and print those that break."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            kind, file = case_of(seed, number)
            verdict, said = judged(kind, file, Path(folder))
            counts[verdict] += 1
            if verdict == "broken":
                print(f"{number} ({kind}): {said[:300]}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    started = time.monotonic()
    counts = run(asked.seed, asked.count, asked.first)
    total = " ".join(f"{name} {counts[name]:,}" for name in ("read", "refused", "broken"))
    print(f"seed {asked.seed}: {counts.total():,} grown files: {total}, in {time.monotonic() - started:.0f} s")
    return 1 if counts["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())

"""The layout keeps privacy reviewable: who may import whom, who may touch rows and sampler, and what nobody may do."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "conspectus"
LONGEST = 400
SEALED = ("data.sources", "privacy.noise", "privacy.exponential", "privacy.levels")
# Whom a room may import, besides itself; a dotted name allows that module alone.
LEAVES = {"spelling": (), "data": ("spelling",), "privacy": ("spelling",)}
CORE = {
    "queries": ("data.domain", "data.field", "data.fingerprints", "data.runs", "data.sets", "spelling"),
    "synopses": (
        *("queries", "data.canonical", "data.domain", "data.field", "data.sets"),
        *("privacy.events", "privacy.tails", "privacy.shifted", "spelling"),
    ),
    "curator": ("queries", "data.domain", "data.field", "data.sources", "privacy"),
}
MECHANISMS = ("curator", "synopses", "queries", "data.domain", "privacy", "spelling")
READING = ("mechanisms", "synopses", "queries", "data", "privacy", "spelling", "answers", "tables")
EDGES = {
    "mechanisms": MECHANISMS,
    "planning": (*READING,),
    "answers": READING,
    "tables": READING,
    "releases": READING,
    "report": (*READING, "planning", "releases"),
    "releasing": (*READING, "curator", "planning", "releases"),
    "public_nets": (*READING, "releases"),
    "sessions": (*READING, "curator", "releases"),
    "live": (*READING, "curator", "planning", "releasing", "sessions"),
    "audit": (*READING, "curator", "planning", "releases", "releasing"),
    "cli": (*READING, "planning", "releases", "releasing", "live", "sessions", "report", "audit", ""),
    "__main__": ("cli",),
}
ALLOWED: dict[str, tuple[str, ...]] = {**LEAVES, **CORE, **EDGES}
KEYHOLDERS = ("curator", "releasing", "live", "audit", "public_nets")
BANNED = ("pickle", "marshal", "shelve", "dill", "cloudpickle", "random", "secrets", "numpy.random")
BANNED_NAMES = ("utils", "common", "types", "base", "errors", "helpers", "misc")


def modules(root: Path) -> Iterator[tuple[str, ast.Module, int]]:
    """(dotted name below the package, syntax tree, lines) of every module."""
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(parts), ast.parse(text), text.count("\n")


def imports(name: str, tree: ast.Module) -> Iterator[str]:
    """Absolute names of everything imported, at any depth; ours without the package's own name and a leading dot."""
    here = name.split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield "." + alias.name[11:] if f"{alias.name}.".startswith("conspectus.") else alias.name
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                module = ".".join(["conspectus", *here[: len(here) - node.level], *filter(None, [module])])
            ours = f"{module}.".startswith("conspectus.")
            for alias in node.names:
                full = f"{module}.{alias.name}"
                yield "." + full[11:] if ours else full


def inside(name: str, place: str) -> bool:
    return name == place or f"{name}.".startswith(f"{place}.")


def complaints(root: Path) -> list[str]:
    """Every broken rule, as "module: what is wrong"."""
    found: list[str] = []
    for name, tree, lines in modules(root):
        room = room_of(name)
        if lines > LONGEST:
            found.append(f"{name}: {lines} lines")
        if name.split(".")[-1] in BANNED_NAMES:
            found.append(f"{name}: a name that says nothing")
        if room != "__init__" and room not in ALLOWED:
            found.append(f"{name}: a room that the picture does not show")
        for target in imports(name, tree):
            if target.startswith("."):
                found += _direction(name, room, target[1:])
            elif any(inside(target, banned) for banned in BANNED) and (name, target) != ("privacy.noise", "secrets"):
                found.append(f"{name}: imports {target}")
        found += [f"{name}: {problem}" for problem in _acts(name, tree)]
    return found


def _direction(name: str, room: str, target: str) -> list[str]:
    if room == "__init__" or inside(target, room):
        return []  # the package's own front door lists everything, lazily
    places = ALLOWED.get(room, ())
    known = target == "__version__" or any(inside(target, place) for place in places)
    wrong = [] if known else [f"{name}: may not import {target}"]
    if any(inside(target, sealed) for sealed in SEALED) and room not in KEYHOLDERS:
        wrong.append(f"{name}: {target} is sealed")
    return wrong


def _last_resort(name: str) -> bool:
    """The command line, which prints nothing of what it catches; foreign functions, and values of foreign types whose
    own code runs when they are read: each failure is a value, since it may depend on one row. And foreign generators,
    whose failure must not waste what was paid for."""
    objects = ("data.forms", "data.reading", "data.sources.frames")
    foreign = ("queries.low_sensitivity", "mechanisms.own_generator", *objects)
    return room_of(name) == "cli" or name in foreign


def _acts(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="eval" | "exec" | "compile" as called)):
                yield f"calls {called}"
            case ast.ExceptHandler(type=None | ast.Name(id="Exception" | "BaseException")) if not _last_resort(name):
                yield "catches everything"
            case ast.Attribute(attr="random", value=ast.Name(id="np" | "numpy")) if name != "privacy.noise":
                # The samplers' own module holds the seeded coins of tests, which mark what they make as not private.
                if not _public(node, tree):
                    yield "np.random without a public seed"


def room_of(name: str) -> str:
    return name.split(".")[0]


def _public(node: ast.Attribute, tree: ast.Module) -> bool:
    """np.random may appear as the type Generator, or as PCG64 of something called public_seed or drawn from it."""
    for parent in ast.walk(tree):
        if isinstance(parent, ast.Attribute) and parent.value is node:
            if parent.attr == "Generator":
                return True
            if parent.attr not in ("PCG64", "SeedSequence"):
                return False
            calls = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and call.func is parent]
            return bool(calls) and all("public_seed" in ast.unparse(value) for call in calls for value in call.args)
    return False


def test_the_house_keeps_its_rules() -> None:
    assert complaints(SOURCE) == []


BROKEN = {
    "privacy/noise.py": "import secrets\n",
    "privacy/prices.py": "from ..queries import query\n",
    "queries/query.py": "from conspectus.data.schema import Schema\n",
    "queries/kernels.py": "import numpy as np\nx = np.random.default_rng(3)\n",
    "queries/seeded.py": "import numpy as np\ndef f(public_seed): return np.random.PCG64(public_seed)\n",
    "synopses/rows.py": "import pickle\n",
    "mechanisms/greedy.py": "from ..data import sources\n",
    "mechanisms/hungry.py": "def f():\n    from conspectus.privacy.noise import SystemSampler\n",
    "mechanisms/careless.py": "try:\n    eval('1')\nexcept Exception:\n    pass\n",
    "mechanisms/lucky.py": "import random\nfrom numpy.random import default_rng\n",
    "data/utils.py": "",
    "data/long.py": "\n" * 401,
    "planning.py": "from . import releasing\n",
    "attic.py": "",
    "curator/curator.py": "from ..privacy import noise\nfrom ..data.sources import Table\n",
}
EXPECTED = {
    "privacy.prices: may not import queries.query",
    "queries.query: may not import data.schema.Schema",
    "queries.kernels: np.random without a public seed",
    "synopses.rows: imports pickle",
    "mechanisms.greedy: may not import data.sources",
    "mechanisms.greedy: data.sources is sealed",
    "mechanisms.hungry: privacy.noise.SystemSampler is sealed",
    "mechanisms.careless: calls eval",
    "mechanisms.careless: catches everything",
    "mechanisms.lucky: imports random",
    "mechanisms.lucky: imports numpy.random.default_rng",
    "data.utils: a name that says nothing",
    "data.long: 401 lines",
    "planning: may not import releasing",
    "attic: a room that the picture does not show",
}


def test_a_broken_house_is_caught(tmp_path: Path) -> None:
    for file, text in BROKEN.items():
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert set(complaints(tmp_path)) == EXPECTED


@pytest.mark.parametrize("sealed", SEALED)
def test_sealed_modules_are_where_the_rule_thinks(sealed: str) -> None:
    path = SOURCE / sealed.replace(".", "/")
    assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()

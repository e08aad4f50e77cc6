"""The layout keeps privacy reviewable: who may import whom, who may touch rows and samplers, and what nobody may do."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "conspectus"

DIRECTIONS = """
plain_text, suggestions, compiled, interrupts, server_address, whole_numbers, real_path
                       ->
tabular                -> plain_text, suggestions
data                   -> suggestions, compiled, interrupts, server_address, whole_numbers, real_path
data.sources.postgres  -> data*, data.sources.batches, data.sources.origin, data.sources.sql
data.sources.spark     -> data*, data.sources.batches, data.sources.many_files, data.sources.origin,
                          data.sources.parquet, data.sources.table, data.sources.units
data.sources           -> data*, data.sources.postgres, data.sources.spark
privacy.composition    -> whole_numbers
privacy                -> privacy.composition, compiled
privacy.ledger         -> privacy, suggestions, tabular, server_address, real_path
queries.blocks         -> queries.query, queries.block, queries.sensitivity, queries.literals, queries.ordering,
                          queries.hashing, queries.address_index, queries.rules, queries.stored_parts,
                          queries.disjoint_boxes, data.domain, data.code_sets, data.records, privacy.relation,
                          interrupts
queries                -> queries.blocks, data.domain, data.code_sets, data.records, privacy.relation, suggestions,
                          compiled, whole_numbers
queries.builders       -> queries*, data.schema, data.columns
queries.language       -> queries.builders*
counting               -> queries, queries.blocks, data.domain, data.code_sets, data.chunks, data.fold, data.records,
                          compiled
curator                -> counting*, privacy, data, data.sources
synopses.fitting       -> counting*
synopses.intervals     -> synopses.synopsis, synopses.estimate, queries, data.domain
synopses               -> synopses.fitting*, synopses.intervals, queries.builders, privacy.events, privacy.tails,
                          privacy.noise_plus_shift, privacy.mixed_noise, suggestions, whole_numbers
mechanisms.registry    -> suggestions
mechanisms.simulation  -> curator.scores, synopses*, privacy
mechanisms.update_rules -> synopses*
mechanisms             -> mechanisms.registry, mechanisms.simulation, mechanisms.update_rules, curator, synopses*,
                          privacy, privacy.composition
mechanisms.adaptive    -> mechanisms*, compiled
mechanisms.live_mixture -> mechanisms.adaptive, mechanisms.online, mechanisms*
mechanisms.effort      -> mechanisms, queries.blocks
mechanisms.boosting, mechanisms.dual_query, mechanisms.online, mechanisms.small_db, mechanisms.sparse_project
                       -> mechanisms*
releases               -> mechanisms.effort, mechanisms.small_db, mechanisms*, queries.language, privacy.ledger,
                          data, data.sources, tabular, plain_text
sessions               -> releases*, server_address, real_path
streams                -> releases*
stability              -> releases*
report                 -> data.schema, releases, stability, synopses*, privacy, privacy.composition, privacy.ledger,
                          real_path, plain_text
audit                  -> sessions*, streams, stability, privacy.composition, local
service.homes          -> service.analysts, service.describing, service.desk, service.journal, service.refusing,
                          service.shelf, sessions*, conspectus
service                -> service.homes, sessions*, report, plain_text, conspectus
local                  -> privacy, queries.rules, suggestions
attacks                -> data.schema, queries, queries.builders, mechanisms, suggestions, whole_numbers,
                          plain_text, conspectus
cli                    -> attacks*, service*, audit*, report, plain_text, conspectus
__main__               -> cli
"""
"""Room by room, whom it may import besides itself. The same text stands in docs/architecture.md.

A name on the right stands for one room or one module. A room inside another has a line of its own, and is not meant
where the outer one is named. With a star it stands for itself and for all that it may import. `conspectus` is the front
door, as users import it.
"""

SEALED = ("data.sources", "privacy.noise", "privacy.exponential", "privacy.levels", "privacy.permute_and_flip")
KEYHOLDERS = (
    "curator",  # the one room where rows and samplers meet
    "releases.run",  # makes the curator of a release
    "sessions.opening",  # makes the curator of a session
    "streams.stream",  # makes the counter of a stream
    "stability.released_value",  # makes the curator of single values
    "releases.public_nets",  # reads public tables through the same door
    "audit",  # makes curators, to attack them
    "local",  # randomises one's own answer, and reads no table
    "cli.schema_commands",  # drafts a schema for the owner, and says NOT PRIVATE
    "service.owner_draft",  # the same for the owner's page
    "data.sources",
    "privacy.exponential",  # draws with the sampler
    "privacy.levels",
    "privacy.permute_and_flip",
)
SAYS = {"print": "cli.printing", "input": "cli.prompt"}
"""The modules that speak, which show as plain text what came out of a file."""
LONGEST, MOST_FILES = 400, 24
SHARED_NAMES = ("__init__", "mechanism", "parameters", "theorem", "claim", "plan")
EMPTY_NAMES = ("utils", "common", "types", "base", "errors", "helpers", "misc")
BANNED = ("pickle", "marshal", "shelve", "dill", "cloudpickle", "random", "secrets", "numpy.random")
ENTROPY = ("privacy.noise", "secrets")
"""The one module that may ask the operating system for randomness, and how."""

FRONT_DOORS = ("mechanisms.__init__",)
"""They name what stands behind them for type checkers, and load it when it is asked for."""

MAY_DEFER = ("cli", "__init__")
"""Rooms that may import inside functions: `conspectus --help` must not wait for compilers and databases."""

CATCH_ALL = (
    "cli",  # prints nothing of what it catches
    "service.gate",  # answers strangers: a fault is logged by its kind and place, and told as one
    "service.homes.home",
    "service.homes.line_up",  # whatever a piece of work raises is raised to whoever waits for it
    "queries.blocks.unsafe_functions",  # foreign functions: a failure may depend on one row, so it is a value
    "curator.foreign_process",  # the same on subsamples of the table, in a process that ends with it
    "mechanisms.boosting.own_generator",  # foreign generators: a failure must not waste what was paid for
    "mechanisms.simulation.reruns",  # post-processing of a release that is paid for: a failure costs it intervals alone
    "data.records.forms",  # values of foreign types, whose own code runs when they are read: each failure is a value
    "data.records.record_encoding",
    "data.sources.frames",
    "data.sources.many_files",  # a store or a server may quote rows and keys in what it says: told in one sentence
    "data.sources.postgres",
    "data.sources.spark",
)


@dataclass(frozen=True)
class Import:
    """One import: the module that has it, what it names (ours begin with a dot), and where it stands."""

    module: str
    target: str
    deferred: bool
    for_types: bool

    @property
    def ours(self) -> bool:
        return self.target.startswith(".")


@dataclass(frozen=True)
class Module:
    name: str
    tree: ast.Module
    lines: int

    @property
    def stem(self) -> str:
        return self.name.split(".")[-1]

    @property
    def imports(self) -> Iterator[Import]:
        yield from self._imports(self.tree, deferred=False, for_types=False)

    def _imports(self, node: ast.AST, *, deferred: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inside_function = deferred or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for statement in child.body:
                    yield from self._named(statement, deferred=deferred, for_types=True)
                    yield from self._imports(statement, deferred=deferred, for_types=True)
                for statement in child.orelse:
                    yield from self._named(statement, deferred=deferred, for_types=for_types)
                    yield from self._imports(statement, deferred=deferred, for_types=for_types)
                continue
            yield from self._named(child, deferred=deferred, for_types=for_types)
            yield from self._imports(child, deferred=inside_function, for_types=for_types)

    def _named(self, node: ast.AST, *, deferred: bool, for_types: bool) -> Iterator[Import]:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            here = self.name.split(".")
            base = node.module or ""
            if node.level:
                base = ".".join(["conspectus", *here[: len(here) - node.level], *filter(None, [node.module])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            target = "." + name[11:] if inside(name, "conspectus") else name
            yield Import(self.name, target, deferred, for_types)


def modules(root: Path) -> list[Module]:
    """Every module, by its dotted name below the package."""
    found = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found.append(Module(".".join(path.relative_to(root).with_suffix("").parts), ast.parse(text), text.count("\n")))
    return found


def inside(name: str, place: str) -> bool:
    return f"{name}.".startswith(f"{place}.")


def allowed() -> dict[str, frozenset[str]]:
    """The table above: for each place whom it may import, itself included."""
    found: dict[str, frozenset[str]] = {}
    for line in re.sub(r"\n +", " ", DIRECTIONS.strip()).splitlines():
        left, _, right = line.partition("->")
        names: set[str] = set()
        for name in filter(None, (part.strip() for part in right.split(","))):
            names |= found[name.removesuffix("*")] if name.endswith("*") else {name}
        for place in left.split(","):
            found[place.strip()] = frozenset(names | {place.strip()})
    return found


ALLOWED = allowed()


def place_of(name: str) -> str | None:
    """The innermost place of the table that a name is in."""
    return max((place for place in ALLOWED if inside(name, place)), key=len, default=None)


def complaints(root: Path) -> list[str]:
    """Every broken rule, as "module: what is wrong"."""
    house = modules(root)
    found = [*_sizes(root, house), *_cycles(house)]
    for module in house:
        if module.name == "__init__":
            found += [f"{module.name}: {problem}" for problem in _acts(module)]
            continue  # the package's own front door lists everything, lazily
        if place_of(module.name.removesuffix(".__init__")) is None:
            found.append(f"{module.name}: a room that the table does not show")
            continue
        for one in module.imports:
            if one.ours:
                found += [] if one.for_types and module.name in FRONT_DOORS else _direction(one)
            elif any(inside(one.target, banned) for banned in BANNED) and (module.name, one.target) != ENTROPY:
                found.append(f"{module.name}: imports {one.target}")
        found += [f"{module.name}: {problem}" for problem in _acts(module)]
    return found


def _sizes(root: Path, house: list[Module]) -> Iterator[str]:
    for module in house:
        if module.lines > LONGEST:
            yield f"{module.name}: {module.lines} lines"
        if module.stem in EMPTY_NAMES:
            yield f"{module.name}: a name that says nothing"
    stems = Counter(module.stem for module in house)
    twice = {stem for stem, count in stems.items() if count > 1} - set(SHARED_NAMES)
    yield from (f"{module.name}: another module has this name" for module in house if module.stem in twice)
    files = Counter(path.parent for path in root.rglob("*.py") if path.stem != "__init__")
    yield from (f"{folder.relative_to(root)}: {count} files" for folder, count in files.items() if count > MOST_FILES)


def _direction(one: Import) -> list[str]:
    name, target = one.module.removesuffix(".__init__"), one.target[1:]
    mine = place_of(name)
    assert mine is not None
    theirs = place_of(target) if target else "conspectus"
    named = any(inside(target, place) and place not in ALLOWED for place in ALLOWED[mine])
    wrong = []
    if target != "__version__" and theirs not in ALLOWED[mine] and not named:
        wrong.append(f"{one.module}: may not import {target}")
    sealed = [place for place in SEALED if inside(target, place)]
    if sealed and not any(inside(name, holder) for holder in KEYHOLDERS):
        wrong.append(f"{one.module}: {target} is sealed")
    if one.deferred and room_of(one.module) not in MAY_DEFER:
        wrong.append(f"{one.module}: imports {target} inside a function")
    return wrong


def _cycles(house: list[Module]) -> Iterator[str]:
    """Modules that import one another in a circle, imports inside functions included, those for types alone not."""
    known = {module.name.removesuffix(".__init__"): module for module in house}
    edges: dict[str, set[str]] = {name: set() for name in known}
    for name, module in known.items():
        for one in module.imports:
            if one.ours and not one.for_types:
                target = one.target[1:]
                while target and target not in known:
                    target = target.rpartition(".")[0]
                if target and target != "__init__":
                    edges[name].add(target)
    yield from (f"{' -> '.join(circle)}: imports in a circle" for circle in circles(edges))


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """One circle through each knot of a graph: what is left after modules that import nothing left are taken away."""
    left = {name: {target for target in targets if target in edges} for name, targets in edges.items()}
    while free := [name for name, targets in left.items() if not targets]:
        left = {name: targets - set(free) for name, targets in left.items() if name not in free}
    found = []
    while left:
        walk = [min(left)]
        while (following := min(left[walk[-1]])) not in walk:
            walk.append(following)
        circle = walk[walk.index(following) :]
        found.append([*circle, circle[0]])
        left = {name: targets - set(circle) for name, targets in left.items() if name not in circle}
        while free := [name for name, targets in left.items() if not targets]:
            left = {name: targets - set(free) for name, targets in left.items() if name not in free}
    return found


def _acts(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=ast.Name(id="eval" | "exec" | "compile" as called)):
                yield f"calls {called}"
            case ast.Call(func=ast.Name(id="print" | "input" as called)) if module.name != SAYS[called]:
                yield f"calls {called} by itself: a label would steer the terminal"
            case ast.Call(func=ast.Attribute(attr="echo" | "secho" | "confirm" | "prompt", value=ast.Name(id="typer"))):
                yield "lets typer speak: a label would steer the terminal"
            case ast.Call(func=ast.Attribute(attr="write", value=ast.Attribute(attr="stdout" | "stderr"))) if inside(
                module.name, "cli"
            ):
                yield "writes to a stream by itself: a label would steer the terminal"
            case ast.ImportFrom(module="html") if module.name != "plain_text":
                yield "escapes by itself: plain_text does it with what no page can hold"
            case ast.ExceptHandler() if not any(inside(module.name, place) for place in CATCH_ALL):
                if _catches_all(node):
                    yield "catches everything"
            case ast.Attribute(attr="resolve" | "realpath") if module.name != "real_path":
                yield "resolves a path by itself: real_path refuses what leads nowhere"
            case ast.Attribute(attr="random", value=ast.Name(id="np" | "numpy")) if module.name != "privacy.noise":
                # The samplers' own module holds the seeded ones of tests, which mark what they make as not private.
                if not _public(node, module.tree):
                    yield "np.random without a public seed"


def _catches_all(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds)


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
    # directions, between rooms and inside them
    "privacy/prices.py": "from ..queries import query\n",
    "queries/query.py": "from conspectus.data.schema import Schema\n",
    "queries/workload.py": "from ..counting import counters\n",
    "queries/blocks/marginal.py": "from conspectus.queries.builders.marginals import marginals\n",
    "queries/blocks/parity_list.py": "from ..workload import Workload\n",
    "queries/blocks/conjunction_list.py": "from ..query import Query\nfrom ...privacy.relation import Relation\n",
    "queries/builders/marginals.py": "from ..blocks import parity_list\nfrom ..language import from_sql\n",
    "queries/language/from_sql.py": "from ..builders import arguments\nfrom ..formulas import union\n",
    "mechanisms/boosting/rounds.py": "from ..dual_query.game import play\nfrom .. import certificate\n",
    "mechanisms/iterative.py": "from .online import loop\n",
    "mechanisms/curious.py": "from conspectus.data.schema import Schema\n",
    "releases/planning.py": "from conspectus.sessions import session\n",
    "attic.py": "",
    # what is sealed
    "mechanisms/greedy.py": "from ..data import sources\n",
    "mechanisms/hungry.py": "if TYPE_CHECKING:\n    from conspectus.privacy.noise import X\n",
    "data/draft.py": "from .sources import table\n",
    "data/sources/table.py": "from . import origin\nfrom conspectus.data import schema\n",
    "curator/curator.py": "from ..privacy import noise\nfrom ..data.sources import Table\n",
    "releases/run.py": "from conspectus.privacy.noise import SystemSampler\n",
    "releases/release.py": "from conspectus.privacy.noise import SystemSampler\n",
    "privacy/noise.py": "import secrets\nimport random\n",
    # circles, and imports inside functions
    "synopses/rows.py": "from . import histogram\n",
    "synopses/histogram.py": "def f():\n    from .rows import Rows\n",
    "synopses/files.py": "from .noisy import x\n",
    "synopses/noisy.py": "if TYPE_CHECKING:\n    from .files import y\nelse:\n    import random\n",
    "cli/app.py": "def f():\n    from conspectus.releases import run\n    import conspectus as cs\n",
    # what nobody may do
    "queries/kernels.py": "import numpy as np\nx = np.random.default_rng(3)\n",
    "queries/seeded.py": "import numpy as np\ndef f(public_seed): return np.random.PCG64(public_seed)\n",
    "synopses/dense.py": "import pickle\n",
    "mechanisms/careless.py": "try:\n    eval('1')\nexcept (ValueError, Exception):\n    pass\n",
    "cli/loud.py": "print('a label')\ninput('a label')\n",
    "cli/louder.py": "import sys\ntyper.confirm('a label')\nsys.stdout.write('a label')\n",
    "data/linked.py": "from pathlib import Path\nx = Path('a').resolve()\n",
    "mechanisms/lucky.py": "import random\nfrom numpy.random import default_rng\n",
    # names and sizes
    "data/utils.py": "",
    "data/long.py": "\n" * 401,
    "report/rows.py": "",
    "mechanisms/boosting/parameters.py": "",
    "mechanisms/online/parameters.py": "",
    **{f"audit/a{number}.py": "" for number in range(25)},
}
EXPECTED = {
    "privacy.prices: may not import queries.query",
    "queries.query: may not import data.schema.Schema",
    "queries.workload: may not import counting.counters",
    "queries.blocks.marginal: may not import queries.builders.marginals.marginals",
    "queries.blocks.parity_list: may not import queries.workload.Workload",
    "queries.builders.marginals: may not import queries.language.from_sql",
    "mechanisms.boosting.rounds: may not import mechanisms.dual_query.game.play",
    "mechanisms.iterative: may not import mechanisms.online.loop",
    "releases.planning: may not import sessions.session",
    "attic: a room that the table does not show",
    "mechanisms.greedy: may not import data.sources",
    "mechanisms.greedy: data.sources is sealed",
    "mechanisms.hungry: privacy.noise.X is sealed",
    "data.draft: may not import data.sources.table",
    "data.draft: data.sources.table is sealed",
    "releases.release: privacy.noise.SystemSampler is sealed",
    "synopses.histogram -> synopses.rows -> synopses.histogram: imports in a circle",
    "synopses.histogram: imports synopses.rows.Rows inside a function",
    "queries.kernels: np.random without a public seed",
    "synopses.noisy: imports random",
    "synopses.dense: imports pickle",
    "mechanisms.careless: calls eval",
    "mechanisms.careless: catches everything",
    "cli.loud: calls print by itself: a label would steer the terminal",
    "cli.loud: calls input by itself: a label would steer the terminal",
    "cli.louder: lets typer speak: a label would steer the terminal",
    "cli.louder: writes to a stream by itself: a label would steer the terminal",
    "data.linked: resolves a path by itself: real_path refuses what leads nowhere",
    "mechanisms.lucky: imports random",
    "privacy.noise: imports random",
    "mechanisms.curious: may not import data.schema.Schema",
    "mechanisms.lucky: imports numpy.random.default_rng",
    "data.utils: a name that says nothing",
    "data.long: 401 lines",
    "synopses.rows: another module has this name",
    "report.rows: another module has this name",
    "audit: 25 files",
}


def test_a_broken_house_is_caught(tmp_path: Path) -> None:
    for file, text in BROKEN.items():
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert set(complaints(tmp_path)) == EXPECTED


def test_circles_are_found_wherever_they_are() -> None:
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "e"}, "f": {"d"}}
    assert circles(edges) == [["b", "c", "b"], ["e", "e"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


def test_the_table_is_the_one_of_the_documents() -> None:
    assert f"```text{DIRECTIONS}```" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", [*SEALED, *KEYHOLDERS, *CATCH_ALL, *ALLOWED])
def test_places_are_where_the_rules_think(place: str) -> None:
    path = SOURCE / place.replace(".", "/")
    assert path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_every_name_of_the_table_exists() -> None:
    names = {name for names in ALLOWED.values() for name in names} - {"conspectus"}
    paths = {name: SOURCE / name.replace(".", "/") for name in names}
    assert [name for name, path in paths.items() if not path.is_dir() and not path.with_suffix(".py").is_file()] == []

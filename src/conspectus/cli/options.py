"""What several commands ask for: the table, the workload, the budget. Each room checks its own values."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import conspectus as cs
from conspectus.suggestions import did_you_mean

if TYPE_CHECKING:
    from conspectus.data.schema import Schema
    from conspectus.queries.workload import Workload


class OptionError(ValueError):
    """An option whose text does not say what it should."""


RECORD = "record"
"""What the one column of a table without a schema is called."""

BUDGET = "Budget"
_of_table = functools.partial(typer.Option, rich_help_panel="Table")
_of_workload = functools.partial(typer.Option, rich_help_panel="Workload (repeatable, added up)")
_of_budget = functools.partial(typer.Option, rich_help_panel=BUDGET)

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .csv, .csv.gz or .parquet file, a folder or pattern of them, a SELECT over one, or "
        "postgresql://user@host/database?table=NAME.",
    ),
]
Stored = Annotated[Path, typer.Argument(metavar="OUT", help="A release, as `conspectus release` saved it.")]
SchemaFile = Annotated[Path, _of_table("--schema", metavar="S", help="The schema file (TOML).")]
SchemaOrRecords = Annotated[
    Path | None,
    _of_table(
        "--schema",
        metavar="S",
        help="The schema file (TOML); without it rows are records, for a --workload of cs.sparse.",
    ),
]
SchemaToo = Annotated[Path | None, _of_table("--schema", metavar="S", help="The schema file (TOML).")]
Marginals = Annotated[list[int] | None, _of_workload("--marginals", metavar="K", help="Every marginal of K columns.")]
Marginal = Annotated[list[str] | None, _of_workload("--marginal", metavar="COLUMNS", help="One marginal: sex,age.")]
Columns = Annotated[
    str | None, _of_workload("--columns", metavar="COLUMNS", help="The columns of --marginals; else all.")
]
Ranges = Annotated[
    list[str] | None, _of_workload("--ranges", metavar="COLUMN", help="All intervals of an ordered column.")
]
Prefixes = Annotated[
    list[str] | None, _of_workload("--prefixes", metavar="COLUMN", help="All values up to each bin of it.")
]
Means = Annotated[
    list[str] | None, _of_workload("--means", metavar="COLUMN[:BY,BY]", help="Its mean, in each group: income:sex,age.")
]
Parities = Annotated[
    list[int] | None, _of_workload("--parities", metavar="K", help="Parities of K two-valued columns.")
]
SqlFiles = Annotated[
    list[Path] | None, _of_workload("--sql", metavar="FILE", help="SQL predicates, one a line; # comments.")
]
RandomConjunctions = Annotated[
    list[str] | None,
    _of_workload(
        "--random-conjunctions",
        metavar="K:COUNT:SEED",
        help="COUNT random conjunctions of K literals; K:COUNT:SEED:negations mixes = and <>.",
    ),
]
WorkloadFiles = Annotated[list[Path] | None, _of_workload("--workload", metavar="FILE.json", help="A saved workload.")]
Epsilon = Annotated[float | None, _of_budget("--epsilon", metavar="E", help="Privacy loss ε.")]
Delta = Annotated[float, _of_budget("--delta", metavar="D", help="Failure probability δ; 0 is pure.")]
Rho = Annotated[float | None, _of_budget("--rho", metavar="R", help="Concentrated ρ, in place of ε.")]
Neighbours = Annotated[
    str | None,
    _of_budget(
        "--neighbours",
        metavar="replace|add-remove",
        help="What one unit may change; the schema's relation, else replace.",
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="max|mean",
        help="Which expected error the plan compares; the mean one for whole marginals, else the largest.",
    ),
]
StudyName = Annotated[str, typer.Option("--study", metavar="NAME", help="Under a ledger: the study that it is for.")]
AskedBy = Annotated[str, typer.Option("--by", metavar="WHO", help="Under a ledger: who asks, for its lines.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="name=value", help="A setting of the mechanism; repeatable.")
]
Confidence = Annotated[float, typer.Option("--confidence", metavar="C", help="Of the intervals.")]
Snap = Annotated[bool, typer.Option("--snap", help="Widen a comparison that cuts a bin to whole bins.")]
SessionData = Annotated[
    str | None, typer.Option("--data", metavar="DATA", help="The session's table, as it was opened with.")
]
SessionLedger = Annotated[
    str | None, typer.Option("--ledger", metavar="L", help="The session's ledger, unless it is its own, beside FILE.")
]
TableLedger = Annotated[str | None, typer.Option("--ledger", metavar="L", help="The ledger of this table.")]
DeclaredRows = Annotated[
    int | None, typer.Option("--rows", metavar="N", min=1, help="Declares the number of rows where it is private.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read, and no progress.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The workload options of a command, as typed."""

    marginals: Marginals = None
    columns: Columns = None
    marginal: Marginal = None
    ranges: Ranges = None
    prefixes: Prefixes = None
    means: Means = None
    parities: Parities = None
    sql: SqlFiles = None
    random_conjunctions: RandomConjunctions = None
    stored: WorkloadFiles = None

    @property
    def given(self) -> bool:
        """Whether any was typed."""
        return any(getattr(self, field.name) is not None for field in fields(self))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that they name."""
        return (*(self.sql or ()), *(self.stored or ()))

    def schema(self, path: Path | None) -> Schema:
        """The schema of this file; without one the rows are records of any kind, which a saved workload names."""
        if path is not None:
            return cs.Schema.load(path)
        others = [getattr(self, field.name) for field in fields(self) if field.name != "stored"]
        if not self.files or any(others):
            raise OptionError(
                "--schema is missing: conspectus schema draft DATA writes a first one; without a schema the rows are "
                "records of any kind, and only a --workload FILE.json that cs.sparse made can ask about them"
            )
        return cs.Schema.from_dict({"name": "records", "columns": {RECORD: {"type": "record"}}})

    def workload(self, schema: Schema) -> Workload:
        """Everything that was asked for, added up in the order in which the kinds stand in the help."""
        if self.columns is not None and not self.marginals:
            raise OptionError("--columns says of which columns --marginals K are: give that, too")
        chosen = None if self.columns is None else columns_of(self.columns)
        parts: list[Workload] = [
            *(cs.marginals(schema, k, chosen) for k in self.marginals or ()),
            *(cs.marginal(schema, columns_of(text)) for text in self.marginal or ()),
            *(cs.ranges(schema, name) for name in self.ranges or ()),
            *(cs.prefixes(schema, name) for name in self.prefixes or ()),
            *(_means(schema, text) for text in self.means or ()),
            *(cs.parities(schema, k) for k in self.parities or ()),
            *(_predicates(schema, path) for path in self.sql or ()),
            *(_random(schema, text) for text in self.random_conjunctions or ()),
            *(_saved(schema, path) for path in self.stored or ()),
        ]
        if not parts:
            raise OptionError("name at least one question: --marginals 2, --marginal sex,age, --sql FILE, …")
        total = sum(parts[1:], parts[0])
        if not len(total):
            raise OptionError("the workload holds no query: ask at least one")
        return total


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The budget options of a command, as typed."""

    epsilon: Epsilon = None
    delta: Delta = 0.0
    rho: Rho = None
    neighbours: Neighbours = None

    @property
    def budget(self) -> dict[str, Any]:
        """The budget alone, as keywords."""
        return {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command as the parser wants it: a parameter that is a group of options gives way to the options in it."""
    hints = get_type_hints(command, include_extras=True)
    single: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if hints[name] not in (Questions, Spending):
            single.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))
            continue
        groups[name] = hints[name]
        kinds = get_type_hints(hints[name], include_extras=True)
        for field in fields(hints[name]):
            facts: dict[str, Any] = {"default": field.default, "annotation": kinds[field.name]}
            single.append(inspect.Parameter(field.name, parameter.KEYWORD_ONLY, **facts))

    @functools.wraps(command)
    def spread(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    spread.__signature__ = inspect.Signature(single)  # type: ignore[attr-defined]
    spread.__annotations__ = {parameter.name: parameter.annotation for parameter in single}
    del spread.__dict__["__wrapped__"]  # the parser would look through it, at the groups
    return spread


def columns_of(text: str) -> list[str]:
    """Column names: sex,age, or a JSON list where a name holds a comma."""
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise OptionError(
                'columns are names with commas between them, or a JSON list such as ["sex", "age, binned"]'
            )
        return names
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise OptionError("name at least one column, as in sex,age")
    return names


def check_mechanism(name: str, known: Sequence[str], others: Container[str], *, command: str) -> None:
    """Refuse a name that is misspelt, or is one of those that another command takes: no mechanism was asked yet."""
    if name not in known:
        right = f": conspectus {command} takes it" if name in others else did_you_mean(name, known)
        raise OptionError(f'no mechanism is called "{name}"{right}; there are {", ".join(known)}')


def settings_of(pairs: Sequence[str]) -> dict[str, Any]:
    """--set name=value: an integer, a number, true or false, or else a text."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise OptionError(f"--set takes name=value, as in --set rounds=20, not {pair!r}")
        settings[name.strip()] = _value(value.strip())
    return settings


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    readers: tuple[Callable[[str], Any], ...] = (int, float)
    for read in readers:
        try:
            return read(text)
        except ValueError:
            continue
    return text


def _predicates(schema: Schema, path: Path) -> Workload:
    """One predicate a line; an error names its line."""
    lines = [(n, line.strip()) for n, line in enumerate(text_of(path).splitlines(), 1)]
    asked = [(n, line) for n, line in lines if line and not line.startswith("#")]
    try:
        return cs.sql(schema, [line for _, line in asked])
    except (ValueError, LookupError):
        for n, line in asked:
            try:
                cs.sql(schema, [line])
            except (ValueError, LookupError) as problem:
                raise OptionError(f"{path.name}, line {n}: {problem}") from problem
        raise


def _means(schema: Schema, text: str) -> Workload:
    """COLUMN, or COLUMN:BY,BY; a name that holds a colon is taken whole where the schema has it."""
    if text in schema.domain.names:
        return cs.means(schema, text)
    column, _, by = text.rpartition(":")
    if not column:
        return cs.means(schema, text)
    return cs.means(schema, column, columns_of(by))


def _random(schema: Schema, text: str) -> Workload:
    parts = text.split(":")
    negations = parts[3:] == ["negations"]
    try:
        k, count, seed = (int(part) for part in (parts[:3] if negations else parts))
    except ValueError:
        raise OptionError(f"--random-conjunctions takes K:COUNT:SEED, as in 3:1000:7, not {text!r}") from None
    return cs.random_conjunctions(schema, k, count=count, public_seed=seed, negations=negations)


def _saved(schema: Schema, path: Path) -> Workload:
    from conspectus.queries.builders.sparse import for_records

    try:
        stored = json.loads(text_of(path))
    except (ValueError, RecursionError):  # a number of thousands of digits is no JSON error
        raise OptionError(f"{path.name} is not JSON: save a workload with workload.save(path)") from None
    workload = for_records(cs.Workload.from_json(stored), schema.domain)
    if workload.domain != schema.domain:
        raise OptionError(f"{path.name} was built from another schema: build it from the schema of this table")
    return workload


def text_of(path: Path) -> str:
    """A small text file, or a sentence about why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise OptionError(f"{path} cannot be read ({problem.strerror}): check the path") from None
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not UTF-8 text: save it as UTF-8") from None

"""What the owner of a table declares before anyone looks at it: columns, values, bins, missing, the unit of privacy.

The schema is public, and published with every release. Nothing in it may be computed from the rows. Where an owner
starts from a draft that was, the key `draft` says so, and every release carries a warning.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from conspectus.data.columns.kinds import Boolean, Categorical, Column, SchemaError, check_keys, columns_from
from conspectus.data.columns.values import Nulls, text_of
from conspectus.suggestions import did_you_mean, suggest_keywords
from conspectus.whole_numbers import MOST, whole

from .domain import Codes, Domain

RELATIONS = ("replace", "add-remove")
NULL_VALUES = 'null_values is a list of texts, as in null_values = ["?", "NA"]'
_NOUNS = 'nouns are two words, for one row and for many, as in nouns = ["patient", "patients"]'
_KEYS = ("name", "nouns", "neighbours", "null_values", "unit", "columns", "draft", "items", "items_file")
_MOST_NAMED = 12
_UNIT_KEYS = ("kind", "column", "max_rows", "item", "users")
MOST_USERS = 2_000_000_000
"""Users of pairs have numbers of 32 bits, and those without pairs are counted, too: so many take half a minute."""


@dataclass(frozen=True)
class Unit:
    """Whom the guarantee protects.

    One row; or all rows of one id, of which at most `max_rows` are kept; or one user of a table of pairs, whose pairs
    (`column`, `item`) become one row with a two-valued column for each item. `users` is their declared number.
    """

    kind: Literal["row", "id", "pairs"] = "row"
    column: str | None = None
    max_rows: int = 1
    item: str | None = None
    users: int | None = None

    def __post_init__(self) -> None:
        pairs, two = self.kind == "pairs", _named(self.column) and _named(self.item) and self.column != self.item
        _refuse(
            (self.kind not in ("row", "id", "pairs"), f'kind "{self.kind}" is not known: write "row", "id" or "pairs"'),
            (not whole(self.max_rows), f"max_rows is a positive integer, at most {MOST:,}, as in max_rows = 3"),
            (
                self.kind == "row" and (self.column is not None or self.max_rows != 1),
                'column and max_rows go with kind = "id": write that, or leave them out',
            ),
            (
                self.kind == "id" and not _named(self.column),
                'kind = "id" needs the name of the id column, as in column = "patient_id"',
            ),
            (
                not pairs and (self.item is not None or self.users is not None),
                'item and users go with kind = "pairs": write that, or leave them out',
            ),
            (pairs and not two, 'kind = "pairs" needs two columns, as in column = "user" and item = "item"'),
            (pairs and self.max_rows != 1, "a user's pairs become one row: leave max_rows out"),
            (
                self.users is not None and not whole(self.users, most=MOST_USERS),
                f"users is the number of users, a positive integer, at most {MOST_USERS:,}, or left out",
            ),
            where="unit: ",
        )

    @property
    def one_row_per_unit(self) -> bool:
        """Whether every unit is exactly one row, unless rows are left out. A user without pairs is a row only where the
        number of users is declared."""
        return self.kind == "row" or self.users is not None

    def __str__(self) -> str:
        if self.kind == "row":
            return "row"
        if self.kind == "pairs":
            return f"{self.column} (all pairs)"
        return f"{self.column} (at most {self.max_rows} row{'s' if self.max_rows > 1 else ''} each)"

    def to_dict(self) -> dict[str, Any]:
        """The unit as JSON."""
        pairs = {"item": self.item, "users": self.users} if self.kind == "pairs" else {}
        return {"kind": self.kind, "column": self.column, "max_rows": self.max_rows, **pairs}


def _named(column: object) -> bool:
    return isinstance(column, str) and bool(column.strip())


def _two_nouns(nouns: object) -> bool:
    return isinstance(nouns, tuple) and len(nouns) == 2 and all(_named(noun) and len(noun) <= 40 for noun in nouns)


def _refuse(*rules: tuple[bool, str], where: str = "") -> None:
    """Raise the first sentence that applies."""
    for applies, sentence in rules:
        if applies:
            raise SchemaError(f"{where}{sentence}")


@suggest_keywords
@dataclass(frozen=True, repr=False)
class Schema:
    """The declaration of one table: its columns with their values, the unit of privacy, what counts as missing.

    A schema is public and published with every release. Nothing in it may be computed from the rows.

    Args:
        name: what the table is called.
        columns: its columns. The codes of rows follow their order.
        unit: whom the guarantee protects: a row, or all rows of an id, or a user of a table of pairs.
        neighbours: "replace" or "add-remove", the relation that releases take by default; None for "replace".
        null_values: texts that are read as missing, in every column.
        draft: whether values come from the data. Every release then carries a warning.
        nouns: what pages call one row, and many of them; no words for "row" and "rows".

    Raises:
        SchemaError: what is declared contradicts itself, with the column and what to write instead.

    Example:
        >>> [column.name for column in schema.columns]
        ['sex', 'age', 'smoker', 'diagnosis']
    """

    name: str
    columns: tuple[Column, ...]
    unit: Unit = Unit()
    neighbours: Literal["replace", "add-remove"] | None = None
    null_values: tuple[str, ...] = ()
    draft: bool = False
    nouns: tuple[str, str] | tuple[()] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "null_values", tuple(self.null_values))
        _refuse(
            (not _named(self.name), 'name is a text that is not empty, as in name = "adult"'),
            (not self.columns, "a schema needs at least one column, as in [columns.sex]"),
            (
                self.neighbours not in (None, *RELATIONS),
                f'neighbours "{self.neighbours}" is not known: write "replace" or "add-remove"',
            ),
            (not all(isinstance(value, str) for value in self.null_values), NULL_VALUES),
            (not isinstance(self.draft, bool), "draft is true, or the line is not there"),
            (self.nouns != () and not _two_nouns(self.nouns), _NOUNS),
            (
                self.unit.kind == "pairs" and not all(type(c) is Boolean and c.size == 2 for c in self.columns),
                'unit: kind = "pairs" needs columns of type boolean without missing, one for each item',
            ),
        )
        seen: dict[str, str] = {}
        for column in self.columns:
            if (key := column.name.casefold()) in seen:
                raise SchemaError(f'columns "{seen[key]}" and "{column.name}" differ by case at most: rename one')
            seen[key] = column.name
            if isinstance(column, Categorical):
                for label, value in zip(column.labels, column.values):
                    if self.nulls_of(column).match(value):
                        raise SchemaError(
                            f'column "{column.name}": "{label}" is listed in values and in null_values: leave one out'
                        )

    def __repr__(self) -> str:
        named = ", ".join(column.name for column in self.columns[:_MOST_NAMED])
        more = len(self.columns) - _MOST_NAMED
        return f'<Schema "{self.name}": {named}{f" and {more:,} more" if more > 0 else ""}>'

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema file (TOML).

        Args:
            path: the file. The name of the table is that of the file, unless the file says otherwise.

        Returns:
            The schema.

        Raises:
            SchemaError: what is wrong, with the file, the column and what to write instead.

        Example:
            >>> from pathlib import Path
            >>> _ = Path("people.toml").write_text("[columns.smoker]\\ntype = 'boolean'\\n")
            >>> cs.Schema.load("people.toml").name
            'people'
        """
        path = Path(path)
        try:
            declared = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except OSError as problem:
            raise SchemaError(f"{path.name}: the schema file cannot be read ({problem.strerror})") from None
        except UnicodeDecodeError:
            raise SchemaError(f"{path.name}: the schema file is not UTF-8 text: save it as UTF-8") from None
        except ValueError as problem:
            why = problem if isinstance(problem, tomllib.TOMLDecodeError) else "a number has thousands of digits"
            raise SchemaError(f"{path.name}: the schema file is not TOML: {why}") from None
        try:
            return cls.from_dict({"name": path.stem, **declared}, folder=path.parent)
        except SchemaError as problem:
            raise SchemaError(f"{path.name}: {problem}") from None

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any], *, folder: Path | None = None) -> Schema:
        """A schema from `to_dict`, or from the tables of a schema file.

        Args:
            declared: the keys of a schema file: name, columns, unit and so on.
            folder: where a `values_file` or an `items_file` is looked for.

        Returns:
            The schema.

        Raises:
            SchemaError: what is wrong, with the column and what to write instead.

        Example:
            >>> cs.Schema.from_dict({"columns": {"age": {"type": "integer", "min": 0, "max": 99}}}).domain.sizes
            (100,)
        """
        if not isinstance(declared, Mapping):
            raise SchemaError("a schema is a table of name, columns and unit")
        check_keys(declared, _KEYS, "a schema", SchemaError)
        columns = declared.get("columns", {})
        if isinstance(columns, Mapping):
            named = list(columns.items())
        elif isinstance(columns, Sequence) and all(isinstance(c, Mapping) and "name" in c for c in columns):
            named = [(column["name"], column) for column in columns]
        else:
            raise SchemaError("columns are tables, as in [columns.sex]")
        if "items" in declared or "items_file" in declared:
            if named:
                raise SchemaError("items and columns do not go together: each item is a column")
            named = [(item, {"type": "boolean"}) for item in _items(declared, folder)]
        nulls, nouns = declared.get("null_values", ()), declared.get("nouns", ())
        if isinstance(nulls, str) or not isinstance(nulls, Sequence):
            raise SchemaError(NULL_VALUES)
        return cls(
            declared.get("name", "table"),
            columns_from((name, _inline(name, column, folder)) for name, column in named),
            _unit(declared.get("unit", {})),
            declared.get("neighbours"),
            tuple(nulls),
            declared.get("draft", False),
            tuple(nouns) if isinstance(nouns, list) else nouns,
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole schema as JSON, with listed values in place of files.

        Returns:
            A dictionary that `from_dict` reads.

        Example:
            >>> cs.Schema.from_dict(schema.to_dict()) == schema
            True
        """
        return {
            "name": self.name,
            "neighbours": self.neighbours,
            "null_values": list(self.null_values),
            "unit": self.unit.to_dict(),
            "draft": self.draft,
            "columns": [column.to_dict() for column in self.columns],
        } | ({"nouns": list(self.nouns)} if self.nouns else {})

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON: two schemas are the same declaration, but for nouns, when these are equal."""
        told = {key: value for key, value in self.to_dict().items() if key != "nouns"}
        text = json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def domain(self) -> Domain:
        """The names of the columns, and how many codes each has."""
        return Domain(tuple(column.name for column in self.columns), tuple(column.size for column in self.columns))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {column.name: position for position, column in enumerate(self.columns)}

    @cached_property
    def nulls(self) -> Nulls:
        """The texts that are read as missing in every column."""
        return Nulls(self.null_values)

    def nulls_of(self, column: Column) -> Nulls:
        """The texts that are read as missing in one column.

        Args:
            column: one of the schema's columns.

        Returns:
            Those of every column, and those of its own.
        """
        if not column.null_values:
            return self.nulls
        return self._own_nulls.setdefault(column.name, Nulls((*self.null_values, *column.null_values)))

    @cached_property
    def _own_nulls(self) -> dict[str, Nulls]:
        return {}

    def column(self, name: str) -> Column:
        """The column of this name.

        Args:
            name: the name, as it is written in the schema.

        Returns:
            The column.

        Raises:
            LookupError: there is no such column, with the nearest name.

        Example:
            >>> schema.column("diagnosis").labels
            ('none', 'heart', 'lung')
        """
        if isinstance(name, str) and (position := self._positions.get(name)) is not None:
            return self.columns[position]
        names = [column.name for column in self.columns]
        few = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        cure = did_you_mean(str(name), names) or f": it has {few}"
        raise LookupError(f'the schema "{self.name}" has no column "{name}"{cure}')

    def encode(self, position: int, values: pa.Array | pa.ChunkedArray) -> Codes:
        """The codes of raw values of one column. A value that the schema does not know has a code, too.

        Args:
            position: which column, from 0 on.
            values: the raw values, of any Arrow type.

        Returns:
            An array with one code for each value.

        Example:
            >>> import pyarrow as pa
            >>> schema.encode(0, pa.array(["male", "female", None, "other"])).tolist()
            [1, 0, 0, 0]
        """
        return self.columns[position].encode(values, nulls=self.nulls_of(self.columns[position]))


def _unit(declared: Any) -> Unit:
    if not isinstance(declared, Mapping):
        raise SchemaError('unit is a table, as in [unit] with kind = "row"')
    check_keys(declared, _UNIT_KEYS, "a unit", lambda problem: SchemaError(f"unit: {problem}"))
    entries = {key: value for key, value in declared.items() if value is not None}
    if entries.get("kind") == "id" and "max_rows" not in entries:
        raise SchemaError('unit: kind = "id" needs the most rows that one id may have, as in max_rows = 3')
    return Unit(**entries)


def _items(declared: Mapping[str, Any], folder: Path | None) -> list[str]:
    """The items of a table of pairs: listed, or one a line in a file beside the schema file."""
    if "items_file" in declared:
        if "items" in declared:
            raise SchemaError("items and items_file do not go together: leave one out")
        return _lines("items_file", declared["items_file"], folder)
    items = declared["items"]
    if isinstance(items, str) or not isinstance(items, Sequence):
        raise SchemaError('items is a list, as in items = ["a", "b"]')
    return [text for text in map(text_of, items) if text is not None]


def _lines(key: str, file: Any, folder: Path | None) -> list[str]:
    """The lines of a file beside the schema file that are not empty."""
    if not isinstance(file, str) or folder is None:
        raise SchemaError(f"{key} is the name of a file beside the schema file")
    try:
        lines = (folder / file).read_text(encoding="utf-8-sig").splitlines()
    except OSError as problem:
        raise SchemaError(f'{key} "{file}" cannot be read ({problem.strerror})') from None
    except UnicodeDecodeError:
        raise SchemaError(f'{key} "{file}" is not UTF-8 text: save it as UTF-8') from None
    return [line.strip() for line in lines if line.strip()]


def _inline(name: str, declared: Any, folder: Path | None) -> Any:
    """The declaration with the lines of its `values_file` as its values."""
    if not isinstance(declared, Mapping) or "values_file" not in declared or declared.get("type") != "categorical":
        return declared
    rest = {key: value for key, value in declared.items() if key != "values_file"}
    if "values" in rest:
        raise SchemaError(f'column "{name}": values and values_file do not go together: leave one out')
    try:
        return {**rest, "values": _lines("values_file", declared["values_file"], folder)}
    except SchemaError as problem:
        raise SchemaError(f'column "{name}": {problem}') from None

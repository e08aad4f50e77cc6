"""Names of columns as they are written: `people.age` is `age`, and a name that has other signs needs quotes.

Without quotes `hours-per-week` is a difference of three columns, and `hours.per.week` a column of another table. Nobody
means that where the schema has a column of this name, so it is said.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlglot import exp

from conspectus.data.schema import Schema
from conspectus.queries.builders.arguments import position
from conspectus.queries.sensitivity import WorkloadError

_SIGNS: dict[type[exp.Expression], str] = {exp.Sub: "-", exp.Add: "+", exp.Div: "/", exp.Mul: "*", exp.Mod: "%"}
_MOST_PARTS = 12


def unqualified(
    schema: Schema,
    tree: exp.Expression,
    refusal: type[WorkloadError],
    *,
    alias: str = "",
    names: Collection[str] = (),
) -> exp.Expression:
    """The same expression with the names of its columns alone, without that of the table before them.

    Args:
        schema: The declaration of the table, whose name may stand before a column.
        tree: What was read. It is changed.
        refusal: What is raised.
        alias: Another name of the table, as FROM gives it.
        names: Names that a SELECT gives.

    Raises:
        WorkloadError: A column of another table is named, or a name needs quotes; it is of the type `refusal`.
    """
    tables = {schema.name.casefold(), alias.casefold()} - {""}
    columns = {name.casefold(): name for name in schema.domain.names}
    for node in tree.walk():
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.table:
            _unqualify(schema, node, tables, columns, refusal)
        elif type(node) in _SIGNS:
            name = columns.get((_spelled(node) or "").casefold())
            known = {*columns, *(name.casefold() for name in names)}
            if name is not None and not all(one.name.casefold() in known for one in node.find_all(exp.Column)):
                raise refusal(
                    f"{name} is the name of a column, and is read as arithmetic without quotes: "
                    f'write "{name}", in double quotes'
                )
    return tree


def _unqualify(
    schema: Schema, node: exp.Column, tables: set[str], columns: dict[str, str], refusal: type[WorkloadError]
) -> None:
    whole = ".".join(part.name for part in node.parts)
    if node.table.casefold() in tables and not node.args.get("db"):
        if node.name.casefold() not in columns:
            position(schema, node.name)  # refused: what is written after a table is a column of it
        node.set("table", None)
        return
    if whole.casefold() in columns:
        name = columns[whole.casefold()]
        raise refusal(f'{name} is the name of a column, and has a dot: write "{name}", in double quotes')
    before = whole.rpartition(".")[0]
    raise refusal(
        f'"{before[:60]}" in {whole[:60]} is not the table that this is about, "{schema.name}": '
        f'write the column alone, as in "{node.name[:60]}"'
    )


def _spelled(node: exp.Expression, parts: int = _MOST_PARTS) -> str | None:
    """An expression of names and numbers as it was written, without spaces; None for any other."""
    if isinstance(node, exp.Column) and all(
        isinstance(part, exp.Identifier) and not part.args.get("quoted") for part in node.parts
    ):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Literal) and not node.is_string:
        return str(node.name)
    if type(node) not in _SIGNS or parts <= 1:
        return None
    left, right = _spelled(node.this, parts - 1), _spelled(node.expression, 1)
    return None if left is None or right is None else left + _SIGNS[type(node)] + right


def in_quotes(schema: Schema, text: str) -> str:
    """What to add to a refusal of a text in which a name with spaces or signs stands without quotes; often nothing."""
    for name in schema.domain.names:
        plain = re.fullmatch(r"\w+", name)
        if plain is None and re.search(rf"(?<![\w\"']){re.escape(name)}(?![\w\"'])", text, re.IGNORECASE):
            return f' ("{name}" needs its double quotes)'
    return ""

"""A SELECT to a plan of groups and measures.

Read are SELECT, FROM one table, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET. What cannot be answered is refused
with the reason and the nearest thing that can (`unanswerable`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from sqlglot import exp

from conspectus.data.schema import Schema
from conspectus.queries.formulas import all_of, under_one_limit

from .bounded_parser import LONGEST_TEXT, NestedTooDeeply, Unreadable, statements, written
from .from_sql import Reader, bare
from .grouping import key_of, named_key
from .line_reader import LineReader
from .measures import MeasureReader, is_aggregate, label_of
from .plain_names import in_quotes, unqualified
from .scaled import NumberReader
from .select_plan import Output, Select, by_numbers, ends_of
from .unanswerable import SERVED, CannotQuery, cannot
from .understood import check_understood

MOST_GROUPS = 100_000
_EXAMPLE = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
_CLAUSES = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset"}
_CLAUSES |= {"from"}  # the name of the same part in older versions of the parser
_REFUSED_PARTS = {
    "with": "cte",
    "with_": "cte",
    "distinct": "distinct_rows",
    "joins": "join",
    "laterals": "join",
    "qualify": "qualify",
    "sample": "sample",
}
_GROUPINGS = ("grouping_sets", "rollup", "cube", "all", "totals")


_FIRST = re.compile(r"(select|with|from)(?!\w)", re.IGNORECASE)
_BEFORE = re.compile(r"[\s;(]+|--[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/")
"""What may stand before the first word of a statement. Each of it ends in one place alone: one pass is enough."""


def is_select(text: str) -> bool:
    """Whether a text is meant as a SELECT, and not as a predicate, by its first word."""
    at = 0
    while (passed := _BEFORE.match(text, at)) is not None:
        at = passed.end()
    return _FIRST.match(text, at) is not None


def read_select(schema: Schema, text: str, *, snap: bool = False) -> Select:
    """The plan of a SELECT.

    Args:
        schema: The declaration of the table.
        text: The SELECT.
        snap: Whether a comparison that cuts a bin is widened to the whole bin. It is refused otherwise.

    Raises:
        CannotQuery: It cannot be answered; the message says why and what can.
        NotAPredicate: Its WHERE, or another condition in it, is not one that is served.
    """
    if not isinstance(text, str):
        raise CannotQuery(f"a query is a SELECT as a text, as in {_EXAMPLE}, not a {type(text).__name__}")
    if not text.strip():
        raise CannotQuery(f"the query is empty: write one, as in {_EXAMPLE}")
    if len(text) > LONGEST_TEXT:
        raise CannotQuery(f"the query is longer than {LONGEST_TEXT:,} characters: split it")
    try:
        with under_one_limit():
            return _Selection(schema, _tree(schema, text), snap).plan()
    except (NestedTooDeeply, RecursionError) as problem:
        raise CannotQuery("the query is nested too deeply: write it with fewer parentheses and functions") from problem
    except Unreadable as problem:
        raise CannotQuery(f"a function of it is beyond what is answered: {SERVED}") from problem


def _tree(schema: Schema, text: str) -> exp.Select:
    try:
        trees = statements(text)
    except Unreadable as problem:
        raise CannotQuery(
            f"this is not a SELECT that can be read{in_quotes(schema, text)}: write one, as in {_EXAMPLE}"
        ) from problem
    if len(trees) != 1:
        raise cannot("several")
    (tree,) = trees
    if isinstance(tree, exp.SetOperation):
        raise cannot("set")
    if not isinstance(tree, exp.Select):
        if isinstance(tree, exp.Condition | exp.Column):
            raise CannotQuery("this is a condition and no SELECT: ask(…) answers it, or SELECT COUNT(*) … WHERE")
        raise cannot("write")
    return tree


class _Selection:
    """Reads one SELECT."""

    def __init__(self, schema: Schema, tree: exp.Select, snap: bool) -> None:
        self.schema, self.tree = schema, tree
        self.reader = Reader(schema, snap)
        self.lines = LineReader(self.reader, NumberReader(MeasureReader(schema, self.reader)))

    def plan(self) -> Select:
        self._check_clauses()
        where = self.tree.args.get("where")
        rows = True if where is None else self.reader.rows(where.this)
        for item in self.tree.expressions:
            if isinstance(item, exp.Alias):
                self.lines.name(item.alias, item.this)
        for node in self._grouped():
            if self.lines.key_at(node) is None:
                self.lines.group(node, key_of(self.schema, self.reader, node, self.lines.alias_of(node)))
        outputs = [self._output(item) for item in self.tree.expressions]
        if all(output.measure is None for output in outputs):
            raise (
                CannotQuery("only groups are selected, and their rows are not counted: add COUNT(*)")
                if self.lines.keys
                else cannot("star")
            )
        having = self.tree.args.get("having")
        kept = None if having is None else self.lines.condition(having.this)
        order = self.tree.args.get("order")
        ordered = tuple(self._ordering(one) for one in order.expressions) if order is not None else ()
        if having is not None and self.tree.find(exp.Window):
            raise CannotQuery("a window sums the lines that HAVING leaves: write SHARE(*) for the share in all rows")
        check_understood(self.tree)
        keys = tuple(self.lines.keys)
        size = Select(keys, rows, (), ()).size
        if size > MOST_GROUPS:
            raise CannotQuery(
                f"{size:,} groups are more than {MOST_GROUPS:,}, which are served: group by fewer columns"
            )
        notes = list(self.reader.caveats)
        notes += [f"widened to whole bins: {said} is answered as {it}" for said, it in self.reader.widened.items()]
        cut = ordered if {"limit", "offset"} & {part for part, value in self.tree.args.items() if value} else ()
        if any(by_numbers(one) for one in (kept, *(expression for expression, _ in cut))):
            notes.append("each interval is for its own number: which lines are shown was chosen by noisy numbers")
        return Select(
            keys,
            all_of(self.schema.domain, [rows]),
            tuple(self.lines.measures),
            tuple(_unique(outputs)),
            kept,
            ordered,
            self._number("limit"),
            self._number("offset") or 0,
            tuple(notes),
        )

    def _check_clauses(self) -> None:
        tree = self.tree
        if tree.find(exp.Placeholder, exp.Parameter):
            raise cannot("parameter")
        _check_parts(tree)
        source = tree.args.get("from") or tree.args.get("from_")
        alias = "" if source is None else self._check_source(source.this)
        names = [item.alias for item in tree.expressions if isinstance(item, exp.Alias)]
        unqualified(self.schema, tree, CannotQuery, alias=alias, names=names)
        for clause, value in tree.args.items():
            if value not in (None, [], False) and clause not in _CLAUSES:
                raise CannotQuery(f"{clause.replace('_', ' ').upper()} is beyond what is answered: leave it out")

    def _check_source(self, table: exp.Expression) -> str:
        """What else the table is called in this SELECT; empty where nothing."""
        if isinstance(table, exp.Subquery):
            raise cannot("subquery")
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise CannotQuery(f'FROM names the table that was released, "{self.schema.name}", or is left out')
        _check_parts(table)
        if table.name.casefold() != self.schema.name.casefold():
            name = f'"{self.schema.name}"'
            raise CannotQuery(f'this is about {name}, and knows no table "{table.name}": write FROM {name}')
        return str(table.alias)

    def _grouped(self) -> list[exp.Expression]:
        group = self.tree.args.get("group")
        if group is None:
            return []
        if group.args.get("all") and not group.expressions:
            items = (item.this if isinstance(item, exp.Alias) else item for item in self.tree.expressions)
            return [item for item in items if not (_is_star(item) or is_aggregate(item))]
        sets = any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in group.expressions)
        if sets or any(group.args.get(name) for name in _GROUPINGS):
            raise cannot("grouping")
        found = []
        for node in map(bare, group.expressions):
            if isinstance(node, exp.Literal) and not node.is_string:
                place = self._place(node)
                if place is None:
                    raise CannotQuery(f"GROUP BY {node.name[:20]} names no column of the SELECT")
                node = self.tree.expressions[place]
                node = node.this if isinstance(node, exp.Alias) else node
            elif isinstance(node, exp.Column) and not self.lines.is_column(node):  # a column comes before a name
                node = self.lines.meant(node.name) or node
            found.append(node)
        return found

    def _output(self, item: exp.Expression) -> Output:
        node = item.this if isinstance(item, exp.Alias) else item
        alias = item.alias if isinstance(item, exp.Alias) else ""
        if _is_star(node):
            raise cannot("star")
        if (place := self.lines.key_at(node)) is not None:
            return Output(alias or self.lines.keys[place].name, key=place)
        if isinstance(node, exp.Column):
            at = named_key(self.schema, self.reader, node)
            raise CannotQuery(
                f'"{at}" is selected, and is no group and no aggregate: write GROUP BY "{at}", or an aggregate of it'
            )
        number, place = self.lines.number(node)
        return Output(alias or label_of(number.named), measure=place, factor=number.factor, digits=number.digits)

    def _ordering(self, one: exp.Expression) -> tuple[Any, bool]:
        node, down = (one.this, bool(one.args.get("desc"))) if isinstance(one, exp.Ordered) else (one, False)
        node = bare(node)  # (2) is a position, as 2 is
        if isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Null) and not node.find(exp.AggFunc):
            place = self._place(node)
            if place is None:
                raise CannotQuery(f"ORDER BY {written(node)[:20]} names no column of the SELECT")
            node = self.tree.expressions[place]
            node = node.this if isinstance(node, exp.Alias) else node
        return self.lines.order(node), down

    def _place(self, node: exp.Expression) -> int | None:
        """The column of the SELECT that a number names; None where it names none."""
        place = _digits(node)
        return place - 1 if place is not None and 1 <= place <= len(self.tree.expressions) else None

    def _number(self, clause: str) -> int | None:
        node = self.tree.args.get(clause)
        if node is None:
            return None
        value = _digits(node.args.get("expression"))
        if value is None:
            raise CannotQuery(f"{clause.upper()} takes a whole number")
        return value


def _check_parts(node: exp.Expression) -> None:
    for part, why in _REFUSED_PARTS.items():
        if node.args.get(part):
            raise cannot(why)


def _is_star(node: exp.Expression) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def _digits(node: exp.Expression | None) -> int | None:
    """A whole number that is written out; None for anything else."""
    plain = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal() and len(node.name) <= 18
    return int(node.name) if plain and node is not None else None


def _unique(outputs: list[Output]) -> list[Output]:
    """Outputs whose columns, ends of intervals included, have names different from one another."""
    taken: set[str] = set()
    tried: dict[tuple[str, bool], int] = {}
    found = []
    for output in outputs:
        kind = output.name, output.measure is None
        times = tried.get(kind, 1)  # all below are taken
        name = output.name if times == 1 else f"{output.name}_{times}"
        while taken & set(columns := (name, *([] if output.measure is None else ends_of(name)))):
            times += 1
            name = f"{output.name}_{times}"
        tried[kind] = times
        taken |= set(columns)
        found.append(replace(output, name=name))
    return found

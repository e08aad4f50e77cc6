"""A SELECT to a plan of groups and measures.

Read are SELECT, FROM one table, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT and OFFSET. What cannot be answered is refused
with the reason and the nearest thing that can (`unanswerable`).
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from conspectus.data.schema import Schema
from conspectus.queries.formulas import all_of

from .from_sql import LONGEST_TEXT, Reader
from .grouping import key_of, named_key
from .measures import MeasureReader, label_of
from .select_plan import Key, Measure, Output, Select
from .unanswerable import CannotQuery, cannot, refused

MOST_GROUPS = 100_000
_CLAUSES = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "kind", "hint"}
_CLAUSES |= {"from"}  # the name of the same part in older versions of the parser
_GROUPINGS = ("grouping_sets", "rollup", "cube", "all", "totals")


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
    if not isinstance(text, str) or not text.strip():
        raise CannotQuery("the query is empty: write one, as in SELECT sex, COUNT(*) FROM people GROUP BY sex")
    if len(text) > LONGEST_TEXT:
        raise CannotQuery(f"the query is longer than {LONGEST_TEXT:,} characters: split it")
    try:
        return _Selection(schema, _tree(text), snap).plan()
    except RecursionError as problem:
        raise CannotQuery("the query is nested too deeply: write it with fewer parentheses") from problem


def _tree(text: str) -> exp.Select:
    try:
        trees = [tree for tree in Dialect.get_or_raise("duckdb").parse(text) if tree]
    except SqlglotError as problem:
        raise CannotQuery(
            "this is not a SELECT that can be read: write one, as in SELECT sex, COUNT(*) FROM people GROUP BY sex"
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
        self.measured = MeasureReader(schema, self.reader)
        self.keys: list[Key] = []
        self.key_nodes: dict[str, int] = {}
        self.measures: list[Measure] = []
        self.aliases: dict[str, exp.Expression] = {}

    def plan(self) -> Select:
        self._check_clauses()
        where = self.tree.args.get("where")
        rows = True if where is None else self.reader.formula(where.this, truth=True)
        for item in self.tree.expressions:
            if isinstance(item, exp.Alias):
                self.aliases[item.alias.casefold()] = item.this
        for node in self._grouped():
            name = next((a for a, meant in self.aliases.items() if _text(meant) == _text(node)), "")
            self.keys.append(key_of(self.schema, self.reader, node, name))
            self.key_nodes[_text(node)] = len(self.keys) - 1
        outputs = [self._output(item) for item in self.tree.expressions]
        if not self.measures and not any(output.measure is not None for output in outputs):
            raise (
                cannot("star")
                if not self.keys
                else CannotQuery("only groups are selected, and their rows are not counted: add COUNT(*)")
            )
        having = self.tree.args.get("having")
        kept = None if having is None else self._expression(having.this)
        order = self.tree.args.get("order")
        ordered = tuple(self._ordering(one, outputs) for one in order.expressions) if order is not None else ()
        size = Select(tuple(self.keys), rows, (), ()).size
        if size > MOST_GROUPS:
            raise CannotQuery(
                f"{size:,} groups are more than {MOST_GROUPS:,}, which are served: group by fewer columns"
            )
        notes = list(self.reader.caveats) + (["conditions were widened to whole bins"] if self.reader.widened else [])
        if kept is not None or self.tree.args.get("limit") is not None:
            notes.append("each interval is for its own number: which lines are shown was chosen by noisy numbers")
        return Select(
            tuple(self.keys),
            all_of(self.schema.domain, [rows]),
            tuple(self.measures),
            tuple(_unique(outputs)),
            kept,
            ordered,
            self._number("limit"),
            self._number("offset") or 0,
            tuple(notes),
        )

    def _check_clauses(self) -> None:
        tree = self.tree
        if tree.args.get("with") or tree.args.get("with_"):
            raise cannot("cte")
        if tree.find(exp.Placeholder, exp.Parameter):
            raise cannot("parameter")
        if tree.args.get("distinct"):
            raise cannot("distinct_rows")
        if tree.args.get("joins") or tree.args.get("laterals"):
            raise cannot("join")
        if tree.args.get("qualify"):
            raise cannot("qualify")
        if tree.args.get("sample"):
            raise cannot("sample")
        source = tree.args.get("from") or tree.args.get("from_")
        if source is not None:
            self._check_source(source.this)
        for clause, value in tree.args.items():
            if value not in (None, [], False) and clause not in _CLAUSES:
                raise CannotQuery(f"{clause.replace('_', ' ').upper()} is beyond what is answered: leave it out")

    def _check_source(self, table: exp.Expression) -> None:
        if isinstance(table, exp.Subquery):
            raise cannot("subquery")
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise CannotQuery(f'FROM names the table that was released, "{self.schema.name}", or is left out')
        if table.args.get("sample"):
            raise cannot("sample")
        if table.args.get("joins"):
            raise cannot("join")
        if table.name.casefold() != self.schema.name.casefold():
            raise CannotQuery(f'this is about "{self.schema.name}", and knows no table "{table.name}": write FROM it')

    def _grouped(self) -> list[exp.Expression]:
        group = self.tree.args.get("group")
        if group is None:
            return []
        sets = any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in group.expressions)
        if sets or any(group.args.get(name) for name in _GROUPINGS):
            raise cannot("grouping")
        found = []
        for node in group.expressions:
            if isinstance(node, exp.Literal) and not node.is_string:
                place = int(node.name) - 1 if node.name.isdigit() else -1
                if not 0 <= place < len(self.tree.expressions):
                    raise CannotQuery(f"GROUP BY {node.name} names no column of the SELECT")
                node = self.tree.expressions[place]
                node = node.this if isinstance(node, exp.Alias) else node
            elif isinstance(node, exp.Column) and node.name.casefold() in self.aliases:
                own = self.aliases[node.name.casefold()]
                node = own if not isinstance(own, exp.Column) else node
            found.append(node)
        return found

    def _output(self, item: exp.Expression) -> Output:
        node = item.this if isinstance(item, exp.Alias) else item
        alias = item.alias if isinstance(item, exp.Alias) else ""
        if isinstance(node, exp.Star):
            raise cannot("star")
        if (place := self.key_nodes.get(_text(node))) is not None:
            return Output(alias or self.keys[place].name, key=place)
        if isinstance(node, exp.Column):
            at = named_key(self.schema, self.reader, node)
            raise CannotQuery(
                f'"{at}" is selected, and is no group and no aggregate: write GROUP BY "{at}", or an aggregate of it'
            )
        factor, inner, digits = _scaled(node)
        return Output(alias or label_of(inner), measure=self._measure(inner), factor=factor, digits=digits)

    def _measure(self, node: exp.Expression) -> int:
        measure = self.measured.read(node)
        if measure not in self.measures:
            self.measures.append(measure)
        return self.measures.index(measure)

    def _expression(self, node: exp.Expression) -> Any:
        """A condition or number over keys and measures, as nested tuples: an operation, and what it is applied to."""
        node = _bare(node)
        if (place := self.key_nodes.get(_text(node))) is not None:
            return ("key", place)
        if isinstance(node, exp.Column):
            if (meant := self.aliases.get(node.name.casefold())) is not None:
                return self._expression(meant)
            raise CannotQuery(f'"{node.name}" is no group and no name of an aggregate: name one of those')
        if type(node) in _OPERATIONS:
            return (_OPERATIONS[type(node)], self._expression(node.this), self._expression(node.expression))
        if isinstance(node, exp.Not):
            return ("not", self._expression(node.this))
        if isinstance(node, exp.Between):
            inner = self._expression(node.this)
            low, high = self._expression(node.args["low"]), self._expression(node.args["high"])
            return ("and", (">=", inner, low), ("<=", inner, high))
        if isinstance(node, exp.In) and node.expressions:
            inner = self._expression(node.this)
            return ("in", inner, tuple(self._expression(one) for one in node.expressions))
        if isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Cast) and not node.find(exp.AggFunc):
            return ("value", self.reader.constant(node))
        factor, inner, _ = _scaled(node)
        measured = ("measure", self._measure(inner))
        return measured if factor == 1 else ("*", ("value", factor), measured)

    def _ordering(self, one: exp.Expression, outputs: list[Output]) -> tuple[Any, bool]:
        node, down = (one.this, bool(one.args.get("desc"))) if isinstance(one, exp.Ordered) else (one, False)
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) - 1 if node.name.isdigit() else -1
            if not 0 <= place < len(outputs):
                raise CannotQuery(f"ORDER BY {node.name} names no column of the SELECT")
            return ("output", place), down
        return self._expression(node), down

    def _number(self, clause: str) -> int | None:
        node = self.tree.args.get(clause)
        if node is None:
            return None
        value = node.expression
        if not isinstance(value, exp.Literal) or not value.name.isdigit():
            raise CannotQuery(f"{clause.upper()} takes a whole number")
        return int(value.name)


_OPERATIONS: dict[type, str] = {
    exp.And: "and",
    exp.Or: "or",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.Add: "+",
    exp.Sub: "-",
}


def _scaled(node: exp.Expression) -> tuple[float, exp.Expression, int | None]:
    """A factor, the aggregate that it multiplies, and the digits that it is rounded to."""
    node = _bare(node)
    if isinstance(node, exp.Round):
        factor, inner, _ = _scaled(node.this)
        decimals = node.args.get("decimals")
        if decimals is not None and not (isinstance(decimals, exp.Literal) and decimals.name.isdigit()):
            raise refused(node)
        return factor, inner, 0 if decimals is None else int(decimals.name)
    if isinstance(node, exp.Cast | exp.TryCast):
        return _scaled(node.this)
    if isinstance(node, exp.Mul):
        for constant, other in ((node.this, node.expression), (node.expression, node.this)):
            if (number := _constant(constant)) is not None:
                factor, inner, digits = _scaled(other)
                return number * factor, inner, digits
    if isinstance(node, exp.Div):
        if (number := _constant(node.expression)) is not None and number:
            factor, inner, digits = _scaled(node.this)
            return factor / number, inner, digits
        top = _bare(node.this)
        if isinstance(top, exp.Mul):  # 100 * a / b
            factor, inner, _ = _scaled(top)
            if factor != 1.0 or inner is not top:
                return factor, exp.Div(this=inner.copy(), expression=node.expression.copy()), None
    return 1.0, node, None


def _constant(node: exp.Expression) -> float | None:
    node = _bare(node)
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(node.name)
    return None


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _text(node: exp.Expression) -> str:
    return str(_bare(node).sql("duckdb", normalize=True)).casefold().replace('"', "")


def _unique(outputs: list[Output]) -> list[Output]:
    """Outputs whose names are different from one another."""
    taken: dict[str, int] = {}
    found = []
    for output in outputs:
        times = taken.get(output.name, 0)
        taken[output.name] = times + 1
        name = output.name if not times else f"{output.name}_{times + 1}"
        found.append(Output(name, output.key, output.measure, output.factor, output.digits))
    return found

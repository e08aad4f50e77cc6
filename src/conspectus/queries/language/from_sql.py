"""SQL predicates to queries.

The logic is SQL's, with three values: a row whose column is missing satisfies neither `a = 1` nor `NOT a = 1`. NOT is
therefore pushed down to the comparisons, where it turns `=` into `<>` and so on. A comparison with NULL is never true,
and nobody means to ask for nothing: it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from conspectus.data.code_sets import CodeSet, complement
from conspectus.data.columns.column import CutsBin
from conspectus.data.columns.kinds import Column
from conspectus.data.schema import Schema
from conspectus.queries.block import check_length
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.builders.arguments import (
    UnknownColumn,
    check_listable,
    check_schema,
    listed,
    position,
)
from conspectus.queries.formulas import Formula, all_of, any_of, literal, predicate
from conspectus.queries.query import Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

from .bounded_parser import LONGEST_TEXT, NestedTooDeeply, Unreadable, conditions, written
from .plain_names import in_quotes, unqualified
from .to_sql import named, to_sql

__all__ = ["NotAPredicate", "Reading", "UnknownColumn", "parse", "read", "sql", "to_sql"]

_COMPARISONS: dict[type, tuple[str, str, str]] = {
    # the comparison, its negation, and the comparison with its sides exchanged
    exp.EQ: ("=", "<>", "="),
    exp.NEQ: ("<>", "=", "<>"),
    exp.LT: ("<", ">=", ">"),
    exp.LTE: ("<=", ">", ">="),
    exp.GT: (">", "<=", "<"),
    exp.GTE: (">=", "<", "<="),
}
_NEGATED = {plain: negated for plain, negated, _ in _COMPARISONS.values()}


_TOO_DEEP = "the predicate is nested too deeply: write it with fewer parentheses and functions"


class NotAPredicate(WorkloadError):
    """A text that is not a predicate on one table, or uses SQL beyond the part that is served."""


@dataclass(frozen=True)
class Reading:
    """What a text asks: its query, in the words of the question that is answered, with all that must be said besides.

    The words are those of the text, unless a comparison was widened: then they ask for the whole bins.
    """

    schema: Schema
    query: Predicate
    words: str
    notes: tuple[str, ...]

    @property
    def workload(self) -> Workload:
        """A workload of this one query."""
        domain = self.schema.domain
        return Workload(domain, (Conjunctions.of(domain, [self.query]),))


def parse(schema: Schema, text: str, *, snap: bool = False) -> Predicate:
    """The query that a SQL predicate asks; predicates with the same meaning give equal queries.

    Served are AND, OR, NOT, =, <>, <, <=, >, >=, BETWEEN, IN, IS [NOT] NULL, TRUE and FALSE, boolean columns by name,
    names in double quotes, texts in single ones, and dates as texts or DATE '2020-01-31'. A comparison that cuts a bin
    is refused, unless `snap` widens it to the bin.
    """
    return read(schema, text, snap=snap).query


def read(schema: Schema, text: str, *, snap: bool = False) -> Reading:
    """What a SQL predicate asks; see `parse` for what is served."""
    if not isinstance(text, str) or not text.strip():
        raise NotAPredicate("the predicate is empty: write one, as in age >= 30 AND sex = 'Female'")
    if len(text) > LONGEST_TEXT:
        raise NotAPredicate(f"the predicate is longer than {LONGEST_TEXT:,} characters: split it")
    if text.lstrip().casefold().startswith(("select ", "select\n", "with ")):
        raise NotAPredicate(
            "this is a whole SELECT, and here a condition on rows is asked for, as in age >= 30 AND sex = 'Female': "
            "query(…) answers a SELECT, or conspectus sql on the command line"
        )
    try:
        tree = unqualified(schema, _tree(schema, text), NotAPredicate)
        reader = Reader(schema, snap)
        query = predicate(schema.domain, reader.rows(tree))
    except (NestedTooDeeply, RecursionError) as problem:
        raise NotAPredicate(_TOO_DEEP) from problem
    except Unreadable as problem:
        raise NotAPredicate(_excerpt(text, "is beyond the predicates that are served")) from problem
    notes = list(reader.caveats)
    if query.decided is not None:
        notes.append(f"by the schema {'every' if query.decided else 'no'} row satisfies this question")
    if not reader.widened:
        return Reading(schema, query, text, tuple(notes))
    return Reading(schema, query, to_sql(schema, query), ("widened to whole bins", *notes))


def sql(schema: Schema, predicates: Iterable[str], *, snap: bool = False) -> Workload:
    """One query for each SQL predicate: how many rows satisfy it?

    Served are AND, OR, NOT, =, <>, <, <=, >, >=, BETWEEN, IN, IS [NOT] NULL, TRUE and FALSE, boolean columns by name,
    names in double quotes, texts in single ones, and dates as texts or DATE '2020-01-31'.

    Args:
        schema: the declaration of the table.
        predicates: the predicates, or a single one.
        snap: whether a comparison that cuts a bin is widened to the whole bin. It is refused otherwise.

    Returns:
        A workload with one query for each predicate. Predicates with the same meaning give equal queries.

    Raises:
        NotAPredicate: a text is not a predicate on one table, or uses SQL beyond the part that is served.
        UnknownColumn: a column is not in the schema.
        WorkloadError: a comparison cuts a bin, or a predicate falls into too many separate parts.

    Example:
        >>> len(cs.sql(schema, ["smoker AND age >= 60", "sex = 'male' OR diagnosis IN ('heart', 'lung')"]))
        2
    """
    check_schema(schema)
    given = [predicates] if isinstance(predicates, str) else predicates
    asked = listed(given, "predicates are given as a list of texts")
    if not all(isinstance(text, str) for text in asked):
        raise NotAPredicate("a predicate is a text, as in \"age >= 30 AND sex = 'Female'\"")
    texts: list[str] = asked
    check_length(len(texts), "this list of predicates")
    found = [parse(schema, text, snap=snap) for text in texts]
    return Workload(schema.domain, (Conjunctions.of(schema.domain, found),))


def _tree(schema: Schema, text: str) -> exp.Expression:
    try:
        trees = conditions(text)
    except Unreadable as problem:
        raise NotAPredicate(_excerpt(text, f"is not a SQL predicate{in_quotes(schema, text)}")) from problem
    if len(trees) != 1:
        raise NotAPredicate(_excerpt(text, "is not one predicate"))
    return trees[0]


def _excerpt(text: str, problem: str) -> str:
    short = " ".join(text.split())
    shown = short if len(short) <= 60 else short[:57] + "…"
    return f"{shown!r} {problem}: write comparisons joined by AND, OR and NOT, as in age >= 30 AND sex = 'Female'"


class Reader:
    """Turns a parsed predicate into a formula over codes."""

    def __init__(self, schema: Schema, snap: bool) -> None:
        self.schema = schema
        self.domain = schema.domain
        self.snap = snap
        self.caveats: dict[str, None] = {}
        self.widened: dict[str, str] = {}
        """Each comparison that was widened to whole bins, as it was meant and as it is answered."""

    def formula(self, node: exp.Expression, *, truth: bool) -> Formula:
        """The rows on which the node is true (`truth`), or those on which it is false: the missing are in neither."""
        node = bare(node)
        if isinstance(node, exp.Not):
            return self.formula(node.this, truth=not truth)
        if isinstance(node, exp.And | exp.Or):
            parts = [self.formula(part, truth=truth) for part in node.flatten()]
            return (all_of if isinstance(node, exp.And) == truth else any_of)(self.domain, parts)
        if isinstance(node, exp.Boolean):
            return bool(node.this) == truth
        if isinstance(node, exp.Null):
            raise _never(node)
        if isinstance(node, exp.Column):
            return self._named(node, truth=truth)
        if type(node) in _COMPARISONS:
            return self._comparison(node, truth=truth)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            bounds = [(">=", node.args["low"]), ("<=", node.args["high"])]
            sides = [self._where(node.this, op, bound, truth=truth) for op, bound in bounds]
            return (all_of if truth else any_of)(self.domain, sides)
        if isinstance(node, exp.In) and set(_given(node)) <= {"this", "expressions"}:
            options = [self._where(node.this, "=", option, truth=truth) for option in node.expressions]
            return (any_of if truth else all_of)(self.domain, options)
        if isinstance(node, exp.Is):
            return self._is(node, truth=truth)
        raise NotAPredicate(_excerpt(written(node), "is beyond the predicates that are served"))

    def rows(self, node: exp.Expression) -> Formula:
        """The rows that a whole condition chooses."""
        before = len(self.widened)
        found = self.formula(node, truth=True)
        if found is True and len(self.widened) > before:
            # Their number would be certain, and nobody asked for it.
            said = f"{written(node)[:80]} cuts bins, and widened to whole bins it holds for every row"
            raise CutsBin(f"{said}: ask for whole bins", ())
        return found

    def truths(self, node: exp.Expression) -> tuple[Formula, Formula]:
        """The rows on which the node is true, and those on which it is false; widened to whole bins both may hold in
        one, and then what is told is how the node as it is written was widened."""
        true = self.rows(node)
        told = dict(self.widened)
        false = self.formula(node, truth=False)
        self.widened = told
        return true, false

    def _comparison(self, node: exp.Expression, *, truth: bool) -> Formula:
        plain, _, exchanged = _COMPARISONS[type(node)]
        left, right = node.this, node.expression
        if isinstance(bare(left), exp.Column):
            return self._where(left, plain, right, truth=truth)
        if isinstance(bare(right), exp.Column):
            return self._where(right, exchanged, left, truth=truth)
        raise NotAPredicate(_excerpt(written(node), "does not compare a column with a value"))

    def _where(self, column: exp.Expression, op: str, value: exp.Expression, *, truth: bool) -> Formula:
        at, declared = self.column(column)
        constant = self.constant(value)
        if constant is None:
            raise _never(column)
        meant = op if truth else _NEGATED[op]
        try:
            codes = declared.codes_where(meant, constant)
        except CutsBin:
            if not self.snap:
                raise
            codes = declared.codes_where(meant, constant, snap=True)
            answered = predicate(self.domain, literal(self.domain, at, codes))
            self.widened[f"{named(declared.name)} {meant} {written(value)[:40]}"] = to_sql(self.schema, answered)
        self.caveats |= dict.fromkeys(declared.caveats(meant, codes))
        return literal(self.domain, at, codes)

    def _is(self, node: exp.Is, *, truth: bool) -> Formula:
        at, declared = self.column(node.this)
        value = bare(node.expression)
        if isinstance(value, exp.Null):
            codes: CodeSet = declared.null_codes()
            if not codes:
                raise NotAPredicate(
                    f"{self.domain.names[at]!r} is declared without missing values, and what is missing counts as one "
                    "of its values: declare missing = true in the schema to ask for IS NULL"
                )
        elif isinstance(value, exp.Boolean):
            codes = _boolean(declared, node.this).codes_where("=", bool(value.this))
        else:
            raise NotAPredicate(_excerpt(written(node), "is beyond the predicates that are served"))
        # IS is true or false even where the value is missing.
        if not truth:
            check_listable(self.schema, (at,))
        return literal(self.domain, at, codes if truth else complement(codes, self.domain.sizes[at]))

    def _named(self, node: exp.Column, *, truth: bool) -> Formula:
        at, declared = self.column(node)
        return literal(self.domain, at, _boolean(declared, node).codes_where("=", truth))

    def column(self, node: exp.Expression) -> tuple[int, Column]:
        node = bare(node)
        if not isinstance(node, exp.Column):
            raise NotAPredicate(_excerpt(written(node), "is compared where a column should stand"))
        if set(_given(node)) != {"this"} or not isinstance(node.this, exp.Identifier):
            raise NotAPredicate(_excerpt(written(node), "is not a column"))
        name = node.this.name
        names = self.domain.names
        if name not in names and not node.this.args.get("quoted"):
            # Names without quotes are the same in capitals, as everywhere in SQL.
            alike = [known for known in names if known.casefold() == name.casefold()]
            name = alike[0] if len(alike) == 1 else name
        return position(self.schema, name), self.schema.column(name)

    def constant(self, node: exp.Expression) -> object:
        """The value of a constant, None for NULL."""
        node = bare(node)
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Neg) and isinstance(bare(node.this), exp.Literal) and not bare(node.this).is_string:
            return -_number(bare(node.this).name)
        if isinstance(node, exp.Cast) and node.to.this == exp.DataType.Type.DATE:
            node = bare(node.this)
            if isinstance(node, exp.Literal) and node.is_string:
                return node.name
        elif isinstance(node, exp.Literal):
            return node.name if node.is_string else _number(node.name)
        if isinstance(node, exp.Column):
            advice = "is a name where a value should stand (texts go into single quotes)"
            raise NotAPredicate(_excerpt(written(node), advice))
        raise NotAPredicate(_excerpt(written(node), "is not a constant value"))


def _never(node: exp.Expression) -> NotAPredicate:
    return NotAPredicate(_excerpt(written(node), "is compared with NULL, which no row satisfies (IS NULL asks)"))


def _boolean(column: Column, node: exp.Expression) -> Column:
    if column.kind != "boolean" and (column.regular != 2 or column.labels[:2] != ("false", "true")):
        raise NotAPredicate(_excerpt(written(node), "is not a boolean column and cannot stand alone"))
    return column


def bare(node: Any, *around: type[exp.Expression]) -> Any:
    """What stands inside parentheses, and inside what else may be around it."""
    kinds: tuple[type[Any], ...] = (exp.Paren, *around)
    while isinstance(node, kinds):
        node = node.this
    return node


def plain_number(node: exp.Expression) -> float | None:
    """A number that is written out, perhaps in parentheses; None for anything else."""
    node = bare(node)
    return float(_number(node.name)) if isinstance(node, exp.Literal) and not node.is_string else None


def _given(node: exp.Expression) -> list[str]:
    return [name for name, value in node.args.items() if value not in (None, [], False)]


def _number(text: str) -> int | float:
    convert: Callable[[str], int | float] = int if text.isdigit() and len(text) <= 18 else float
    try:
        return convert(text)
    except ValueError as problem:
        raise NotAPredicate(_excerpt(text, "is not a number")) from problem

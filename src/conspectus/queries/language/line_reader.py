"""What a SELECT says of its lines: keys, numbers and names, and the conditions and orders over them.

An expression is read as nested tuples, an operation and what it is applied to, with the kind of its values. Values of
different kinds are not compared: a database would turn one into the other, each in its own way.
"""

from __future__ import annotations

import datetime
from itertools import islice
from typing import Any, Literal

from sqlglot import exp

from conspectus.queries.builders.arguments import UnknownColumn

from .bounded_parser import written
from .from_sql import NotAPredicate, Reader, bare
from .scaled import NumberReader, Scaled
from .select_plan import Key, Measure
from .unanswerable import CannotQuery

Kind = Literal["truth", "number", "text", "date", "nothing"]
_KINDS: tuple[tuple[type, Kind], ...] = (
    (bool, "truth"),
    (int, "number"),
    (float, "number"),
    (str, "text"),
    (datetime.date, "date"),
)
_LOGIC: dict[type, str] = {exp.And: "and", exp.Or: "or"}
_SUMS: dict[type, str] = {exp.Add: "+", exp.Sub: "-"}
_COMPARED: dict[type, str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
Typed = tuple[Any, Kind]


class LineReader:
    """Reads what is said of lines, and gathers the keys and measures that it speaks of."""

    def __init__(self, reader: Reader, numbers: NumberReader) -> None:
        self.reader, self.numbers = reader, numbers
        self.keys: list[Key] = []
        self.measures: list[Measure] = []
        self._places: dict[str, int] = {}
        self._sizes: set[int] = set()
        """How many parts the expressions have that rows are grouped by."""
        self._measured: dict[Measure, int] = {}
        self._ordered: set[int] = set()
        self._names: dict[str, dict[str, exp.Expression]] = {}

    def name(self, alias: str, node: exp.Expression) -> None:
        """Remember what a name of the SELECT means."""
        self._names.setdefault(alias.casefold(), {}).setdefault(self._text(node), node)

    def group(self, node: exp.Expression, key: Key) -> None:
        """Remember what rows are grouped by."""
        place = self._places[self._text(node)] = len(self.keys)
        self._sizes.add(_size(node))
        self.keys.append(key)
        if self.is_column(node) and self.reader.column(node)[1].ordered:
            self._ordered.add(place)

    def key_at(self, node: exp.Expression) -> int | None:
        """The place of the key that an expression is; None for anything else.

        A condition is asked for all of its parts, and each would be written out: only what is as long as a key is.
        """
        if _size(node, max(self._sizes, default=0) + 1) not in self._sizes:
            return None
        return self._places.get(self._text(node))

    def alias_of(self, node: exp.Expression) -> str:
        """The name of the SELECT for an expression; empty where it has none."""
        text = self._text(node)
        return next((name for name, meant in self._names.items() if text in meant), "")

    def meant(self, name: str) -> exp.Expression | None:
        """What a name of the SELECT means; None where there is no such name.

        Raises:
            CannotQuery: It means several things.
        """
        found = self._names.get(name.casefold(), {})
        if len(found) > 1:
            raise CannotQuery(f'"{name}" is the name of several columns of the SELECT: give each a name of its own')
        return next(iter(found.values()), None)

    def is_column(self, node: exp.Expression) -> bool:
        """Whether an expression is the name of a column of the table."""
        try:
            self.reader.column(node)
        except (NotAPredicate, UnknownColumn):
            return False
        return True

    def number(self, node: exp.Expression) -> tuple[Scaled, int]:
        """A number, and the place of its measure."""
        found = self.numbers.read(node)
        place = self._measured.setdefault(found.measure, len(self.measures))
        if place == len(self.measures):
            self.measures.append(found.measure)
        return found, place

    def condition(self, node: exp.Expression) -> Any:
        """A condition on lines: HAVING.

        Raises:
            CannotQuery: It is none, or looks at other lines.
        """
        if node.find(exp.Window):
            raise CannotQuery("HAVING is about one line, and a window about all that are left: write SHARE(*)")
        found, kind = self.typed(node)
        if kind not in ("truth", "nothing"):
            raise CannotQuery("HAVING takes a condition: compare the number, as in COUNT(*) > 100")
        return found

    def order(self, node: exp.Expression) -> Any:
        """What lines are ordered by. The bins of a column have its order, and not that of their names."""
        found, kind = self.typed(node)
        if kind == "text" and found[0] == "key" and found[1] in self._ordered:
            return ("rank", found, {value: at for at, (value, _) in enumerate(self.keys[found[1]].groups)})
        return found

    def typed(self, node: exp.Expression) -> Typed:
        """An expression over keys and numbers, and the kind of its values."""
        node = bare(node)
        place = self.key_at(node)
        if isinstance(node, exp.Column):
            meant = self.meant(node.name)
            if meant is not None and place is not None and self._text(meant) != self._text(node):
                raise CannotQuery(f'"{node.name}" is a group, and the name of something else: choose another name')
            if place is None and meant is not None:
                place = self.key_at(meant)
                if place is None:
                    return self._numbered(meant)
        if place is not None:
            return ("key", place), self._kind_of_key(self.keys[place])
        if isinstance(node, exp.Column):
            raise CannotQuery(f'"{node.name}" is no group and no name of an aggregate: name one of those')
        if type(node) in _LOGIC:
            return (_LOGIC[type(node)], *(self._of("truth", part) for part in (node.this, node.expression))), "truth"
        if isinstance(node, exp.Not):
            return ("not", self._of("truth", node.this)), "truth"
        if type(node) in _COMPARED:
            return self._compared(_COMPARED[type(node)], self.typed(node.this), self.typed(node.expression))
        if type(node) in _SUMS:
            return (_SUMS[type(node)], *(self._of("number", part) for part in (node.this, node.expression))), "number"
        if isinstance(node, exp.Between):
            inner = self.typed(node.this)
            ends = [(">=", self.typed(node.args["low"])), ("<=", self.typed(node.args["high"]))]
            return ("and", *(self._compared(op, inner, end)[0] for op, end in ends)), "truth"
        if isinstance(node, exp.In) and node.expressions:
            inner = self.typed(node.this)
            found: Any = ("value", False)
            for one in node.expressions:
                found = ("or", found, self._compared("=", inner, self.typed(one))[0])
            return found, "truth"
        if not node.find(exp.AggFunc, exp.Anonymous, exp.Window) and not isinstance(node, exp.Mul | exp.Div):
            value = self.reader.constant(node)
            if isinstance(node, exp.Cast):  # to a date, the only type that a constant is cast to
                return _dated(("value", value)), "date"
            return ("value", value), _kind_of(value)
        return self._numbered(node)

    def _numbered(self, node: exp.Expression) -> Typed:
        number, place = self.number(node)
        found: Any = ("measure", place)
        if number.factor != 1:
            found = ("*", ("value", number.factor), found)
        if number.digits is not None:
            found = ("round", number.digits, found)
        columns = number.measure.columns
        dated = number.measure.kind == "quantile" and self.reader.schema.columns[columns[0]].kind == "date"
        return found, "date" if dated else "number"

    def _of(self, kind: Kind, node: exp.Expression) -> Any:
        found, its = self.typed(node)
        if its not in (kind, "nothing"):
            raise CannotQuery(f"{written(node)[:60]!r} is a {its} where a {kind} should stand: write one")
        return found

    def _compared(self, op: str, first: Typed, second: Typed) -> Typed:
        (one, its), (other, their) = first, second
        if {its, their} == {"date", "text"}:
            one, other = (_dated(part) if kind == "text" else part for part, kind in (first, second))
        elif its != their and "nothing" not in (its, their):
            raise CannotQuery(f"a {its} is compared with a {their}: compare numbers with numbers, and texts with texts")
        return (op, one, other), "truth"

    def _kind_of_key(self, key: Key) -> Kind:
        kinds = {_kind_of(value) for value, _ in key.groups} - {"nothing"}
        if len(kinds) > 1:
            raise CannotQuery(f'the groups of "{key.name}" are of several types, without an order: leave it out here')
        return kinds.pop() if kinds else "nothing"

    def _text(self, node: exp.Expression) -> str:
        """A text that expressions share which are the same: names of columns are alike in capitals, texts are not."""

        def named(part: exp.Expression) -> exp.Expression:
            if not isinstance(part, exp.Column) or part.table or not isinstance(part.this, exp.Identifier):
                return part
            known = self.is_column(part)
            name = self.reader.domain.names[self.reader.column(part)[0]] if known else part.name.casefold()
            return exp.column(exp.to_identifier(name, quoted=True))

        return written(bare(node).transform(named), comments=False, copy=False)


def _size(node: exp.Expression, most: int | None = None) -> int:
    """How many parts an expression has, as far as they are counted."""
    return sum(1 for _ in islice(bare(node).walk(), most))


def _kind_of(value: object) -> Kind:
    return next((kind for its, kind in _KINDS if isinstance(value, its)), "nothing")


def _dated(part: Any) -> Any:
    """A text that is compared with dates, as a date."""
    if part[0] != "value":
        raise CannotQuery("a date is compared with a text: write the date, as in DATE '2020-01-31'")
    try:
        return ("value", datetime.date.fromisoformat(part[1]))
    except ValueError as problem:
        raise CannotQuery(f"{part[1][:60]!r} is no date: write one, as in DATE '2020-01-31'") from problem

"""SQL texts to trees, and trees to texts, with no more work than the length of a text explains.

A text may come from anyone, and the parser goes back and reads again. It tries each name before a bracket as a type
first, so that every level of INT(INT(INT(1))) doubles its work; and it writes some functions as expressions in which
their argument stands twice, so that every level doubles the text. Both go through one method, and its calls are
counted: a text of what is served takes one or two for each of its tokens. What needs many more is refused, by a count
and not by a clock, so that the same text is refused everywhere.

The parser also fails in ways of its own on functions with odd arguments, and logs what it does not know, with the text
around it. Here whatever it raises is one of two errors of ours, and it is silent: questions do not belong into logs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from conspectus.queries.sensitivity import WorkloadError

LONGEST_TEXT = 1 << 20
_LOGGER = logging.getLogger("sqlglot")
_STEPS, _STEPS_A_TOKEN = 20_000, 4
_PARTS, _PARTS_A_NODE = 5_000, 8
_MOST_BRACKETS = 50
_BRACKETS = (TokenType.L_BRACKET, TokenType.L_BRACE)
_PLAIN = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_FAILURES = (SqlglotError, *_PLAIN)
"""What the parser raises: errors of its own, and others where a function is built from arguments that are not there."""


class Unreadable(WorkloadError):
    """A text that is no SQL, or SQL that the parser fails on."""


class NestedTooDeeply(WorkloadError):
    """A text that the parser would read again and again, or whose parts it would write out again and again."""


class _Parser(DuckDB.Parser):  # type: ignore[misc]
    """Goes from token to token as often as it may, back and forth."""

    steps_left = 0

    def _advance(self, times: int = 1) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            # No error of the parser's own: it would take that as a sign to try another reading.
            raise NestedTooDeeply("this is nested too deeply: write it with fewer parentheses and functions")
        super()._advance(times)


class _Generator(DuckDB.Generator):  # type: ignore[misc]
    """Writes as many expressions as it may."""

    parts_left = 0

    def sql(self, *given: Any, **settings: Any) -> str:
        self.parts_left -= 1
        if self.parts_left < 0:
            raise NestedTooDeeply("this is nested too deeply: write it with fewer functions")
        return str(super().sql(*given, **settings))


def statements(text: str) -> list[exp.Expression]:
    """The statements of a text.

    Raises:
        Unreadable: It is no SQL.
        NestedTooDeeply: It would be read again and again, or has more levels than Python.
    """
    with _alone():
        parser, tokens = _prepared(text)
        return [tree for tree in parser.parse(tokens, text) if tree]


def conditions(text: str) -> list[exp.Expression]:
    """The conditions of a text, with semicolons between them; raises what `statements` does."""
    with _alone():
        parser, tokens = _prepared(text)
        return [tree for tree in parser.parse_into(exp.Condition, tokens, text) if tree]


def written(node: exp.Expression, *, comments: bool = True, copy: bool = True) -> str:
    """An expression as SQL; without a copy it is changed.

    Raises:
        Unreadable: It cannot be written.
        NestedTooDeeply: It would be far longer than what it was read from, or has more levels than Python.
    """
    with _alone():
        generator = _Generator(dialect=DuckDB(), comments=comments)
        generator.parts_left = _PARTS + _PARTS_A_NODE * sum(1 for _ in node.walk())
        return str(generator.generate(node, copy=copy))


def _prepared(text: str) -> tuple[_Parser, list[Any]]:
    dialect = DuckDB()
    tokens = dialect.tokenize(text)
    # Lists and structs are not served. A few are read, for a refusal that says so; chains of them are read slowly.
    if sum(token.token_type in _BRACKETS for token in tokens) > _MOST_BRACKETS:
        raise NestedTooDeeply("this has many brackets: write it without them")
    parser = _Parser(dialect=dialect)
    parser.steps_left = _STEPS + _STEPS_A_TOKEN * len(tokens)
    return parser, tokens


class _Here(threading.local):
    """What is known of one thread: whether the parser is at work in it for us."""

    parsing = False


_HERE = _Here()


def _of_others(_: logging.LogRecord) -> bool:
    return not _HERE.parsing


# Once, and never taken away: while one thread shortened the list of filters, another would skip one of them.
_LOGGER.addFilter(_of_others)


@contextmanager
def _alone() -> Iterator[None]:
    """What the parser raises is one of our errors, and what it logs in this thread is not written anywhere.

    Other threads, and whoever else uses the parser, log as they did.
    """
    before, _HERE.parsing = _HERE.parsing, True
    try:
        yield
    except NestedTooDeeply:
        raise
    except RecursionError as problem:
        raise NestedTooDeeply("this is nested too deeply: write it with fewer parentheses") from problem
    except _FAILURES as problem:
        raise Unreadable("this is not SQL that can be read") from problem
    finally:
        _HERE.parsing = before

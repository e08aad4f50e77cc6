"""One question, in any form in which it is given: a predicate as a text, or a workload of one query."""

from __future__ import annotations

from collections.abc import Mapping

from conspectus.data.schema import Schema
from conspectus.queries.workload import Workload

from .from_sql import NotAPredicate, read
from .to_sql import named

Asked = tuple[Workload, str | None, tuple[str, ...]]


def one_question(schema: Schema, question: str | Workload, *, snap: bool = False) -> Asked:
    """What is asked.

    Args:
        schema: The declaration of the table.
        question: A SQL predicate, or a workload of one query.
        snap: Whether a comparison that cuts a bin is widened to the whole bin. It is refused otherwise.

    Returns:
        A workload of one query, the words of the predicate that is answered (None for a workload), and what must be
        said besides.

    Raises:
        NotAPredicate: It is neither, or is more than one question.
    """
    if isinstance(question, str):
        reading = read(schema, question, snap=snap)
        return reading.workload, reading.words, reading.notes
    if not isinstance(question, Workload):
        raise no_question(question)
    if len(question) != 1:
        raise NotAPredicate(f"ask takes one question at a time, not {len(question)}")
    return question, None, ()


def no_question(given: object) -> NotAPredicate:
    """The refusal of what is neither a text nor a workload."""
    return NotAPredicate(
        f"a question is a predicate as a text, as in {_example(given)}, or a workload of one query, "
        f"not a {type(given).__name__}"
    )


def _example(question: object) -> str:
    """A predicate as it is written; the one that a mapping of columns to values means."""
    plain = isinstance(question, Mapping) and 0 < len(question) <= 3
    pairs = list(question.items()) if plain and isinstance(question, Mapping) else []
    if pairs and all(isinstance(name, str) and isinstance(value, str | int | float) for name, value in pairs):
        said = [f"{_name(name)} = {_value(value)}" for name, value in pairs]
        return f'"{" AND ".join(said)}"'[:120]
    return "\"age >= 30 AND sex = 'Female'\""


def _name(name: str) -> str:
    return name if name.isidentifier() else named(name)


def _value(value: object) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).upper()

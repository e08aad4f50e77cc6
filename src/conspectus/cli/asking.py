"""Several questions in one command: each is answered or refused by itself, and the exit code tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from . import printing
from .exit_codes import BAD_INPUT, explain

if TYPE_CHECKING:
    from conspectus.releases.answer import Answer


@dataclass(frozen=True)
class Said:
    """What was said to one question: an answer, or why there is none."""

    asked: str
    answer: Answer | None
    refusal: str = ""

    @property
    def heading(self) -> str:
        """The question that was answered, which need not be the one that was asked."""
        answered = None if self.answer is None else self.answer.question
        return self.asked if answered in (None, self.asked) else f"{answered}  (asked: {self.asked})"

    @property
    def json(self) -> dict[str, Any]:
        """For a program: under `question` the question that was answered."""
        if self.answer is None:
            return {"predicate": self.asked, "error": self.refusal}
        return {"predicate": self.asked, **asdict(self.answer)}


def said_to(predicates: Sequence[str], ask: Callable[[str], Answer], *stops: type[Exception]) -> list[Said]:
    """Ask them in turn. A single one that is refused is the command's own error, and so is what stops all of them."""
    said = []
    for text in predicates:
        try:
            said.append(Said(text, ask(text)))
        except stops:
            raise
        except (ValueError, LookupError) as problem:
            code, refusal = explain(problem)
            if len(predicates) == 1 or code != BAD_INPUT:
                raise
            said.append(Said(text, None, refusal))
    return said


def show(said: Sequence[Said], line: Callable[[Any], str] = str, *, standing: Sequence[str] = ()) -> None:
    """Each question with its answer, or with its refusal; what stands beside all of them is said once, at the end."""
    for one in said:
        printing.line(one.heading)
        if one.answer is None:
            printing.line(f"  refused: {one.refusal}")
            continue
        notes = tuple(note for note in one.answer.notes if note not in standing)
        printing.line(f"  {line(replace(one.answer, notes=notes))}")
    printing.notes(standing)


def exit_with(said: Sequence[Said]) -> None:
    """End with the exit code of bad input if some were refused, after all that could be answered was."""
    if refused := sum(one.answer is None for one in said):
        printing.line(f"conspectus: {refused} of {len(said)} questions refused, each with its reason above", aside=True)
        raise typer.Exit(BAD_INPUT)

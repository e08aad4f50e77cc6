"""A misspelt word is answered with the right one, and so is what belongs into a list and stands beside it."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_LISTS = ("Sequence[", "Iterable[", "Collection[", "list[")

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is nearest, capitals aside; None where none is near.

    Near are words that begin as the other does, and words that a few slips make of one another: one slip for each three
    letters. Letters that they share by chance are not enough: "nope" has three of "income", in the same order.
    """
    choices = {choice.casefold(): choice for choice in known}
    given = word.casefold()
    alike = difflib.get_close_matches(given, choices, n=3, cutoff=0.5)
    return next((choices[one] for one in alike if _is_near(given, one)), None)


def _is_near(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    if len(short) >= 3 and long.startswith(short):
        return True
    return _slips(word, other) <= max(1, len(long) // 3)


def _slips(word: str, other: str) -> int:
    """How many letters are added, left out, changed or exchanged with the next one to make one word of the other."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for place, letter in enumerate(word, 1):
        row = [place]
        for at, its in enumerate(other, 1):
            cost = min(last[at] + 1, row[at - 1] + 1, last[at - 1] + (letter != its))
            if at > 1 and place > 1 and letter == other[at - 2] and word[place - 2] == its:
                cost = min(cost, before[at - 2] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ ", did you mean …?" where a known word is close, nothing otherwise."""
    near = closest(word, known)
    return f', did you mean "{near}"?' if near is not None else ""


def suggest_keyword(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, which answers an unknown keyword with the nearest one it knows, and several texts where it
    takes one list of them with that list."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return function
    known = [word for word in parameters if word not in ("self", "cls")]
    places = [each for each in parameters.values() if each.kind in _BY_PLACE]
    lists = bool(places) and any(word in str(places[-1].annotation) for word in _LISTS)
    lists &= all(parameter.kind is not parameter.VAR_POSITIONAL for parameter in parameters.values())
    name = function.__name__ if function.__name__ != "__init__" else function.__qualname__.split(".")[-2]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for word in kwargs:
            if word not in parameters:
                raise TypeError(f'{name} takes no "{word}"{did_you_mean(word, known)}')
        texts = [repr(each) for each in args[len(places) - 1 :] if isinstance(each, str)] if lists else []
        if len(args) > len(places) and len(texts) == len(args) - len(places) + 1:
            before = "…, " if len(places) > 1 and known[0] != places[-1].name else ""
            listed = f"[{', '.join(texts)}]".replace("'", '"')
            raise TypeError(f"{name} takes its {places[-1].name} as one list: {name}({before}{listed})")
        return function(*args, **kwargs)

    return checked


def suggest_keywords(kind: type[T]) -> type[T]:
    """The same class, whose public methods answer an unknown keyword with the nearest one they know."""
    for name, value in list(vars(kind).items()):
        if name.startswith("_"):
            continue
        if inspect.isfunction(value):
            setattr(kind, name, suggest_keyword(value))
        elif isinstance(value, classmethod | staticmethod):
            setattr(kind, name, type(value)(suggest_keyword(value.__func__)))
    return kind

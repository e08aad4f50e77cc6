"""A misspelt word is answered with the right one."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that is nearest, capitals aside; None where none is near."""
    choices = {choice.casefold(): choice for choice in known}
    near = difflib.get_close_matches(word.casefold(), choices, n=1, cutoff=cutoff)
    return choices[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ ", did you mean …?" where a known word is close, nothing otherwise."""
    near = closest(word, known)
    return f', did you mean "{near}"?' if near is not None else ""


def suggest_keyword(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, which answers an unknown keyword with the nearest one it knows."""
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return function
    known = [word for word in parameters if word not in ("self", "cls")]
    name = function.__name__ if function.__name__ != "__init__" else function.__qualname__.split(".")[-2]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for word in kwargs:
            if word not in parameters:
                raise TypeError(f'{name} takes no "{word}"{did_you_mean(word, known)}')
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

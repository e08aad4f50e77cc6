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

"""Columns of listed values: categorical and boolean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet, all_but, code_set
from conspectus.suggestions import did_you_mean

from .column import Column, UnknownValue
from .values import number_of, text_of, truth_of

Scalar = str | int | float | bool


@dataclass(frozen=True)
class Categorical(Column):
    """Listed values. A raw value matches by its text without the spaces around it, else by the number it stands for."""

    values: tuple[Scalar, ...]

    kind: ClassVar[str] = "categorical"

    def __post_init__(self) -> None:
        if isinstance(self.values, str) or not isinstance(self.values, Sequence) or not self.values:
            raise self._error('values is a list of at least one value, as in values = ["Male", "Female"]')
        if not all(isinstance(value, str | int | float | bool) for value in self.values):
            raise self._error("values are texts, numbers, or true and false: write anything else as a text")
        object.__setattr__(self, "values", tuple(self.values))
        if any(text is None for text in map(text_of, self.values)):
            raise self._error("an empty value means missing: leave it out and write missing = true")
        for code, value in enumerate(self.values):
            if self._texts[text_of(value) or ""] != code:  # a later equal text took the place
                raise self._error(f'values lists "{text_of(value)}" twice: list every value once')
        for flag, word in ((self.other, "other"), (self.missing, "missing")):
            if flag and word in self._texts:
                cure = "leave it out of values" if word == "other" else "put it into null_values instead"
                raise self._error(f'"{word}" is listed in values and is the name of the code for {word} ones: {cure}')
        self._check()

    @property
    def regular(self) -> int:
        return len(self.values)

    def regular_label(self, code: int) -> str:
        return text_of(self.values[code]) or ""

    @cached_property
    def _texts(self) -> dict[str, int]:
        return {text_of(value) or "": code for code, value in enumerate(self.values)}

    @cached_property
    def _words(self) -> dict[str, int]:
        """Texts with the spellings of truth that other tools write (True, TRUE)."""
        words = dict(self._texts)
        for text, code in self._texts.items():
            if text.casefold() in ("true", "false"):
                for spelling in (text.casefold(), text.casefold().title(), text.casefold().upper()):
                    words.setdefault(spelling, code)
        return words

    @cached_property
    def _numbers(self) -> dict[float, int]:
        """Listed numbers; of equal ones the first."""
        read = [(number_of(value), code) for code, value in enumerate(self.values)]
        return {float(number): code for number, code in reversed(read) if number is not None}

    def find(self, value: object) -> int | None:
        text = text_of(value)
        if text is None:
            return None
        code = self._words.get(text)
        if code is None and self._numbers and (number := number_of(value)) is not None:
            code = self._numbers.get(float(number))
        return code

    def _code_of_unread(self) -> int:
        return self.default_code if self.other_code is None else self.other_code

    def _codes_where(self, op: str, literal: Any, snap: bool) -> CodeSet:
        code = self.find(literal)
        if code is None and self.other and literal == "other":
            code = self.other_code
        if code is None:
            raise UnknownValue(
                f'column "{self.name}" has no value "{literal}"'
                + (did_you_mean(str(literal), self._texts) or ": use one of the values of its schema")
            )
        if op == "=":
            return (code,)
        if code == self.other_code:
            return code_set(range(self.regular))
        return all_but(code, self.regular + self.other)

    @cached_property
    def _native(self) -> type[int] | type[float] | type[bool] | None:
        """The one Python type of all values, when there is one and no text stands beside it."""
        kinds = {type(value) for value in self.values}
        if self.other:
            return None
        if kinds == {int, float}:
            return float
        return next((kind for kind in (int, float, bool) if kinds == {kind}), None)

    @property
    def arrow_type(self) -> pa.DataType:
        return {None: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}[self._native]

    def own_value(self, code: int) -> Any:
        native = self._native
        return super().own_value(code) if native is None or code >= self.regular else native(self.values[code])

    def _values(self, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        listed: list[Any] = [self.own_value(c) for c in range(self.regular)]
        return np.array([*listed, "other"] if self.other else listed, dtype=object)[codes]

    def _declared(self) -> dict[str, Any]:
        return {"values": list(self.values), "other": self.other}


@dataclass(frozen=True)
class Boolean(Column):
    """False (code 0) or true (code 1), from truths, from 0 and 1, or from true, t, yes, y and false, f, no, n.

    `values` are the spellings of false and of true, where they should come back as they were: "no" and "yes".
    """

    values: tuple[Scalar, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str] = "boolean"
    regular = 2

    def __post_init__(self) -> None:
        if self.values:
            self._check_spellings()
        self._check()

    def _check_spellings(self) -> None:
        values = self.values
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) != 2:
            raise self._error('values of a boolean are its spellings of false and true, as in values = ["no", "yes"]')
        object.__setattr__(self, "values", tuple(values))
        if not all(isinstance(value, str | int) for value in values) or None in map(text_of, values):
            raise self._error("spellings of a boolean are texts or whole numbers")
        if text_of(values[0]) == text_of(values[1]):
            raise self._error("values spells false and true alike: list two different ones")
        if truth_of(values[0]) is True or truth_of(values[1]) is False:
            raise self._error("values has the spelling of false first, then that of true: exchange them")

    def regular_label(self, code: int) -> str:
        return text_of(self.values[code]) or "" if self.values else ("false", "true")[code]

    def find(self, value: object) -> int | None:
        if self.values and (text := text_of(value)) is not None:
            spelled = [text_of(known) for known in self.values]
            if text in spelled:
                return spelled.index(text)
        truth = truth_of(value)
        return None if truth is None else int(truth)

    def _codes_where(self, op: str, literal: Any, snap: bool) -> CodeSet:
        code = self.find(literal)
        if code is None:
            spelled = " or ".join(self.labels[:2])
            raise UnknownValue(f'column "{self.name}" is boolean and has no value "{literal}": use {spelled}')
        return (code,) if op == "=" else (1 - code,)

    @property
    def arrow_type(self) -> pa.DataType:
        if not self.values:
            return pa.bool_()
        return pa.int64() if all(type(value) is int for value in self.values) else pa.string()

    def own_value(self, code: int) -> Any:
        if code >= self.regular:
            return None
        if not self.values:
            return bool(code)
        return self.values[code] if self.arrow_type == pa.int64() else self.label(code)

    def _values(self, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        return np.array([self.own_value(0), self.own_value(1)], dtype=object)[codes] if self.values else codes == 1

    def _declared(self) -> dict[str, Any]:
        return {"values": list(self.values)} if self.values else {}

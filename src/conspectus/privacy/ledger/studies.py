"""The registry of a ledger: for which studies it is spent, by whom, how much each may have, and its end.

The book (§13.1) asks for a registry of every use of a table: what for, by whom, how fast, and a cap at which the table
is retired. Here all of it is lines of the ledger. A study is declared by a line that costs nothing; a release says in
its own line which study it belongs to, and who asked. A study without a name would be one without a cap: as soon as a
ledger has studies, whatever is reserved under it names one of them.

A retired ledger has a last line, which holds all that was left. So a program that knows nothing of retiring finds
nothing left in it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import read_fraction
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import Cost, Currency, add_up
from conspectus.suggestions import did_you_mean, suggest_keywords

from .ledger_store import Entry, LedgerStore, Lines, damaged
from .ledger_terms import LedgerError
from .what_is_left import left_in_words

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST = 2000
_ROOM = 1 + Fraction(1, 1 << 52)
"""As the cap of a ledger, so that ten shares of the float 0.1 fit into a cap of 1."""


@suggest_keywords
@dataclass(frozen=True, kw_only=True)
class Study:
    """A study under a ledger: what it is for, the most it may spend, and what it spent.

    Attributes:
        name: What releases name it by.
        purpose: What it is for, in the owner's words.
        cap: The most that it may spend, in the ledger's currency; None where only the ledger's own cap holds.
        spent: What counts as spent for it: settled acts, and the whole of every open reservation.
        by: Who declared it.

    Example:
        >>> from fractions import Fraction
        >>> study = Study(name="trial-7", purpose="Does it help?", cap=Fraction(1, 2), spent=Fraction(1, 8))
        >>> study.remaining
        Fraction(3, 8)
    """

    name: str
    purpose: str
    cap: Fraction | None
    spent: Fraction = Fraction(0)
    by: str = ""

    @property
    def remaining(self) -> Fraction | None:
        """What is left of its cap; None where it has none."""
        return None if self.cap is None else self.cap - self.spent


@suggest_keywords
class Registry:
    """What a ledger knows of its studies, of who asked, and of its end.

    Attributes:
        study: The study that reservations made by this object are for; "" for none.
        by: Who asks; "" where nobody is named.
    """

    path: Path | str
    currency: Currency
    study: str = ""
    by: str = ""
    _file: LedgerStore

    def declare_study(self, name: str, *, purpose: str, budget: Budget | None = None, by: str = "") -> Study:
        """Declare a study, or declare it again with another purpose or cap: the newest line counts.

        From the first study on, whatever is released under the ledger has to name one: see `for_study`.

        Args:
            name: What releases name it by.
            purpose: What it is for, in a sentence.
            budget: The most that the study may spend, within the cap of the ledger. It caps the price in the ledger's
                currency; the δ that is set aside has one cap, the ledger's. None for no cap of its own.
            by: Who declares it.

        Returns:
            The study.

        Raises:
            LedgerError: The name or the purpose is no text, or too long.
            LedgerMismatch: The ledger counts ε, and the budget has a δ or is in ρ.
            LedgerRetired: The ledger was closed for good.
        """
        _check_text("the name of a study", name)
        _check_text("the purpose of a study", purpose)
        _check_text("who declares a study", by, empty=True)
        cap = None if budget is None else self.price_of(budget) * _ROOM
        said = {"name": name, "purpose": purpose, "cap": None if cap is None else str(cap)}
        content = {"label": f'the study "{name}"', "declares": said} | ({"by": by} if by else {})
        with self._file.writing() as lines:
            lines.check_open()
            number = lines.append("reserve", None, cost=Cost(), total=Cost(), content=content)
            lines.append("settle", number, cost=Cost(), total=Cost(), content={})
            return _studies(self.path, lines)[name]

    def price_of(self, budget: Budget) -> Fraction:
        """The price of all of a budget in the ledger's currency."""
        raise NotImplementedError

    def studies(self) -> tuple[Study, ...]:
        """The studies that were declared, in the order in which they first were.

        Returns:
            Each with its purpose, its cap, and what counts as spent for it.
        """
        with self._file.reading() as lines:
            return tuple(_studies(self.path, lines).values())

    def for_study(self, study: str = "", *, by: str = "") -> Self:
        """The same ledger in the name of a study and a person: what is reserved through it says so in its lines.

        Args:
            study: A study that was declared; "" for none, where the ledger has none.
            by: Who asks, as they are to be named in the ledger.

        Returns:
            The ledger, to be given as `ledger=` to `cs.release`, `cs.open_session` or `cs.open_stream`.

        Raises:
            LedgerError: There is no such study, or a name is no text.
        """
        _check_text("who asks", by, empty=True)
        _check_text("the name of a study", study, empty=True)
        named = copy.copy(self)
        named.study, named.by = study, by
        if study:
            with self._file.reading() as lines:
                _known(_studies(self.path, lines), study)
        return named

    def going_on(self, reserved: Entry) -> Self:
        """The same ledger in the name of whoever made a reservation, unless it has been given a name of its own.

        Args:
            reserved: The line of the reservation.

        Returns:
            The ledger: what is debited through it says who asked, also by a process that goes on years later.
        """
        if self.by:
            return self
        named = copy.copy(self)
        named.study, named.by = reserved.study, reserved.by
        return named

    def retire(self, reason: str, *, by: str = "") -> None:
        """Close the ledger for good: nothing more can be reserved or debited under it, and nothing undoes that.

        Every open reservation is settled at the acts that it has: its process draws nothing more. Sessions still answer
        from what they learned.

        Args:
            reason: Why, in a sentence, for whoever reads the ledger later.
            by: Who retires it.

        Raises:
            LedgerRetired: It was retired before.
            LedgerError: The reason is no text, or too long.

        Guarantee: when this returns, no act is ever debited again, by any process that has the ledger open or opens it
        later.
        """
        _check_text("the reason", reason)
        _check_text("who retires a ledger", by, empty=True)
        with self._file.writing() as lines:
            lines.check_open()
            for entry in lines.open_reservations():
                debited = lines.standing(entry).debited
                lines.append("settle", entry, cost=debited, total=debited, content={})
            spent, cap = lines.spent(), self._file.terms.cap
            rest = Cost(
                price=max(cap.price - spent.price, Fraction(0)), delta=max(cap.delta - spent.delta, Fraction(0))
            )
            content = {"retired": reason, "label": "the ledger was retired"} | ({"by": by} if by else {})
            lines.append("reserve", None, cost=rest, total=Cost(), content=content)

    @property
    def retired(self) -> Entry | None:
        """The line that closed the ledger for good, with when, why (`.retired`) and by whom; None while it is open."""
        with self._file.reading() as lines:
            return lines.retirement()

    def _registered(self, lines: Lines, cost: Cost, delta: float) -> dict[str, str]:
        """What a new reservation says of study and asker; refused where the ledger is retired, or the study has less
        left. From lines of the ledger alone. `delta` is where ρ is shown as an ε."""
        lines.check_open()
        studies = _studies(self.path, lines)
        if not self.study and studies:
            named = ", ".join(studies)
            raise LedgerError(
                f"this ledger is spent study by study: name one of {named}, as in ledger.for_study(...) or --study"
            )
        if self.study:
            study = _known(studies, self.study)
            if study.cap is not None and study.spent + cost.price > study.cap:
                left = left_in_words(study.cap - study.spent, study.cap, self.currency, delta)
                raise BudgetExceeded(
                    f'the study "{study.name}" has {left} left: ask for less, or for a larger cap of it'
                )
        said = {"study": self.study, "by": self.by}
        return {name: text for name, text in said.items() if text}


def _studies(path: Path | str, lines: Lines) -> dict[str, Study]:
    """The declared studies by name, each with what counts as spent for it."""
    declared: dict[str, Study] = {}
    spent: dict[str, Fraction] = {}
    for entry, cost in lines.reservations():
        if entry.declares is not None:
            study = _read(path, entry.declares, entry.by)
            declared[study.name] = study
        elif entry.study:
            spent[entry.study] = add_up(spent.get(entry.study, Fraction(0)), cost.price)
    return {
        name: Study(name=name, purpose=each.purpose, cap=each.cap, spent=spent.get(name, Fraction(0)), by=each.by)
        for name, each in declared.items()
    }


def _read(path: Path | str, said: Mapping[str, Any], by: str) -> Study:
    name, purpose, cap = (said.get(key) for key in ("name", "purpose", "cap"))
    if not isinstance(name, str) or not isinstance(purpose, str):
        raise damaged(path)
    try:
        return Study(name=name, purpose=purpose, cap=None if cap is None else read_fraction(cap), by=by)
    except (ValueError, TypeError, ArithmeticError):
        raise damaged(path) from None


def _known(studies: Mapping[str, Study], name: str) -> Study:
    if name in studies:
        return studies[name]
    if not studies:
        raise LedgerError(
            "this ledger has no studies: declare one with ledger.declare_study, or conspectus ledger study"
        )
    raise LedgerError(f'no study is called "{name}"{did_you_mean(name, list(studies))}; there are {", ".join(studies)}')


def _check_text(what: str, text: object, *, empty: bool = False) -> None:
    if not isinstance(text, str) or not (text.strip() or (empty and not text)) or len(text) > _LONGEST:
        raise LedgerError(f"{what} is a text of at most {_LONGEST:,} characters")

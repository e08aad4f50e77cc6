"""What questions would cost at most, before they are asked: from public facts alone.

Which questions were answered before, whether the mechanism has a watch open and what is left of the budget are all
public. So is a quote: it spends nothing, and asking for many of them tells nothing about the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from conspectus.mechanisms.online_mechanism import OnlineRun
from conspectus.privacy.accounting import Filter
from conspectus.privacy.guarantee import printed
from conspectus.privacy.prices import cost_of

from .live_answer import reply_by_schema
from .questions import Question
from .store import Store


@dataclass(frozen=True, kw_only=True)
class Quote:
    """What a question, or a query that puts several, would cost at most. Made by `session.quote`.

    Attributes:
        cost: The most that it may take from the budget, in the session's currency. A guess that is good costs less.
        currency: "epsilon" or "rho".
        questions: How many new questions it would put to the session.
        repeated: How many of its questions were answered before, and cost nothing.
        counted: How many of the new ones may use up one of the declared questions: those that what was bought in
            advance does not tell.
        left: How many of the declared questions are left now.
        remaining: What is left of the budget now.
        affordable: Whether what is left pays for the most that it may cost, and the declared number of questions
            allows it. Otherwise some answers may come without a guarantee, or be refused.
    """

    cost: float
    currency: Literal["epsilon", "rho"]
    questions: int
    repeated: int
    remaining: float
    affordable: bool
    counted: int
    left: int

    def __str__(self) -> str:
        sign = "ε" if self.currency == "epsilon" else "ρ"
        asked = f"{self.questions:,} new question{'' if self.questions == 1 else 's'}"
        if self.counted:
            some = "" if self.counted == self.questions else f"{self.counted:,} of them count, "
            asked += f" ({some}{self.left:,} left)"
        if self.repeated:
            asked += f", {self.repeated:,} answered before"
        if not self.cost:
            return f"costs nothing: {asked}; {sign} {self.remaining:.4g} left"
        short = "" if self.affordable else ", which does not pay for all of it with a guarantee"
        return f"costs at most {sign} {printed(self.cost, 4)}: {asked}; {sign} {self.remaining:.4g} left{short}"


def quoted(
    run: OnlineRun,
    store: Store,
    held: Filter,
    asked: Iterable[Question],
    *,
    left: int,
    over: bool,
    outright: bool = False,
) -> Quote:
    """What some different questions would cost at most, one after the other.

    Args:
        run: What would answer them.
        store: What was answered before.
        held: What the session may spend.
        asked: The questions.
        left: How many of the declared questions are left.
        over: Whether nothing more is bought, since the session was ended or its questions are used up.
        outright: Whether their answers would be bought outright.
    """
    new, counted, repeated, price = 0, 0, 0, Fraction(0)
    spent, unguaranteed = over or run.exhausted, False
    for question in {one.key: one for one in asked}.values():
        given = store.find(question.key)
        if given is not None and (given.bought or not outright):
            repeated += 1
            continue
        new += 1
        if reply_by_schema(question.workload, run.total) is not None:
            continue
        if spent and not outright:
            unguaranteed = unguaranteed or run.known(question.workload) is None
            continue
        acts = run.acts_at_most(question.workload, outright=outright, later=counted > 0)
        price += sum((cost_of(act, held.currency, held.neighbours).price for act in acts), Fraction(0))
        unguaranteed = unguaranteed or (over and bool(acts))
        counted += bool(acts) and given is None
    return Quote(
        cost=float(min(price, held.remaining)),
        currency="epsilon" if held.currency == "pure" else "rho",
        questions=new,
        repeated=repeated,
        remaining=float(held.remaining),
        affordable=price <= held.remaining and not unguaranteed and (outright or counted <= left),
        counted=counted,
        left=left,
    )

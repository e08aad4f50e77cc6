"""Learning from a release: which of some rules agrees best with a label, by post-processing alone (§11.1)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from conspectus.data.schema import Schema
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.formulas import TooManyBoxes, any_box, opposite, predicate
from conspectus.queries.language import from_sql as language
from conspectus.queries.language.to_sql import to_sql
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.synopsis import CannotAnswer, Total

from .answer import Answer


class HypothesisError(ValueError):
    """There is no rule to choose from."""


def check_rules(hypotheses: Sequence[str]) -> None:
    """Refuse what is no list of rules."""
    if isinstance(hypotheses, str) or not hypotheses:
        raise HypothesisError("best chooses among rules: give a list of predicates")


def agreement_of(rule: str, label: str) -> str:
    """Where a rule is right: both it and the label are known, and they are the same."""
    return f"(({rule}) AND ({label})) OR (NOT ({rule}) AND NOT ({label}))"


@dataclass(frozen=True, kw_only=True)
class Best:
    """The rule that errs the least, as the release sees it.

    Attributes:
        position: Which of the rules it is.
        hypothesis: The rule itself.
        error: The share of rows on which it is not the label, with an interval where there is an honest one. A row
            where either is missing is an error. The interval is for this rule alone; of many rules the best one looks
            a little better than it is.
        errors: The share of rows on which each rule is not the label, in order.
    """

    position: int
    hypothesis: str
    error: Answer
    errors: tuple[float, ...]


@suggest_keywords
class Learning:
    """What lets a release say which rule predicts a label."""

    if TYPE_CHECKING:
        schema: Schema

        @property
        def total(self) -> Total: ...

        def ask(self, question: str | Workload, *, confidence: float = 0.95) -> Answer: ...

    def best(self, hypotheses: Sequence[str], label: str, *, confidence: float = 0.95) -> Best:
        """Say which of some rules agrees best with a label. Nothing is spent: it asks the release alone.

        Args:
            hypotheses: SQL predicates over the columns, such as "age > 50 AND smoker".
            label: The predicate that they should predict, such as "ill". A row where either is missing is an error.
            confidence: The probability, over the noise, with which the interval of an error holds the truth.

        Returns:
            The rule with the least share of rows on which it is not the label, that share, and those of all.

        Raises:
            HypothesisError: There is no rule.
            CannotAnswer: The release does not hold the columns of a rule and of the label together.
            NotAPredicate: A rule, or the label, is not a predicate over the columns.
        """
        check_rules(hypotheses)
        found = [self._error(agreement_of(rule, label), confidence) for rule in hypotheses]
        errors = tuple(answer.fraction for answer in found)
        position = min(range(len(errors)), key=errors.__getitem__)
        return Best(position=position, hypothesis=hypotheses[position], error=found[position], errors=errors)

    def _error(self, agreement: str, confidence: float) -> Answer:
        """The share of all other rows: asked for itself, and where the release does not hold it, as what is left.

        SQL does not say so by NOT: where something is missing, a predicate and its negation are both unknown.
        """
        domain, reading = self.schema.domain, language.read(self.schema, agreement)
        with suppress(CannotAnswer, TooManyBoxes):
            wrong = predicate(domain, opposite(domain, any_box(domain, reading.query.boxes)))
            held = self.ask(Workload(domain, (Conjunctions.of(domain, [wrong]),)), confidence=confidence)
            return replace(held, question=to_sql(self.schema, wrong), notes=(*reading.notes, *held.notes))
        held = self.ask(agreement, confidence=confidence)
        return replace(
            held,
            fraction=1 - held.fraction,
            count=None if held.count is None else self.total.divisor - held.count,
            low=None if held.high is None else 1 - held.high,
            high=None if held.low is None else 1 - held.low,
            question=f"all but: {held.question}",
        )

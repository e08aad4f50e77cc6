"""Learning from a release: which of some rules agrees best with a label, by post-processing alone (§11.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conspectus.suggestions import suggest_keywords

from .answer import Answer


class HypothesisError(ValueError):
    """There is no rule to choose from."""


def check_rules(hypotheses: Sequence[str]) -> None:
    """Refuse what is no list of rules."""
    if isinstance(hypotheses, str) or not hypotheses:
        raise HypothesisError("best chooses among rules: give a list of predicates")


@dataclass(frozen=True, kw_only=True)
class Best:
    """The rule that errs the least, as the release sees it.

    Attributes:
        position: Which of the rules it is.
        hypothesis: The rule itself.
        error: The share of rows on which it differs from the label, with an interval where there is an honest one. The
            interval is for this rule alone; of many rules the best one looks a little better than it is.
        errors: The share of rows on which each rule differs from the label, in order.
    """

    position: int
    hypothesis: str
    error: Answer
    errors: tuple[float, ...]


@suggest_keywords
class Learning:
    """What lets a release say which rule predicts a label."""

    if TYPE_CHECKING:

        def ask(self, question: str, *, confidence: float = 0.95) -> Answer: ...

    def best(self, hypotheses: Sequence[str], label: str, *, confidence: float = 0.95) -> Best:
        """Say which of some rules agrees best with a label. Nothing is spent: it asks the release alone.

        Args:
            hypotheses: SQL predicates over the columns, such as "age > 50 AND smoker".
            label: The predicate that they should predict, such as "ill".
            confidence: The probability, over the noise, with which the interval of an error holds the truth.

        Returns:
            The rule with the least share of rows on which it differs from the label, that share, and those of all.

        Raises:
            HypothesisError: There is no rule.
            CannotAnswer: The release does not hold the columns of a rule and of the label together.
            NotAPredicate: A rule, or the label, is not a predicate over the columns.
        """
        check_rules(hypotheses)
        found = [
            self.ask(f"(({rule}) AND NOT ({label})) OR (NOT ({rule}) AND ({label}))", confidence=confidence)
            for rule in hypotheses
        ]
        errors = tuple(answer.fraction for answer in found)
        position = min(range(len(errors)), key=errors.__getitem__)
        return Best(position=position, hypothesis=hypotheses[position], error=found[position], errors=errors)

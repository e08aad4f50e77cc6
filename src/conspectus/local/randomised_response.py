"""Randomised response: everybody adds noise to their own answer, and nobody has to be trusted with the answers.

The book's survey (§2.3, Claim 3.5): toss a coin; tails, tell the truth; heads, toss again and say "yes" or "no" by
that. A true yes is told with probability 3/4 and a true no as yes with 1/4, so that ε = ln 3. Here for any ε and any
list of values: the truth with probability e^ε/(e^ε + k − 1), each other value with 1/(e^ε + k − 1).

What is known of n people is then off by about √n, where a trusted curator's count is off by about 1/ε (§12.1).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import binom

from conspectus.privacy.exponential import draw, slack
from conspectus.privacy.noise import Sampler, SystemSampler
from conspectus.queries.rules import demand
from conspectus.suggestions import suggest_keywords

LEAST_EPSILON = float(2 * slack())
"""An ε has to be above it: half of it is what the rounding of the coin's weights may take."""
MOST_EPSILON = 30.0
"""Beyond it an answer is the truth but for one in 10¹³, and the coin's weights would end at their floor."""


class LocalError(ValueError):
    """A question or a list of reports that randomised response cannot serve."""


@dataclass(frozen=True, kw_only=True)
class LocalShare:
    """What the reports say about one value.

    Attributes:
        value: The value.
        share: The unbiased estimate of how large a part of the people have it. It may be below 0 or above 1.
        low: The lower end of the interval, as a share.
        high: The upper end.

    Example:
        >>> survey = cs.local.RandomisedResponse(values=["no", "yes"], epsilon=2.0)
        >>> [told.value for told in survey.decode(["no", "yes", "yes"])]
        ['no', 'yes']
    """

    value: Any
    share: float
    low: float
    high: float


@suggest_keywords
@dataclass(frozen=True, kw_only=True)
class RandomisedResponse:
    """One question that everybody answers with noise of their own.

    Privacy: a report is ε-differentially private in the answer of the one who gives it. Several questions to one person
    add up their ε.

    Args:
        values: The possible answers, two or more.
        epsilon: The privacy loss ε of one report, above 2⁻⁵⁰ (about 9·10⁻¹⁶) and at most 30.

    Raises:
        LocalError: There are fewer than two different values, one that does not equal itself, or ε is out of range.

    Example:
        >>> survey = cs.local.RandomisedResponse(values=["no", "yes"], epsilon=1.0986122886681098)
        >>> round(survey.truth, 9)
        0.75
        >>> reports = [survey.respond(answer) for answer in ["yes"] * 700 + ["no"] * 300]
        >>> told = survey.decode(reports)[1]
        >>> told.value, told.low < told.share < told.high, 0.5 < told.share < 0.9
        ('yes', True, True)
    """

    values: tuple[Any, ...] | list[Any]
    epsilon: float
    _sampler: Sampler = field(default_factory=SystemSampler, repr=False, compare=False)

    def __post_init__(self) -> None:
        comparable = all(_equals_itself(value) for value in self.values)
        different = comparable and len(set(self.values)) == len(self.values) >= 2
        number = type(self.epsilon) in (int, float) and LEAST_EPSILON < self.epsilon <= MOST_EPSILON
        demand(
            LocalError,
            (comparable, "an answer equals itself and has a hash, so that reports of it are found: NaN is none"),
            (different, "a question has at least two different answers"),
            (
                number,
                f"epsilon lies above {LEAST_EPSILON:.2g}, for rounding needs a part of it, and is at most "
                f"{MOST_EPSILON:g}",
            ),
        )

    @property
    def truth(self) -> float:
        """The probability with which the true answer is reported."""
        return 1 / (1 + (len(self.values) - 1) * math.exp(-self.epsilon))

    @property
    def other(self) -> float:
        """The probability with which one given other answer is reported."""
        return (1 - self.truth) / (len(self.values) - 1)

    def respond(self, answer: Any) -> Any:
        """A noisy report of one's own answer. It is meant to be called where the answer is, and the answer forgotten.

        Args:
            answer: One of the values.

        Returns:
            One of the values.

        Raises:
            LocalError: The answer is none of the values.

        Guarantee: whatever two answers are compared, each report is at most e^ε times as likely for the one as for the
        other.
        """
        if answer not in self.values:
            raise LocalError("an answer is one of the values that were declared")
        scores = np.array([value == answer for value in self.values], dtype=np.int64)
        rate = Fraction(self.epsilon) - slack()
        return self.values[int(draw(scores, rate=rate, draws=1, sampler=self._sampler)[0])]

    def decode(self, reports: Iterable[Any], *, confidence: float = 0.95) -> list[LocalShare]:
        """What the reports of many people say: how large a part of them has each value.

        Args:
            reports: One report for each person.
            confidence: The probability, over the noise, with which the interval of one value holds the truth about the
                people who reported.

        Returns:
            An estimate with its interval for each value, in order.

        Raises:
            LocalError: There is no report, a report is none of the values, or the confidence is none.
        """
        try:
            seen = Counter(reports)
        except TypeError:  # one without a hash, or no reports at all
            raise LocalError("a report is one of the values that were declared") from None
        people = sum(seen.values())
        demand(
            LocalError,
            (people > 0, "there is no report to decode"),
            (set(seen) <= set(self.values), "a report is one of the values that were declared"),
            (0 < confidence < 1, "a confidence lies strictly between 0 and 1"),
        )
        return [self._share(value, seen[value], people, 1 - confidence) for value in self.values]

    def _share(self, value: Any, seen: int, people: int, failure: float) -> LocalShare:
        # truth − other, written so that a small ε does not make it zero: other is truth·e^(−ε).
        estimate = (seen / people - self.other) / (self.truth * -math.expm1(-self.epsilon))
        # More people with the value make more reports of it likelier: the ends are found by bisection.
        enough, some = failure / 2, range(people)
        low = bisect_left(some, True, key=lambda held: self._tail(seen, held, people, above=True) > enough)
        rest = bisect_left(some, True, key=lambda rest: self._tail(seen, people - rest, people, above=False) > enough)
        return LocalShare(value=value, share=estimate, low=low / people, high=(people - rest) / people)

    def _tail(self, seen: int, holders: int, people: int, *, above: bool) -> float:
        """The chance of at least, or at most, so many reports of a value that `holders` of the people have."""
        told = np.arange(holders + 1)
        chances = binom.pmf(told, holders, self.truth)
        rest = people - holders
        tails = binom.sf(seen - told - 1, rest, self.other) if above else binom.cdf(seen - told, rest, self.other)
        return float(chances @ tails)


def _equals_itself(value: Any) -> bool:
    """Whether a value is found among others by comparing. NaN is not, and neither is whatever holds one: Python takes a
    tuple for equal to itself without a look at its parts, and a copy of it that came from elsewhere for another one."""
    try:
        hash(value)
        same = bool(value == value)
    except (TypeError, ValueError, ArithmeticError):  # pandas' missing value is neither equal nor unequal
        return False
    return same and (not isinstance(value, tuple | frozenset) or all(_equals_itself(part) for part in value))

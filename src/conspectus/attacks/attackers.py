"""What an attacker computes from published answers: differences, the best table, a linear program, who is in it.

All of it is arithmetic on numbers that anybody may have. Nothing here reads a private table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import bmat, csr_array, eye_array

from conspectus.whole_numbers import MOST, whole

Answers = NDArray[np.float64]
Bits = NDArray[np.bool_]

MOST_EXHAUSTIVE = 20
"""The most people of whom all possible tables are tried."""


class AttackError(ValueError):
    """Numbers that no attack can be made on: answers that do not belong to their questions, or too many people."""


def differencing(everybody: float, without: Answers) -> Bits:
    """Guess one bit a person from how many have it, and how many have it besides this person.

    The book's first example (§1.1): two harmless counts, of which the difference is one person's secret.

    Args:
        everybody: The published count of the trait among all people.
        without: For each person, the published count of the trait among all others.

    Returns:
        For each person whether the two counts differ by more than a half.

    Raises:
        AttackError: `without` is not a list of numbers.

    Example:
        >>> import numpy as np
        >>> cs.attacks.differencing(2, np.array([1, 2, 1])).tolist()
        [True, False, True]
    """
    counts = _numbers(without)
    if counts.ndim != 1:
        raise AttackError("differencing takes one count for each person")
    return np.asarray(everybody - counts > 0.5)


def exhaustive(asked: Bits, answers: Answers) -> Bits:
    """The table of bits that is nearest to the answers, of all that there are.

    Dinur and Nissim's inefficient attack (Theorem 8.1): whatever table is consistent with all answers within E has at
    most 4E wrong bits. This one has the least sum of deviations.

    Args:
        asked: Which people each question is about: questions × people.
        answers: The published count of the trait for each question.

    Returns:
        One bit for each person.

    Raises:
        AttackError: There are more than 20 people, or another number of answers than of questions.

    Example:
        >>> import itertools, numpy as np
        >>> asked = np.array(list(itertools.product([False, True], repeat=4)))
        >>> secret = np.array([True, False, False, True])
        >>> cs.attacks.exhaustive(asked, asked.astype(int) @ secret + 0.2).tolist()
        [True, False, False, True]
    """
    questions, counts = _matched(asked, answers)
    people = questions.shape[1]
    if people > MOST_EXHAUSTIVE:
        raise AttackError(f"all tables of {people} people are too many: use linear, or {MOST_EXHAUSTIVE} people")
    best, least = np.zeros(people, dtype=bool), np.inf
    for first in range(0, 1 << people, 1 << 12):
        numbers = np.arange(first, min(first + (1 << 12), 1 << people))
        tables = (numbers[:, None] >> np.arange(people)) & 1
        off = np.abs(tables @ questions.T.astype(np.float64) - counts).sum(axis=1)
        place = int(off.argmin())
        if off[place] < least:
            best, least = tables[place].astype(bool), float(off[place])
    return best


def linear(asked: Bits, answers: Answers) -> Bits:
    """The table of bits that a linear program finds: shares between 0 and 1 with the least sum of deviations, rounded.

    The efficient attack (Theorem 8.2 and what follows it): with enough random questions it finds nearly every bit
    unless the noise is about the root of the number of people. It takes moments for hundreds of people.

    Args:
        asked: Which people each question is about: questions × people.
        answers: The published count of the trait for each question.

    Returns:
        One bit for each person.

    Raises:
        AttackError: There is another number of answers than of questions.

    Example:
        >>> import numpy as np
        >>> rng = np.random.Generator(np.random.PCG64(1))
        >>> asked, secret = rng.random((200, 40)) < 0.5, rng.random(40) < 0.5
        >>> found = cs.attacks.linear(asked, asked.astype(int) @ secret + rng.normal(0, 0.5, 200))
        >>> bool((found == secret).all())
        True
    """
    questions, counts = _matched(asked, answers)
    number, people = questions.shape
    matrix, slack = csr_array(questions.astype(np.float64)), eye_array(number)
    # |A·c − y| ≤ t for each question, and Σ t least.
    bounds = bmat([[matrix, -slack], [-matrix, -slack]])
    costs = np.concatenate([np.zeros(people), np.ones(number)])
    ends = [(0.0, 1.0)] * people + [(0.0, None)] * number
    found = linprog(costs, A_ub=bounds, b_ub=np.concatenate([counts, -counts]), bounds=ends, method="highs")
    if found.x is None:
        return np.zeros(people, dtype=bool)
    return np.asarray(found.x[:people] > 0.5)


def membership(shares: Answers, population: Answers, records: Bits, *, rows: int) -> Bits:
    """Guess which records are rows of the table from how its shares differ from those of the population.

    Whoever is in a small table pulls every share a little towards their own values. The test adds that up over all
    columns (the attack on published frequencies of genomes), and guesses "in" above half of what one row adds.

    Args:
        shares: The published share of each trait in the table.
        population: The share of each trait in the population, strictly between 0 and 1.
        records: Whose membership to guess, by their traits: people × traits.
        rows: The number of rows of the table.

    Returns:
        For each record whether it is guessed to be a row of the table.

    Raises:
        AttackError: The shapes do not belong together, or a share of the population is 0 or 1.

    Example:
        >>> import numpy as np
        >>> rng = np.random.Generator(np.random.PCG64(2))
        >>> rows, others = rng.random((2, 10, 500)) < 0.5
        >>> half = np.full(500, 0.5)
        >>> bool(cs.attacks.membership(rows.mean(axis=0), half, rows, rows=10).mean() > 0.8)
        True
        >>> bool(cs.attacks.membership(rows.mean(axis=0), half, others, rows=10).mean() < 0.2)
        True
    """
    released, known = _numbers(shares), _numbers(population)
    traits = np.asarray(records, dtype=np.float64)
    if released.shape != known.shape or traits.ndim != 2 or traits.shape[1:] != known.shape:
        raise AttackError("a share of the table, one of the population and one value a record belong to every trait")
    if not whole(rows) or not np.all((known > 0) & (known < 1)):
        raise AttackError(
            f"shares of the population lie strictly between 0 and 1, and a table has from 1 to {MOST:,} rows"
        )
    scores = (traits - known) / (known * (1 - known)) @ (released - known)
    return np.asarray(scores > len(known) / (2 * rows))


def _numbers(values: Answers) -> Answers:
    """Numbers as floats; an answer that was refused (NaN) says nothing, and counts as nothing."""
    return np.nan_to_num(np.asarray(values, dtype=np.float64))


def _matched(asked: Bits, answers: Answers) -> tuple[Bits, Answers]:
    questions, counts = np.asarray(asked, dtype=bool), _numbers(answers)
    if questions.ndim != 2 or counts.shape != questions.shape[:1] or 0 in questions.shape:
        raise AttackError("each answer belongs to one question, and each question to a line of people")
    return questions, counts

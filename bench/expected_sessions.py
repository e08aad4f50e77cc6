"""What plans of sessions expect of their errors, beside what sessions do: `python -m bench.expected_sessions`.

With the word `chosen` it prints the same for the made sessions on which factors were chosen.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from tests.made_problems import budget_of, ratio
from tests.made_sessions import MadeSession, made_session, typical_questions

from bench import record
from bench.expected import Found, deciles, real_table, shares_within
from bench.ordinary_tables import Case, acs, adult, census, diabetic, kdd, nltcs
from conspectus.mechanisms.typical.expectations import ONLINE_VARIES

CHOSEN, MADE, REAL = range(1_000, 1_160), range(60_000, 60_120), range(70_000, 70_080)
"""Seeds: of the sessions that factors were chosen on, and of those reported."""
TABLES = (adult, nltcs, census, diabetic, acs, kdd)
CELLS = 1 << 16

NOTE = (
    "{made} made sessions (tables of six shapes, or of records, 1,000 to 100,000 rows, ε from 0.1 to 4, δ = 0 or "
    "above, both relations), and {real} over columns of Adult, NLTCS, Census-Income, Diabetic, ACS Income and KDD Cup "
    "99, chosen at random. Each asks up to 400 conjunctions of one to four columns, as many of each, or lists of "
    "records, of every mechanism that expects at most a quarter of the rows at worst. *Factor* is what the plan says: "
    "expected errors are right within it in nine of ten sessions. *Within* is the share of sessions for which that "
    "was so, of the mean and of the largest error; *ratio* is the median of expected over measured. Factors were "
    "chosen on other made sessions (`python -m bench.expected_sessions chosen`)."
)


def real_session(seed: int, tables: list[Case]) -> MadeSession:
    """Some columns and rows of a real table, and typical questions about them."""
    case, rows, rng = real_table(seed, tables, columns=range(3, 13), cells=CELLS)
    table = case.table()
    return MadeSession(case.title, table, typical_questions(rng, table.schema), budget_of(rng, rows))


def ratios(sessions: Iterable[MadeSession]) -> Found:
    """For each mechanism its factor and both ratios of each session."""
    found: Found = defaultdict(list)
    for number, session in enumerate(sessions):
        for claim in session.claims():
            assert claim.expected_within is not None
            mean, largest = session.errors(claim.mechanism)
            both = ratio(claim.expected_mean, mean), ratio(claim.expected_max, largest)
            found[claim.mechanism].append((claim.expected_within, *both))
            if max(abs(np.log(both))) > np.log(claim.expected_within):
                print(number, claim.mechanism, session.shape, session.budget, *(f"{x:.2f}" for x in both), flush=True)
    return found


def main() -> None:
    if sys.argv[1:] == ["chosen"]:
        deciles(ratios(map(made_session, CHOSEN)))
        return
    tables = [load() for load in TABLES]
    made, real = ratios(map(made_session, MADE)), ratios(real_session(seed, tables) for seed in REAL)
    note = NOTE.format(made=len(MADE), real=len(REAL))
    text = f"{note}\n\n{shares_within(made, real, ONLINE_VARIES, what='sessions')}"
    title = "What plans of sessions expect of their errors"
    record("expected-sessions", title, text, "python -m bench.expected_sessions")


if __name__ == "__main__":
    main()

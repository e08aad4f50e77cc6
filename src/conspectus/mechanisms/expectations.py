"""Every measured constant of the typical-error models, with where it comes from.

A claim says two things about errors. Its *bound* is proved. Its *expected* errors are typical: a formula of public
facts, times constants that were measured on tables that we know. This is the table of those constants. They decide
which mechanism the planner picks; no privacy and no proved bound rests on them.

Where a comment names tables but no command, the constant was chosen on them by hand when the model was written, and
the run was not kept. All are checked since by two commands, whose output `docs/benchmarks.md` keeps: `python -m bench
planner` prints what each mechanism expected beside what it did, on NLTCS, on Adult and on made tables; `python -m bench
crossover` does so on NLTCS as questions grow in number. Change a constant only with what both print.
"""

from __future__ import annotations

# Single questions of which some are never measured (`iterative.unmeasured`): for mwem, projection and boosting.

UNMEASURED = 0.23
"""Times √(√ln|X|·ln|Q|/(n√ρ)), the shape of the theorems, is the largest error of a question that was not measured, as
a fraction of the rows. Chosen on NLTCS, 100 to 100,000 conjunctions (`python -m bench crossover`)."""

# Fitted marginals, interaction by interaction (`interactions`): for mwem, projection and boosting.

SKEW = 2 / 3
"""How variable a two-valued column of unknown bias p is, next to a fair coin: ∫ 4p(1 − p) dp from 0 to 1. Not measured:
the mean over all biases."""

FADING = 5.0
"""How much weaker an interaction is for each further column. A round guess, about right for NLTCS."""

TAIL = 1.15
"""The largest error, over what it would be if all cells were alike: errors are larger in the larger cells. Measured on
NLTCS and on made tables."""

# mwem, where some questions are no marginals.

MWEM_LARGEST = 0.85
"""The largest error, over the expected maximum of the noise on all questions. From real tables."""

MWEM_MEAN = 0.7
"""The mean error, over the mean size of the noise on one answer. From real tables."""

MWEM_UNMEASURED_MEAN = 0.15
"""The mean error, over the largest one of a question that was not measured. Chosen with UNMEASURED, on NLTCS."""

# iterative.

ITERATIVE_LEFT = 0.1
"""Times √(ln|X|/T) is what multiplicative weights leaves after T updates, as a fraction of the rows; the theorem's
T(α) = 4 ln|X|/α² would make it 2. No table is on record."""

ITERATIVE_LEFT_MEAN = 0.1
"""The mean of what it leaves, over the maximum. A round guess."""

# projection, where some questions are no marginals.

PROJECTION_MEAN = 0.65
"""The mean error, over that of noise in the space of possible answers: non-negativity removes about another third. From
real tables."""

PROJECTION_LARGEST = 1.15
"""The largest error, over the largest of as many Gaussian errors with that mean. The same effect as TAIL."""

PROJECTION_UNMEASURED = 0.85
"""Times `iterative.unmeasured` is the largest error where single questions are so many that they bound one another.
Chosen with UNMEASURED, on NLTCS."""

# boosting, where some questions are no marginals, or a synopsis has no history.

BOOSTING_LARGEST = 0.65
"""The largest error, over the expected maximum of the noise on all samples. From real tables: what was never drawn is
about as wrong as what was."""

BOOSTING_MEAN = 0.35
"""The mean error, over the mean size of the noise on one answer. From real tables."""

BOOSTING_UNMEASURED = 1.15
"""Times `iterative.unmeasured` is the largest error of a question that was never drawn. Chosen with UNMEASURED, on
NLTCS."""

# dual-query.

# small-db and net.

# sparse-project.

# Online mechanisms.

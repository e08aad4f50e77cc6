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

UNKNOWN_ROWS = 100_000
"""What every claim and plan takes for the number of rows where it is private and was not declared: the middle, on a
logarithmic scale, of 10,000 to 1,000,000 rows. A pick for fewer or more rows expects more error at the ends of that
range, on average and at worst (`python -m bench.unknown_rows`)."""

ROWS_ASSUMED = (
    f"planned for {UNKNOWN_ROWS:,} rows, as their number is private and was not declared: rows= declares it, for a "
    "better choice"
)
"""The note of every claim that rests on the assumed number of rows."""

VARIES = {
    "gaussian": 2.0,
    "laplace": 3.0,
    "histogram": 3.0,
    "tree": 5.0,
    "projection": 5.0,
    "adaptive": 5.0,
    "small-db": 8.0,
    "boosting": 8.0,
    "dual-query": 8.0,
    "mwem": 10.0,
    "iterative": 25.0,
    "stable-histogram": 30.0,
    "sparse-project": 60.0,
}
"""By which factor expected errors are right in about nine of ten releases: how much an error varies with the table,
which no public fact tells. The ninth deciles of `python -m bench.expected chosen`, of the kind of table where they are
largest, rounded up: seven shapes of made tables, and columns of Adult, NLTCS and Census-Income. `python -m
bench.expected` reports on others."""

# Single questions of which some are never measured (`iterative.unmeasured`): for mwem, projection and boosting.

UNMEASURED = 0.23
"""Times √(√ln|X|·ln|Q|/(n√ρ)), the shape of the theorems, is the largest error of a question that was not measured, as
a fraction of the rows. Chosen on NLTCS, 100 to 100,000 conjunctions (`python -m bench crossover`)."""

# Fitted marginals, interaction by interaction (`interactions`): for mwem, projection and boosting.

SKEW = 2 / 3
"""How variable a two-valued column of unknown bias p is, next to a fair coin: ∫ 4p(1 − p) dp from 0 to 1. Not measured:
the mean over all biases."""

FADING = 7.0
"""How much weaker an interaction is for each further column. Chosen on NLTCS, triples at ε = 1 and 4; of made tables
whose triples say nothing beyond pairs it is too much, by up to seven at 500,000 rows (`python -m bench planner`)."""

TAIL = 1.15
"""The largest error, over what it would be if all cells were alike: errors are larger in the larger cells. Measured on
NLTCS and on made tables. `python -m bench.whole_tables` prints what was expected of one whole table, and what was
done."""

FIT_LEFT, FIT_LEFT_CELLS = 1.5, 16_384
"""The largest error, in counts, that is left where a fit of so many cells ends before it converged, however little
noise there was: between 0.6 and 4.6 for one table of as many cells, ε = 10 to 50. Smaller fits leave less."""

# mwem, where some questions are no marginals.

MWEM_LARGEST = 0.85
"""The largest error, over the expected maximum of the noise on all questions. From real tables."""

MWEM_MEAN = 0.7
"""The mean error, over the mean size of the noise on one answer. From real tables."""

MWEM_UNMEASURED_MEAN = 0.15
"""The mean error, over the largest one of a question that was not measured. Chosen with UNMEASURED, on NLTCS."""

MWEM_GAP = 0.01
"""The largest error of prefixes and ranges of which some are not measured, as a part of the rows, whatever the budget.
Chosen on prefixes and ranges of the ages of Adult and of made columns of 64 and 300 values with one peak and with two,
5,000 and 30,000 rows, ε = 0.1, 1 and 4: between 0.006 and 0.02."""

# iterative.

ITERATIVE_LEFT = 0.1
"""Times √(ln|X|/T) is what multiplicative weights leaves after T updates, as a fraction of the rows; the theorem's
T(α) = ln|X|/2α² would make it 0.7. No table is on record."""

ITERATIVE_LARGEST, ITERATIVE_MEAN = 0.8, 0.25
"""The largest and the mean error, over that balance: the fit to all that was measured takes much of it away. From made
tables (`python -m bench.expected`), on the careful side: no other mechanism varies as much with the table."""

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
"""Times `iterative.left_out` is the largest error of a question that was never drawn. Chosen with UNMEASURED, on
NLTCS."""

BOOSTING_UNMEASURED_MEAN = 0.15
"""The mean error, over the largest one of a question that was never drawn. Chosen with MWEM_GAP: between 0.12 and
0.37."""

BOOSTING_GAP = 0.025
"""What MWEM_GAP is for mwem: between 0.016 and 0.08 on the same tables. Questions are drawn, not looked for."""

# adaptive: what is read off tables that were run, between two kinds of them. With x the noise of columns (`shares_of`),
# the L1 error of a marginal is b·x^p and the largest error of a cell B·x^q.

ADAPTIVE_SMALL = (1.5, 0.75, 1.35, 0.8)
"""b, p, B and q for tables of up to ADAPTIVE_SMALL_CELLS cells. From NLTCS, ε = 0.1, 1 and 10 (`python -m bench
ordinary`)."""

ADAPTIVE_LARGE = (0.46, 0.3, 0.07, 0.6)
"""The same for tables of ADAPTIVE_LARGE_CELLS cells and more. From Adult, ε = 0.1, 1 and 10 (`python -m bench
ordinary`). In between, on a logarithmic scale."""

ADAPTIVE_SMALL_CELLS, ADAPTIVE_LARGE_CELLS = 8, 8000
"""Cells of a marginal of three columns of NLTCS, and of a usual one of Adult."""

ADAPTIVE_BEYOND = (0.035, 0.003)
"""What pairs and triples do not say of wider marginals, whatever the budget: to the L1 error and to the largest one,
for each column beyond three. From 5-way marginals of NLTCS, ε = 1 (`python -m bench.planner marginals`)."""

ADAPTIVE_DENSE, ADAPTIVE_DENSE_CELLS = 1.25, 1 << 20
"""By how much the L1 error is larger in universes of up to so many cells. From four tables of six and seven columns
(Adult, Diabetic, Census-Income) at ε = 0.1, 1 and 10: without it `projection`, whose claims are by a sixth too careful
there, lost to claims of `adaptive` at ε = 1 and was better on three of the four, by 3 to 10 %."""

ADAPTIVE_LISTED = 1.7
"""The largest error of listed questions of three columns or more, over that of cells of as many. Between 0.5 and
4.3 on 500 conjunctions of tables that no public fact tells apart (`python -m bench.planner marginals`)."""

ADAPTIVE_LISTED_NOISE, ADAPTIVE_LISTED_MASS = 4.0, 0.6
"""The mean error of a listed conjunction that would hold the share v of n rows were values equally frequent: the
harmonic sum of the first times σ·v^¼·d^¼ and of the second times v·n, with d columns and the σ of noise on one question
that gets all of the budget. These and the next two were chosen on 200 conjunctions of two, three and four columns of
NLTCS, of six columns of Adult and of made tables of 8 and 12 columns, 5,000 and 30,000 rows, ε = 0.1, 1 and 4; `python
-m bench.listed` reports on Census-Income, Diabetic and ACS Income."""

ADAPTIVE_LISTED_UNSEEN, ADAPTIVE_LISTED_UNSEEN_MOST = 0.0025, 0.25
"""What pairs do not say of a conjunction of k columns, as a part of v·n: the first times (k − 2)² on average, and the
second at most. Where three two-valued columns are a parity it is more than that."""

ADAPTIVE_LISTED_POWER, ADAPTIVE_LISTED_LARGEST = 0.9, 2.0
"""The largest error of a list: the second times the norm of sixth powers of their errors, with v to the first power in
the place of v, since tables are uneven. A fifth above the middle of the runs it was chosen on: errors of lists of rare
records vary by more than a factor of two with how uneven the table is, which is not public."""

ADAPTIVE_FLOOR, ADAPTIVE_FLOOR_MEAN = 1.1, 0.6
"""Outside listed conjunctions the largest and the mean error are no smaller than these, over what as many noises as on
a pair would make: a fit hardly helps where there is little to fit. Chosen by hand, so that few questions go to plain
noise."""

ADAPTIVE_ITSELF = 1.6
"""The most that questions about two columns, which are measured themselves, are off, over noise that gets all of the
budget. From made tables (`python -m bench.expected`)."""

ADAPTIVE_MEAN_OF_MAX = 0.2
"""The mean error of single questions other than conjunctions, over the largest. A round guess."""

# dual-query: shares of the regret ln|𝒬|/Σ η_t. Runs lay between 0.5 and 0.8 (maximum) and between 0.03 and 0.15
# (mean); with fitted multiplicities between 0.4 and 0.55, and at 0.02.

DUAL_QUERY_MAX = 0.8
"""The largest error. Chosen on Adult, KDD Cup 99 and made wide tables (`python -m bench dimension`)."""

DUAL_QUERY_MEAN = 0.1
"""The mean error, of questions about a half of the rows: the middle, on a logarithmic scale, of the same tables."""

DUAL_QUERY_FITTED_MAX = 0.25
"""The largest error with fitted multiplicities. From made tables of few columns (`python -m bench.expected`)."""

DUAL_QUERY_FITTED_MEAN = 0.1
"""The mean error with fitted multiplicities, of questions about a half of the rows. From the same tables."""

# small-db. Chosen on made tables, and checked by `python -m bench small_db`.

SMALL_DB_BEST = 0.5
"""What the best small database leaves, over the error of the random sample of Lemma 4.3."""

SMALL_DB_BEST_ROUNDED = 0.4
"""Times √ln(2|Q|)/size is what it leaves because it answers in multiples of 1/size."""

SMALL_DB_DRAWN = 0.2
"""How much worse than the best the drawn database is, over what the exponential mechanism may lose."""

SMALL_DB_MEAN_OF_MAX = 0.5
"""The mean error of questions about a half of the rows, over the largest one. From made tables (`python -m
bench.expected`)."""

# stable-histogram.

STABLE_RECORDS = 0.1
"""Which part of the threshold a listed record of unknown frequency misses at worst: some of those that are asked about
are frequent, and miss nothing. From made records (`python -m bench.expected`)."""

STABLE_CAREFUL = 2.0
"""Times what is typical is expected. Nothing varies as much with the table, and intervals are wide: it should not be
picked for a little less."""

# sparse-project.

SPARSE_PROJECT_FEW = 4
"""A sum of fewer noises than these has their law's tail; one of more, and a median, has about a Gaussian's. A round
guess: no run is on record."""

SPARSE_PROJECT_SLOW = 1 << 19
"""Coordinates whose noise takes more than a few seconds to draw. From the time of exact draws: no run is on record."""

# Online mechanisms. Chosen on NLTCS (`python -m bench live`) where nothing else is said.

ONLINE_FADING = 5.0
"""What FADING is for what a primed session did not measure, whose guesses must not seem surer than they are. Chosen on
NLTCS and made tables of 12 columns."""

ONLINE_PRIMED_HITS = 5
"""The hits that a primed session needs."""

ONLINE_MIXTURE_HITS = 3
"""The hits that a session needs whose guess is a mixture: none in 10,000 questions on Adult (`python -m bench
live_wide`), and some for tables that are less like it."""

ONLINE_MIXTURE_MEAN = 0.4
"""Its mean error on conjunctions of one to four columns, over the largest that is expected times the mean root of the
share of all records that they hold for. From Adult (0.07 of the largest) and made tables (`python -m
bench.expected_sessions chosen`)."""

ONLINE_HITS_PER_NAT = 7
"""The hits that an unprimed session needs, for each unit of ln|X|."""

ONLINE_FEWEST_HITS = 10
"""The least number of hits of an unprimed session."""

ONLINE_MULTIPLICATIVE_ERROR = 0.1
"""Times √(ln|X|/hits) is how wrong the guess of multiplicative weights is, as a fraction of the rows."""

ONLINE_PERCEPTRON_ERROR = 0.15
"""The same for the perceptron. Chosen by hand."""

ONLINE_MEDIAN_ERROR = 0.1
"""How wrong the median of a sample of databases is, as a fraction of the rows. Chosen by hand."""

ONLINE_SPARSE_HITS = 20
"""The hits of sparse multiplicative weights: lists of few records hold few rows. Chosen on pairs and records."""

# What sessions are off that begin with a guess of nothing: errors up to the threshold stay, and what is measured brings
# its noise with it. From made tables and records (`python -m bench.expected_sessions chosen`).

ONLINE_PASSED_MEAN = 1 / 3
"""The mean error of answers that are not looked at closer, over the threshold."""

ONLINE_LARGEST_SHARE = 0.5
"""The largest share of the rows that a typical question holds for: more than that no guess is off without noise."""

ONLINE_NOISE_MEAN, ONLINE_NOISE_LARGEST = 0.5, 0.7
"""What the noise of measured answers does to all others: on average over its mean size, and at worst over the largest
of as many noises as there are hits."""

ONLINE_RECORDS_MEAN = 0.2
"""The mean error of questions that list records of an unbounded universe, over the largest."""

ONLINE_VARIES = {
    "gaussian": 2.0,
    "laplace": 3.0,
    "live-mixture": 6.0,
    "pmw": 8.0,
    "median": 10.0,
    "perceptron": 20.0,
    "sparse-mw": 20.0,
}
"""What VARIES is for sessions, of conjunctions of one to four columns, or of listed records: the ninth deciles of
`python -m bench.expected_sessions chosen`, of the kind of table where they are largest, rounded up."""

# What a release takes, and how large its file is (`effort.expected_effort`). Chosen on made tables by `python -m
# bench.effort made`, and reported on NLTCS and Adult by `python -m bench.effort`. Seconds are of one processor.

SECONDS_START = 0.03
"""What every release takes, whatever is asked."""

SECONDS_READ, SECONDS_COUNT, SECONDS_COUNT_ONE = 3e-9, 1.5e-9, 2e-11
"""For each row: reading one column, counting one marginal, and counting one question outside marginals."""

SECONDS_ANSWER, SECONDS_NOISE = 2e-6, 1e-5
"""For each question: answering it from the synopsis; and drawing one noise exactly."""

SECONDS_SUM = 1e-3
"""A question that is the sum of many cells of a noisy table."""

SECONDS_EVALUATION, SECONDS_FIT = 1e-4, 1.5e-8
"""One evaluation of a fit, and for each of its cells."""

SECONDS_ROUND, SECONDS_TALLY = 1e-3, 1e-7
"""One round of a game, and for each question that it scores."""

SECONDS_KEY = 5e-6
"""For each row whose record is looked up or hashed."""

SECONDS_ADAPTIVE = 2e-6
"""For each product of the mixture and code, times the root of the number of pairs, in each fit of `adaptive`."""

BYTES_START = 2_500
"""The manifest, with the schema, the acts and the guarantee."""

BYTES_ANSWER, BYTES_LITERAL, BYTES_WHOLE, BYTES_WEIGHT = 5.0, 3.0, 1.2, 8.0
"""In a file: one answer, one literal of a listed question, one small whole number, and one number of full length."""

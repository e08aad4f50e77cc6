"""Slow, obvious versions: brute force over tiny universes, laws term by term, and the formulas of the papers.

The package is tested against them, and they use of it as little as they can.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import indicator
from conspectus.curator.curator import HALF
from conspectus.curator.nets import answer_levels, databases
from conspectus.data.domain import Chunk, Domain
from conspectus.mechanisms.mechanism import Problem
from conspectus.mechanisms.sparse_vector import SparsePlan
from conspectus.privacy.accounting import scale_up
from conspectus.privacy.composition import advanced
from conspectus.privacy.events import Noise
from conspectus.privacy.exponential import FLOOR_BITS
from conspectus.queries.blocks.statistic import STATISTIC_STEPS, Statistic
from conspectus.queries.query import Linear, Parity, Predicate, Query
from conspectus.queries.workload import Workload

Record = tuple[int, ...]

# --- questions on records


def records(domain: Domain) -> list[Record]:
    """Every record of a universe, in the order of its cells."""
    return list(product(*map(range, domain.sizes)))


def is_true(query: Query, record: Sequence[int]) -> bool:
    """Whether a query that is true or false on records holds on this one."""
    if isinstance(query, Predicate):
        return any(all(record[literal.column] in literal.codes for literal in box) for box in query.boxes)
    assert isinstance(query, Parity)
    return sum(int(record[column]) for column in query.columns) % 2 == 0


def truth_table(workload: Workload) -> NDArray[np.int64]:
    """Records × queries, by the meaning of each query."""
    universe = records(workload.domain)
    columns = [[steps_on(query, record, workload) for record in universe] for query in workload.queries()]
    return np.array(columns, dtype=np.int64).reshape(len(workload), len(universe)).T


def steps_on(query: Query, record: Sequence[int], workload: Workload) -> int:
    """The value of a query on one record, in steps of the workload's grid."""
    if not isinstance(query, Linear):
        return workload.grid * is_true(query, record)
    weights = query.weighting.table(workload.domain)
    return int(weights[tuple(record[c] for c in query.weighting.columns)]) * is_true(query.given, record)


def sums(workload: Workload, histogram: NDArray[Any]) -> NDArray[np.float64]:
    """For each query the sum of a histogram over the records that satisfy it, one record at a time."""
    universe = records(workload.domain)
    return np.array([sum(histogram[x] for x in universe if is_true(q, x)) for q in workload.queries()], dtype=float)


def counts_of(workload: Workload, chunk: Chunk) -> list[int]:
    """For each query the number of rows that satisfy it, looked up in its table of cells."""
    counts = []
    for query in workload.queries():
        if isinstance(query, Linear):
            rows = zip(*(chunk.column(c).tolist() for c in range(len(workload.domain))))
            counts.append(sum(steps_on(query, row, workload) for row in rows))
            continue
        columns, inside = indicator(query, workload.domain)
        cells = tuple(chunk.column(c) for c in columns)
        counts.append(int(inside[cells].sum()) if columns else int(inside) * chunk.rows)
    return counts


def marginal_of(histogram: NDArray[Any], columns: Sequence[int]) -> NDArray[Any]:
    """A histogram summed over all columns but these."""
    return histogram.sum(axis=tuple(c for c in range(histogram.ndim) if c not in columns))


def statistic_value(f: Statistic, rows: Sequence[Record]) -> int:
    """A ready function of the table by its definition, in exact fractions."""
    held = [r for r in rows if any(all(r[a.column] in a.codes for a in box) for box in f.given)]
    if f.kind == "satisfied":
        total = sum(all(r[a.column] in a.codes for a in box) for r in rows for box in f.given)
        return _in_steps(Fraction(total, len(f.given)))
    classes = [tuple(c[r[at]] for at, c in zip(f.over, f.classes)) for r in held]
    classes = [c for c in classes if min(c) >= 0]
    shape = f.shape
    v = {c: classes.count(c) for c in product(*(range(s) for s in shape))}
    t = len(classes)
    if f.kind == "mode":
        return STATISTIC_STEPS * max(v.values())
    if f.kind == "mean":
        return _in_steps(Fraction(sum(f.numbers[c[0]] for c in classes), f.whole))
    if f.kind == "balance":
        return STATISTIC_STEPS * min(v.values())
    if f.kind == "quantile":
        lowest = sorted(classes)[: t * f.numbers[0] // f.numbers[1]]
        return _in_steps(Fraction(sum(f.numbers[2 + c[0]] for c in lowest), f.whole))
    if f.kind == "reference":
        gaps = (sum(c[0] <= k for c in classes) - Fraction(t * f.numbers[k], f.whole) for k in range(shape[0]))
        return _in_steps(max(map(abs, gaps)))
    if not t:
        return 0
    r = [sum(v[i, j] for j in range(shape[1])) for i in range(shape[0])]
    s = [sum(v[i, j] for i in range(shape[0])) for j in range(shape[1])]
    distance = sum((abs(v[i, j] - Fraction(r[i] * s[j], t)) for i, j in v), Fraction(0))
    return _in_steps(distance / 4)


def _in_steps(value: Fraction) -> int:
    """Whole steps, to the nearest."""
    return int((STATISTIC_STEPS * value + Fraction(1, 2)) // 1)


def polynomial_at(coefficients: Sequence[int], point: int, modulus: int) -> int:
    """The value of a polynomial at a point, modulo a number."""
    state = 0
    for coefficient in coefficients:
        state = (state * point + coefficient) % modulus
    return state


# --- neighbouring tables


def units(universe: Sequence[Any], max_rows: int) -> list[tuple[Any, ...]]:
    """All that one unit of at most so many rows can hold, up to the order of its rows."""
    return [unit for m in range(max_rows + 1) for unit in combinations_with_replacement(universe, m)]


def unit_changes(universe: Sequence[Any], neighbours: str, max_rows: int) -> list[tuple[Any, Any]]:
    """The rows of one unit before and after, for every change: under add-remove one side has none."""
    changes = permutations(units(universe, max_rows), 2)
    return [(one, other) for one, other in changes if neighbours == "replace" or not one or not other]


def neighbours_of_counts(cells: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All tables, as counts of cells, with one row replaced or one row less."""
    found = []
    for gone in range(len(cells)):
        if cells[gone]:
            less = [count - (i == gone) for i, count in enumerate(cells)]
            found.append(tuple(less))
            others = (new for new in range(len(cells)) if new != gone)
            found += [tuple(count + (i == new) for i, count in enumerate(less)) for new in others]
    return found


def norms(moves: NDArray[np.int64]) -> tuple[int, int, int]:
    """The largest L1, squared L2 and L∞ norms of some moves."""
    size = np.abs(moves)
    return int(size.sum(1).max()), int((size**2).sum(1).max()), int(size.max(initial=0))


def true_sensitivity(workload: Workload, neighbours: str, max_rows: int, rows_are_units: bool) -> tuple[int, int, int]:
    """Norms over all pairs of units, which are all pairs of tables: the rest of a table cancels."""
    table = truth_table(workload)
    held = [unit for unit in units(range(len(table)), max_rows) if len(unit) == 1 or not rows_are_units]
    counts = np.array([table[list(unit)].sum(0) for unit in held])
    if neighbours == "add-remove":
        return norms(counts)
    best = np.array([norms(counts - unit) for unit in np.unique(counts, axis=0)])
    return tuple(best.max(0).tolist())


# --- laws of noise


def noise_law(kind: str, scale: float, most: int | None = None) -> NDArray[np.float64]:
    """The chances of discrete noise on −most … most, by default as far as doubles can tell."""
    most = int(60 * scale) + 20 if most is None else most
    z = np.arange(-most, most + 1)
    chances = np.exp(-np.abs(z) / scale if kind == "laplace" else -(z**2) / (2 * scale**2))
    return chances / chances.sum()


def weighted_sum_law(law: NDArray[np.float64], weights: Sequence[int]) -> NDArray[np.float64]:
    """The chances of a weighted sum of independent noises of one law, convolved term by term."""
    found = np.ones(1)
    for weight in weights:
        spread = np.zeros((len(law) - 1) * abs(weight) + 1)
        spread[:: abs(weight)] = law
        found = np.convolve(found, spread)
    return found


def quantile_of_sum(kind: str, scale: float, terms: int, confidence: float) -> int:
    """The least t with P(|sum of noises| ≤ t) of at least the confidence."""
    total = weighted_sum_law(noise_law(kind, scale), [1] * terms)
    middle = len(total) // 2
    within = np.cumsum(np.concatenate(([total[middle]], total[middle + 1 :] + total[middle - 1 :: -1])))
    return int(np.argmax(within >= confidence))


def laplace_chance(scale: float, z: int) -> float:
    """P(Z = z) of discrete Laplace noise."""
    p = math.exp(-1 / scale)
    return (1 - p) / (1 + p) * p ** abs(z)


def laplace_upper_tail(scale: float, t: int) -> float:
    """P(Z ≥ t) of discrete Laplace noise, term by term."""
    if t <= 0:
        return 1 - laplace_upper_tail(scale, 1 - t)
    return sum(laplace_chance(scale, z) for z in range(t, t + math.ceil(800 * scale)))


def shown_law(counts: Sequence[int], scale: float, level: int, most: int) -> dict[tuple[int, ...], float]:
    """P(output) of stable keys: an output is the tuple of what is shown of each key, 0 where nothing is."""
    laws = []
    for amount in counts:
        if not amount:
            laws.append({0: 1.0})
            continue
        law: dict[int, float] = {}
        for noisy in range(amount - most, amount + most + 1):
            shown = noisy if noisy >= level else 0
            law[shown] = law.get(shown, 0.0) + laplace_chance(scale, noisy - amount)
        laws.append(law)
    return {
        tuple(value for value, _ in outcome): math.prod(chance for _, chance in outcome)
        for outcome in product(*(law.items() for law in laws))
    }


def law_given_shown(scale: float, count: int, level: int, most: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The counts that may be published of a key, and their law given that the key is published."""
    shown = np.arange(level, most)
    weights = np.exp(-np.abs(shown - count) / scale + max(level - count, 0) / scale)
    return shown, weights / weights.sum()


def sparse_vector_chance(
    errors: Sequence[int], hits: Sequence[bool], hiding: NDArray[Any], comparing: NDArray[Any], threshold: int
) -> float:
    """P(these hits) = Σ_t P(T̂ = t) Π P(e + ν < t) Π P(e + ν ≥ t), for two laws on the same −most … most."""
    most = len(hiding) // 2
    below = np.concatenate([[0.0], np.cumsum(comparing)])  # P(ν < z − most)
    places = np.arange(-most, most + 1) + threshold
    chance = hiding.copy()
    for error, hit in zip(errors, hits):
        at = np.clip(places - error + most, 0, len(below) - 1)
        chance = chance * (1 - below[at] if hit else below[at])
    return float(chance.sum())


# --- distances of laws, and composition


def hockey_stick(here: dict[Any, float], there: dict[Any, float], epsilon: float) -> float:
    """The least δ with which one law is within e^ε of another, in one direction."""
    return math.fsum(max(0.0, chance - math.exp(epsilon) * there.get(out, 0.0)) for out, chance in here.items())


def renyi_divergence(here: dict[Any, float], there: dict[Any, float], alpha: float) -> float:
    """The Rényi divergence of order α of two laws {output: chance}."""
    logs = [alpha * math.log(chance) + (1 - alpha) * math.log(there[outcome]) for outcome, chance in here.items()]
    return float(np.logaddexp.reduce(logs)) / (alpha - 1)


def exact_zcdp(rho: float, delta: float) -> mpmath.mpf:
    """ε of ρ-zCDP at δ by the tight conversion, minimised over α in as many digits as mpmath works with."""

    def epsilon(excess: mpmath.mpf) -> mpmath.mpf:
        alpha = 1 + excess
        return alpha * rho + (-mpmath.log(delta) - mpmath.log(excess) + alpha * mpmath.log(excess / alpha)) / excess

    # d ε / d α has the sign of ρ(α−1)² + ln α − ln(1/δ), which increases in α.
    low, high = mpmath.mpf(-60), mpmath.mpf(60)
    for _ in range(100):
        root = (low + high) / 2
        rising = rho * mpmath.exp(2 * root) + mpmath.log1p(mpmath.exp(root)) + mpmath.log(delta) > 0
        low, high = (low, root) if rising else (root, high)
    return max(mpmath.mpf(0), epsilon(mpmath.exp(root)))


def exact_optimal(epsilon: float, shares: Sequence[float]) -> mpmath.mpf:
    """δ(ε) of randomised responses by enumerating every outcome."""
    total = mpmath.mpf(0)
    for signs in product((1, -1), repeat=len(shares)):
        loss = mpmath.fsum(s * mpmath.mpf(e) for s, e in zip(signs, shares))
        chance = mpmath.mpf(1)
        for s, e in zip(signs, shares):
            chance /= 1 + mpmath.exp(-s * mpmath.mpf(e))
        total += chance * max(mpmath.mpf(0), 1 - mpmath.exp(epsilon - loss))
    return total


# --- the exponential mechanism and its nets


def log_weights(scores: Sequence[int], rate: Fraction) -> list[mpmath.mpf]:
    """Log-weights as the proof defines them: shifted to the best score, and clamped at the floor."""
    best = max(scores)
    exact = mpmath.mpf(rate.numerator) / rate.denominator
    return [max(-exact * (best - score), -FLOOR_BITS * mpmath.log(2)) for score in scores]


def exponential_law(scores: Sequence[float]) -> NDArray[np.float64]:
    """The chances of candidates whose weights are the exponentials of these scores."""
    weights = np.exp(np.asarray(scores, dtype=float) - np.max(scores))
    return weights / weights.sum()


def peeled_sequences(weights: Sequence[int], barred: Sequence[int], draws: int) -> dict[tuple[int, ...], Fraction]:
    """The exact chance of every sequence of different candidates, drawn one after the other."""
    chances = {}
    for sequence in permutations(sorted(set(range(len(weights))) - set(barred)), draws):
        left, chance = set(range(len(weights))) - set(barred), Fraction(1)
        for candidate in sequence:
            chance *= Fraction(weights[candidate], sum(weights[other] for other in left))
            left.remove(candidate)
        chances[sequence] = chance
    return chances


def groups_of_databases(
    truth: NDArray[Any], sizes: Sequence[int], size: int, counts: NDArray[np.int64], total: float, coarse: int
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Every group of small databases with its mass and its level, one by one."""
    levels = answer_levels(counts, size, total, coarse)
    for group in combinations_with_replacement(range(len(sizes)), size):
        rows = np.bincount(group, minlength=len(sizes))
        answers = rows @ truth
        mass = math.prod(databases(w, int(j)) for w, j in zip(sizes, rows))
        yield tuple(rows.tolist()), mass, int(max(levels[q, a] for q, a in enumerate(answers)))


def small_db_law(
    workload: Workload, counts: NDArray[np.int64], rows: int, *, epsilon: float, size: int, merge: bool
) -> dict[tuple[float, ...], float]:
    """Algorithm 4 by its definition, over every multiset of records, or with `merge` of what questions tell apart."""
    kinds = [tuple(map(bool, line)) for line in truth_table(workload).tolist()]
    read = [tuple(record[c] for c in workload.columns) for record in records(workload.domain)]
    universe = list(dict.fromkeys(kinds if merge else zip(kinds, read)))
    law: Counter[tuple[float, ...]] = Counter()
    for database in combinations_with_replacement(universe, size):
        answers = np.sum([kind if merge else kind[0] for kind in database], axis=0) / size
        worst = np.abs(counts / rows - answers).max()
        # Δu = 1/n, so a database has weight exp(ε·n·u/2).
        law[tuple(answers.tolist())] += math.exp(-epsilon * rows * worst / 2)
    whole = sum(law.values())
    return {answers: weight / whole for answers, weight in law.items()}


def number_of_tables(cells: int, rows: int) -> int:
    """How many tables of this many rows there are, up to the order of rows."""
    return math.comb(rows + cells - 1, rows)


class SparseWeights:
    """Definition 3.4 (sparse multiplicative weights) to the letter: s variables, a hash table, normalised each time."""

    def __init__(self, size: int) -> None:
        self.variables = np.full(size, 1 / size)
        self.hash: dict[int, int] = {}

    def of(self, addresses: Sequence[int], shares: Sequence[float]) -> float:
        """The answer to a query that has these shares of these records."""
        free = self.variables[len(self.hash)] if len(self.hash) < len(self.variables) else 0.0
        return sum(q * (self.variables[self.hash[x]] if x in self.hash else free) for x, q in zip(addresses, shares))

    def learn(self, addresses: Sequence[int], shares: Sequence[float], answer: float, rate: float) -> None:
        """One update towards a noisy answer."""
        sign = -1 if answer < self.of(addresses, shares) else 1
        for x, q in zip(addresses, shares):
            self.hash.setdefault(x, len(self.hash))
            self.variables[self.hash[x]] *= np.exp(sign * rate * q)
        self.variables /= self.variables.sum()


# --- formulas of the papers, as printed and with the errata applied

_ROOT = math.sqrt(512)


def rounds_for(queries: int, edge: float) -> int:
    """The fewest rounds of boosting with (1 − 4η²)^(T/2)·|Q| < 1."""
    return math.floor(2 * math.log(max(queries, 1)) / -math.log1p(-4 * edge * edge)) + 1


def edge_for(queries: int, rounds: int) -> float:
    """η_T = ½√(1 − |Q|^(−2/T)): the edge with which this many rounds of boosting just suffice."""
    return 0.5 * math.sqrt(-math.expm1(-2 * math.log(max(queries, 2)) / rounds))


def theorem_4_2(*, eta: float, rounds: int, draws: int, rows: int) -> float:
    """ε of DualQuery, pure, by basic composition: ηT(T − 1)s/n."""
    return eta * rounds * (rounds - 1) * draws / rows


def theorem_4_3(*, eta: float, rounds: int, draws: int, rows: int, delta: float) -> float:
    """ε of DualQuery at δ by advanced composition of s(T − 1) draws, each charged 2η(T − 1)/n as in the last round."""
    return advanced(2 * eta * (rounds - 1) / rows, draws * (rounds - 1), delta)


def above_threshold_error(questions: int, epsilon: float, failure: float) -> float:
    """α of AboveThreshold (Theorem 3.24): 8(ln k + ln(2/β))/ε."""
    return 8 * (math.log(questions) + math.log(2 / failure)) / epsilon


def sparse_scale(hits: int, epsilon: float, delta: float = 0.0) -> float:
    """σ of a threshold in Sparse (Algorithm 2): 2c/ε, or √(32 c ln(1/δ))/ε."""
    return 2 * hits / epsilon if not delta else math.sqrt(32 * hits * math.log(1 / delta)) / epsilon


def sparse_error(questions: int, hits: int, epsilon: float, failure: float, delta: float = 0.0) -> float:
    """α of Sparse (Theorem 3.26)."""
    logs = math.log(questions) + math.log(2 * hits / failure)
    return logs * (8 * hits if not delta else math.sqrt(512 * hits * math.log(1 / delta))) / epsilon


def numeric_shares(epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """ε₁ for finding and ε₂ for answering in NumericSparse (Algorithm 3); its noise makes of ε₂ what is left of ε."""
    if not delta:
        return 8 * epsilon / 9, 2 * epsilon / 9
    return _ROOT / (_ROOT + 1) * epsilon, 2 / (_ROOT + 1) * epsilon


def numeric_scales(hits: int, epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """σ(ε₁) of thresholds and σ(ε₂) of released answers in NumericSparse: 2c/ε, or √(32 c ln(2/δ))/ε."""
    finding, answering = numeric_shares(epsilon, delta)
    half = delta / 2
    return sparse_scale(hits, finding, half), sparse_scale(hits, answering, half)


def numeric_error(questions: int, hits: int, epsilon: float, failure: float, delta: float = 0.0) -> float:
    """α of NumericSparse, with the noise of a released answer, which Theorem 3.28 leaves out."""
    logs = math.log(questions) + math.log(4 * hits / failure)
    if not delta:
        finding = 9 * hits * logs / epsilon
    else:
        finding = logs * math.sqrt(hits * math.log(2 / delta)) * (_ROOT + 1) / epsilon
    return max(finding, numeric_scales(hits, epsilon, delta)[1] * math.log(2 * hits / failure))


def book_plan(problem: Problem, *, hits: int, threshold: float) -> SparsePlan:
    """NumericSparse with the book's constants, scaled by what one unit moves; costs at most the problem's budget."""
    budget = problem.budget
    assert budget.epsilon is not None
    finding, answering = numeric_scales(hits, budget.epsilon, budget.delta)
    moved = problem.max_rows
    return SparsePlan(
        hits=hits,
        threshold=threshold,
        epsilon=2 / Fraction(math.nextafter(finding, math.inf)),
        share=HALF,
        law=Noise("laplace", scale_up(Fraction(math.nextafter(answering, math.inf)) * moved)),
        max_rows=moved,
    )

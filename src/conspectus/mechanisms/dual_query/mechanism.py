"""DualQuery (Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014): synthetic rows for tables of any width.

A game between a player who holds weights over all queries and their negations, and one who holds rows. Each round some
queries are drawn by their weights, rows that satisfy most of them are found (in public: the search sees nothing but the
draw), and weight moves to the queries that all rows so far satisfy too rarely. The rows together answer the queries.
Memory and the time of a round are linear in the queries and the columns; no cell of the universe is ever listed.

Privacy: composes the draws, each by the exponential mechanism with the payoffs of all earlier rounds (Theorem 4.2's
score; the first round is free), the row total, the one-way marginals that rows start from, the counts of a
re-weighting, and the certificate. Accuracy: Theorem 4.6 where `accuracy` is given; otherwise nothing is promised, and
the certificate says what became of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from conspectus.compiled import processors
from conspectus.curator.curator import Curator
from conspectus.curator.scores import LOG_WEIGHT_STEPS
from conspectus.mechanisms.certificate import certify
from conspectus.mechanisms.mechanism import Claim, ErrorBound, Outcome, Problem, Refusal, SettingError, not_counting
from conspectus.mechanisms.total import SHARE, find_total
from conspectus.privacy.events import Event
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import public_sampler

from .clauses import AskedClauses
from .game import Responding, answers_of, play
from .initial_rows import RULES, Filling, measured, single_columns, single_width
from .oracles import TIME_LIMIT, available
from .parameters import MOST_DRAWS, MOST_ROUNDS, Schedule, Shape, best_theorem, fit, for_accuracy, lay_out
from .row_weights import reweighted

CITES = ("Gaboardi, Gallego Arias, Hsu, Roth & Wu 2014, Algorithm 2", "Cesar & Rogers 2021 (price of a draw)")
ETA = 2.0
"""The step: about the best on Adult and on KDD Cup 99; from 1 to 4 the error is within a third of it (measured)."""

FAILURE = 0.05
MOST_CODES = 1 << 29
"""Codes of synthetic rows that are held, rows times columns."""

FEW = 64
"""Columns up to which multiplicities are fitted by default (measured on Adult, KDD Cup 99 and made data)."""

WIDE = 256
"""Columns from which on a row is mostly what it started from."""

ORACLES = ("search", "exact")
_SPREAD = 0.01  # the noise on a one-way marginal that is aimed at, in fractions of the rows


@dataclass(frozen=True, kw_only=True)
class DualQuery:
    """Rounds, draws a round and step: those that are left out follow from public facts, so that the budget is used up.

    `accuracy` takes all three from Theorem 4.6 for that accuracy, which the exact oracle keeps, however long it takes.
    `decay` makes the step η·t^(−decay): below 0 it grows. A round is answered by `responses` rows, each the best of
    `restarts` local searches, or by one row of the exact `oracle` within so many `seconds`. `untouched` says what a row
    starts from, and keeps where no drawn query reads: noisy one-way "marginals", which cost the share `marginals` of
    the budget, "uniform" values, or each column's "first" one. `reweighting` and `certificate` are the shares of the
    last two steps, 0 for none. `public_seed` fixes the public coins of the searches.
    """

    rounds: int | None = None
    draws: int | None = None
    eta: float | None = None
    accuracy: float | None = None
    decay: float = 0.0
    responses: int | None = None
    restarts: int | None = None
    oracle: str = "search"
    seconds: float = TIME_LIMIT
    untouched: str = "marginals"
    marginals: float | None = None
    reweighting: float | None = None
    certificate: float = 0.02
    public_seed: int | None = None

    name: ClassVar[str] = "dual-query"

    def __post_init__(self) -> None:
        if any(
            number is not None and number < 1 for number in (self.rounds, self.draws, self.responses, self.restarts)
        ):
            raise SettingError("rounds, draws, responses and restarts are at least 1")
        if (self.rounds or 1) > MOST_ROUNDS or (self.draws or 1) > MOST_DRAWS or (self.responses or 1) > 1024:
            raise SettingError(f"rounds is at most {MOST_ROUNDS}, draws at most {MOST_DRAWS}, responses at most 1024")
        if self.eta is not None and not 2**-10 <= self.eta <= 64:
            raise SettingError("eta lies between 1/1024 and 64")
        if not -1 <= self.decay <= 1 or not 0 < self.seconds < math.inf:
            raise SettingError("decay lies between -1 and 1, seconds above 0")
        if self.oracle not in ORACLES or self.untouched not in RULES:
            raise SettingError(f"oracle is one of {', '.join(ORACLES)}; untouched one of {', '.join(RULES)}")
        shares = (self.marginals or 0.0, self.reweighting or 0.0, self.certificate)
        if not all(0 <= share < 1 for share in shares) or sum(shares) >= 1 or self.marginals == 0:
            raise SettingError("marginals, reweighting and certificate are shares of the budget, below 1 in all")
        if self.public_seed is not None and self.public_seed < 0:
            raise SettingError("public_seed is 0 or above")
        if self.accuracy is not None:
            if not 0 < self.accuracy < 1:
                raise SettingError("accuracy lies between 0 and 1")
            if any(number is not None for number in (self.rounds, self.draws, self.eta)) or self.decay:
                raise SettingError("accuracy sets rounds, draws and eta itself: leave them out, and decay")
        if self.oracle == "exact" and (self.responses or 1) > 1:
            raise SettingError("the exact oracle finds one row a round: leave responses out")

    def claim(self, problem: Problem, plan: Claim) -> Claim:
        return plan

    def plan(self, problem: Problem) -> Claim | Refusal:
        refused = not_counting(problem)
        if refused is not None:
            return Refusal(mechanism=self.name, reason=refused)
        if self.oracle == "exact" and not available():
            return Refusal(
                mechanism=self.name,
                reason='its exact oracle needs OR-Tools: install "conspectus[exact]", or leave oracle="exact" out',
            )
        queries = len(problem.workload)
        rows = problem.rows
        memory = 40 * queries + 64 * len(problem.workload.domain) + self._codes(problem)
        if rows is None:
            # The number of rows is bought first, and everything else follows from it.
            return Claim(
                mechanism=self.name, expected_max=math.inf, expected_mean=math.inf, bound=None, memory=memory,
                citations=CITES, notes=("declare rows= to see what can be expected",),
            )  # fmt: skip
        left = self._left(problem, problem.cap * (1 if problem.total_is_public else 1 - SHARE))
        schedule = self._schedule(problem, left, max(rows, 1))
        if isinstance(schedule, str):
            return Refusal(mechanism=self.name, reason=schedule)
        expected_max, expected_mean = expected_errors(problem, schedule, fitted=self._reweighting(problem) > 0)
        bound = None
        played = self.oracle == "exact" and self._reweighting(problem) == 0
        if self.accuracy is not None and problem.total_is_public and played:
            bound = ErrorBound(value=self.accuracy, statistic="max", probability=1 - FAILURE, theorem=CITES[0])
        said = (
            f"{schedule.rounds} rounds of {schedule.draws[-1]:,} draws, step {schedule.rates[0] / LOG_WEIGHT_STEPS:.3g}"
        )
        return Claim(
            mechanism=self.name,
            expected_max=expected_max * rows,
            expected_mean=expected_mean * rows,
            bound=bound,
            memory=memory,
            citations=CITES,
            notes=(f"{said}; the error depends on the table", *best_theorem(problem, schedule).notes),
        )

    def declare(self, problem: Problem, plan: Claim) -> Sequence[Event] | None:
        return None

    def release(self, curator: Curator, problem: Problem, plan: Claim) -> Outcome:
        asked = problem.workload.distinct()
        singles = single_columns(asked) if self.untouched == "marginals" else None
        curator.count_ahead(asked if singles is None else asked + singles)
        total, left = find_total(curator, problem)
        shares = None
        if singles is not None:
            price = problem.cap * Fraction(self._marginals(problem))
            shares = measured(curator, problem, singles, total=total.divisor, price=price)
        left = self._left(problem, left)
        schedule = self._schedule(problem, left, max(total.rows, 1))
        if isinstance(schedule, str):
            # A bought total may be too small for a second round: the first one is free.
            schedule = self._first_round(problem, max(total.rows, 1))
        rng = public_sampler(self.public_seed)
        clauses = AskedClauses(asked)
        with ThreadPoolExecutor(processors()) as pool:
            game = play(
                curator,
                clauses,
                schedule,
                filling=Filling(asked.domain, self.untouched, shares),
                responding=Responding(
                    responses=self._responses(problem),
                    restarts=self._restarts(problem),
                    exact=self.oracle == "exact",
                    seconds=self.seconds if self.accuracy is None else math.inf,
                ),
                rng=rng,
                pool=pool,
            )
            share = self._reweighting(problem)
            if share:
                game = reweighted(
                    curator,
                    problem,
                    clauses,
                    game,
                    total=total.divisor,
                    rounds=schedule.rounds,
                    price=problem.cap * Fraction(share),
                )
            answers = answers_of(clauses, game, pool)[problem.workload.positions_in(asked)]
        kept = game.multiplicities > 0
        copies = game.multiplicities[kept]
        synopsis = Rows(asked.domain, tuple(game.rows[kept].T), total, None if (copies == 1).all() else copies)
        bound = None
        if self.certificate:
            price = problem.cap * Fraction(self.certificate)
            bound = certify(curator, problem, workload=problem.workload, answers=answers, total=total, price=price)
        return Outcome(
            synopsis=synopsis,
            answers=answers,
            total=total,
            certificate=bound,
            parameters=self._parameters(problem, schedule),
        )

    def _parameters(self, problem: Problem, schedule: Schedule) -> dict[str, Any]:
        named = {
            "rounds": schedule.rounds,
            "draws": schedule.draws[-1],
            "eta": schedule.rates[0] / LOG_WEIGHT_STEPS,
            "decay": self.decay,
            "responses": self._responses(problem),
            "oracle": self.oracle,
            "untouched": self.untouched,
            "reweighting": self._reweighting(problem),
            "certificate": self.certificate,
        }
        if self.untouched == "marginals":
            named["marginals"] = self._marginals(problem)
        return {**named, **best_theorem(problem, schedule).numbers}

    def _left(self, problem: Problem, left: Fraction) -> Fraction:
        """What the draws may cost, of what is left after the total."""
        shares = Fraction(self.certificate) + Fraction(self._reweighting(problem))
        if self.untouched == "marginals":
            shares += Fraction(self._marginals(problem))
        return left - problem.cap * shares

    def _marginals(self, problem: Problem) -> float:
        """The share of the one-way marginals: enough for a hundredth of the rows, between a fiftieth and a half."""
        if self.marginals is not None:
            return self.marginals
        if problem.rows is None:
            return 0.05
        noise = _SPREAD * max(problem.rows, 1) / problem.max_rows
        width = single_width(problem.workload)
        needed = width / noise if problem.currency == "pure" else width / (2 * noise**2)
        return min(0.5, max(0.02, needed / float(problem.cap)))

    def _reweighting(self, problem: Problem) -> float:
        """A fifth for tables of up to 64 columns; of wider ones, what is measured says little about the rest."""
        if self.reweighting is not None:
            return self.reweighting
        if self.accuracy is not None:  # the theorem is about the rows as they were played
            return 0.0
        others = self.certificate + (self._marginals(problem) if self.untouched == "marginals" else 0.0)
        return 0.2 if len(problem.workload.columns) <= FEW and others <= 0.6 else 0.0

    def _draws(self, problem: Problem) -> int:
        """25 for each column that is asked about, between 50 and 2,000; few where rows of a wide table start well.

        A draw bends a row towards one question; where the row started from marginals, or from the first codes of a
        sparse table, many early draws spoil more than they mend (measured on 285 to 41,000 columns).
        """
        columns = len(problem.workload.columns)
        if columns > WIDE and self.untouched != "uniform":
            return self.draws or 100
        return self.draws or max(50, min(2000, 25 * columns))

    def _responses(self, problem: Problem) -> int:
        if self.oracle == "exact":
            return 1
        columns = len(problem.workload.domain)
        return self.responses or max(1, min(16, MOST_CODES // (columns * 256)))

    def _restarts(self, problem: Problem) -> int:
        """A climb among parities gets stuck early: 64 of them find the best row nearly always (measured on NLTCS)."""
        parities = any(isinstance(block, Parities | ParityList) for block in problem.workload.blocks)
        return self.restarts or (64 if parities else 1)

    def _codes(self, problem: Problem) -> int:
        return len(problem.workload.domain) * 256 * self._responses(problem)

    def _schedule(self, problem: Problem, left: Fraction, total: int) -> Schedule | str:
        """The schedule, or why there is none."""
        if left <= 0:
            return "its marginals, reweighting and certificate leave nothing for the draws: lower these shares"
        shape = Shape(decay=self.decay, responses=self._responses(problem))
        if self.accuracy is not None:
            wanted = for_accuracy(
                self.accuracy,
                candidates=2 * len(problem.workload),
                log_universe=sum(math.log(size) for size in problem.workload.domain.sizes),
                beta=FAILURE,
            )
            found = None
            if wanted.rounds <= 8 * MOST_ROUNDS:
                rates = shape.rates(wanted.eta, wanted.rounds)
                found = lay_out(problem, total=total, rates=rates, draws=(wanted.draws,) * wanted.rounds)
            if found is None or found.price > left:
                numbers = f"{wanted.rounds:,} rounds of {wanted.draws:,} draws"
                return f"an accuracy of {self.accuracy:g} takes {numbers}, more than the budget allows: leave it out"
            return found
        if self.rounds is not None and self.draws is not None and self.eta is not None:
            rates = shape.rates(self.eta, self.rounds)
            found = lay_out(problem, total=total, rates=rates, draws=(self.draws,) * self.rounds)
            if found is None or found.price > left:
                return "these rounds, draws and eta cost more than the budget: leave one of them out"
            return found
        found = fit(
            problem,
            left,
            total=total,
            shape=shape,
            eta=self.eta or ETA,
            draws=self._draws(problem),
            rounds=self.rounds,
            fixed_draws=self.draws is not None,
            fixed_eta=self.eta is not None,
        )
        return found or "its budget is too small to draw questions by: raise epsilon"

    def _first_round(self, problem: Problem, total: int) -> Schedule:
        shape = Shape(decay=self.decay, responses=self._responses(problem))
        rates = shape.rates(self.eta or ETA, 1)
        found = lay_out(problem, total=total, rates=rates, draws=(self._draws(problem),))
        assert found is not None
        return found


def expected_errors(problem: Problem, schedule: Schedule, *, fitted: bool) -> tuple[float, float]:
    """Typical maximum and mean errors, in fractions, as shares of the regret ln|Q|/Σ η_t.

    Measured on Adult, KDD Cup 99, a made survey and made data of 1,000 to 512,000 columns: the maximum was between 0.5
    and 0.8 of it, the mean between 0.03 and 0.15; with fitted multiplicities 0.4 to 0.55, and 0.02.
    """
    regret = math.log(2 * len(problem.workload)) / (sum(schedule.rates) / LOG_WEIGHT_STEPS)
    largest, mean = (0.6, 0.03) if fitted else (0.8, 0.15)
    return min(1.0, largest * regret), min(1.0, mean * regret)

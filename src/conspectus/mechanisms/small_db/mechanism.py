"""SmallDB: of all databases of a few rows, draw one that answers all questions alike.

Algorithm 4 of Dwork and Roth 2014 (Blum, Ligett and Roth 2008):

    Algorithm 4  SmallDB(x, Q, ε, α)
      R ← all databases y over X with ‖y‖₁ = ln|Q|/α² rows
      u(x, y) = −max_{f ∈ Q} |f(x) − f(y)|
      draw y from R by the exponential mechanism with score u, and output it

| book | code | where |
| --- | --- | --- |
| x | the table | `curator`, which alone reads it |
| Q | `net.workload` | the distinct questions of the workload |
| ‖y‖₁ | `net.size` | `theorem.theorem_size` from α; else `parameters` chooses the size that expects least |
| R, u | `net`, `draw.net` | `small_databases`; scored in `curator.nets` and `.laminar`, since that reads the table |
| ε | `plan.price` | all of the budget but the certificate and, where it is private, the row total |
| y | `y`, then `Rows` | rows in each class of records that no question tells apart, then as records |

Some database of ln|Q|/α² rows answers every counting query to within α, since a sample of the table does; and there
are few enough databases that the exponential mechanism finds one. The law is exact: databases are counted or
enumerated, never walked among.

Privacy: one selection, the row total, and the certificate.
Accuracy: Proposition 4.4 for the draw that really runs (`theorem`), with the exact number of databases in place of its
bound |X|^(ln|Q|/α²), a whole number of rows, and Lemma 4.3 as it stands before ln|Q| is rounded up; for replaced rows
and a public number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from conspectus.curator.curator import Curator
from conspectus.data.domain import in_words
from conspectus.mechanisms.certificate import certify_workload
from conspectus.mechanisms.mechanism import Claim, Mechanism, Outcome, Problem
from conspectus.mechanisms.total import find_total
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import public_sampler

from .claim import small_db_claim
from .net_draws import choose
from .parameters import SmallDbSettings, small_db_plan
from .plan import SmallDbPlan


@dataclass(frozen=True, kw_only=True)
class SmallDb(SmallDbSettings, Mechanism[SmallDbPlan]):
    """A handful of synthetic rows that answer every question nearly as the table does, with a bound proved in advance.

    Choose it for questions with structure, such as the prefixes of a column or one marginal, or for few questions over
    any universe, and where the guarantee must be the book's own. It refuses where there are too many databases to draw
    from exactly within a minute, and says how many there are.

    Args:
        size: The number of rows. By default the one with the least expected error.
        alpha: Takes the size ⌈ln|Q|/alpha²⌉ of Algorithm 4 instead.
        theorem: Takes the size from the theorem instead: Theorem 4.5, for the budget and the public number of rows.
            Refuses where the theorem promises nothing.
        merge: Whether records that no question tells apart count as one. That makes the range smaller and the bound
            better; False draws from the book's own range.
        certificate: The share of the budget for a bound on the maximum error; 0 for none.
        public_seed: Fixes which of the records that no question tells apart are shown.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> ages = {"age": {"type": "integer", "min": 0, "max": 9}}
        >>> schema = cs.Schema.from_dict({"name": "ages", "columns": ages})
        >>> table = cs.open_table(pa.table({"age": [1, 2, 2, 3, 5] * 200}), schema)
        >>> release = cs.release(table, cs.prefixes(schema, "age"), epsilon=1, mechanism="small-db", size=5)
        >>> release.synopsis.size, release.claim.bound.statistic
        (5, 'max')
    """

    name: ClassVar[str] = "small-db"

    def plan(self, problem: Problem) -> SmallDbPlan:
        """The net, the exact way to draw from it, and what is proved of the draw."""
        return small_db_plan(self, problem)

    def claim(self, problem: Problem, plan: SmallDbPlan) -> Claim:
        return small_db_claim(self.name, plan)

    def release(self, curator: Curator, problem: Problem, plan: SmallDbPlan) -> Outcome:
        """Algorithm 4, and the certificate."""
        net = plan.net
        curator.count_ahead(net.workload)
        total = find_total(curator, problem)
        rng = public_sampler(self.public_seed)
        draw = net.drawn(plan.method, problem, total.divisor)  # R and u
        y = choose(curator, problem, draw.net, plan.price)  # the exponential mechanism
        synopsis = Rows(problem.workload.domain, net.codes(draw.counts(y, rng), rng), total, columns=problem.held)
        answers = synopsis.answer(problem.workload)
        return Outcome(
            synopsis=synopsis,
            answers=answers,
            total=total,
            certificate=certify_workload(curator, problem, answers=answers, total=total, share=self.certificate),
            parameters={
                "size": net.size,
                "merge": self.merge,
                "method": plan.method,
                "records": in_words(sum(net.sizes)),
                "databases": in_words(net.mass),
                "certificate": self.certificate,
            },
        )

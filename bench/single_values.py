"""Single values of Adult: functions on subsamples of the table against their number, and learning a rule."""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np

import conspectus as cs
from bench import data_file, markdown, record
from conspectus.curator.acts import selection_rate, spread_of
from conspectus.curator.curator import Curator
from conspectus.curator.scores import LargestCounts
from conspectus.curator.truth import Truth
from conspectus.mechanisms.mechanism import Problem
from conspectus.mechanisms.top import Top
from conspectus.privacy.accounting import Filter
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.stability.released_value import drawn
from conspectus.stability.value_planning import plan_of
from conspectus.stability.value_release import values_of

BLOCKS = (10, 30, 100, 300)
RUNS = 200
RELEASES = 3
NAMES = "age workclass fnlwgt education edu marital occupation relationship race sex gain loss hours country income"
KEPT = ("age", "edu", "hours", "marital", "occupation", "sex", "income")
AGE, EDU, HOURS, INCOME = 0, 1, 2, 6
SEED = 17


def main() -> None:
    schema, table, codes = adult()
    subsamples(schema, table, codes)
    rules(schema, table, codes)


def adult():
    import pandas as pd

    frame = pd.read_csv(
        data_file("adult.data.gz"), header=None, names=NAMES.split(), skipinitialspace=True, na_values="?"
    )[list(KEPT)].dropna()
    columns: dict[str, dict] = {
        "age": {"type": "integer", "min": 17, "max": 90},
        "edu": {"type": "integer", "min": 1, "max": 16},
        "hours": {"type": "integer", "min": 1, "max": 99},
    }
    for name in KEPT[3:]:
        columns[name] = {"type": "categorical", "values": sorted(frame[name].unique())}
    schema = cs.Schema.from_dict({"name": "adult", "columns": columns})
    table = cs.open_table(frame, schema)
    codes = np.concatenate([np.stack(chunk.columns, axis=1) for chunk in table.chunks()]).astype(np.int64)
    return schema, table, codes


def slope(codes):
    """By how much the share of high incomes rises with a year of education, by least squares."""
    edu, high = codes[:, EDU].astype(float), codes[:, INCOME].astype(float)
    return np.cov(edu, high)[0, 1] / edu.var(ddof=1)


def centres(codes):
    """Two centres of age and hours by Lloyd's algorithm, the younger one first."""
    points = codes[:, [AGE, HOURS]].astype(float) + (17, 1)
    found = np.array([np.quantile(points, 0.25, axis=0), np.quantile(points, 0.75, axis=0)])
    for _ in range(30):
        near = ((points[:, None] - found) ** 2).sum(axis=2).argmin(axis=1)
        found = np.array([points[near == k].mean(axis=0) for k in range(2)])
    return found[found[:, 0].argsort()].ravel()


def forest_accuracy(codes):
    """The accuracy of a random forest, trained on two thirds of the rows and judged on the last third."""
    draw = np.random.Generator(np.random.PCG64(SEED))
    rows = codes[draw.permutation(len(codes))]
    learn, judge = rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    votes = np.zeros(len(judge))
    for _ in range(9):
        votes += predicted(grown(learn[draw.integers(0, len(learn), len(learn))], draw, 5), judge)
    return float(np.mean((votes > 4) == judge[:, INCOME]))


def grown(rows, draw, depth):
    """A tree over codes: the best of three columns at each node, split at a code by Gini's impurity."""
    share = rows[:, INCOME].mean() if len(rows) else 0.0
    if depth == 0 or len(rows) < 10 or share in (0.0, 1.0):
        return share
    best = (np.inf, 0, 0)
    for column in draw.choice(INCOME, 3, replace=False):
        counts = np.bincount(rows[:, column] * 2 + rows[:, INCOME], minlength=2)
        upto = counts[: len(counts) // 2 * 2].reshape(-1, 2).cumsum(axis=0)[:-1].astype(float)
        if not len(upto):
            continue
        rest = np.bincount(rows[:, INCOME], minlength=2) - upto
        left, right = upto.sum(axis=1), rest.sum(axis=1)
        with np.errstate(all="ignore"):
            impurity = np.nan_to_num(upto.prod(axis=1) / left) + np.nan_to_num(rest.prod(axis=1) / right)
        best = min(best, (float(impurity.min()), int(column), int(impurity.argmin())))
    _, column, code = best
    low = rows[:, column] <= code
    if low.all() or not low.any():
        return share
    return column, code, grown(rows[low], draw, depth - 1), grown(rows[~low], draw, depth - 1)


def predicted(tree, rows):
    if not isinstance(tree, tuple):
        return np.full(len(rows), tree > 0.5)
    column, code, low, high = tree
    return np.where(rows[:, column] <= code, predicted(low, rows), predicted(high, rows))


def subsamples(schema, table, codes) -> None:
    names = ("young age", "young hours", "old age", "old hours")
    ranges = ((17.0, 90.0), (1.0, 99.0)) * 2
    cases = [
        ("slope of income on education", slope, {"range": (-0.2, 0.2), "levels": 401}, 1.0),
        ("accuracy of a random forest", forest_accuracy, {"range": (0.5, 1.0), "levels": 501}, 1.0),
        ("two centres of age and hours", centres, {"range": dict(zip(names, ranges)), "levels": 401}, 4.0),
    ]
    lines = []
    for title, function, declared, epsilon in cases:
        truth = np.atleast_1d(function(codes[np.lexsort(codes.T[::-1])]))
        for blocks in BLOCKS:
            line = [title, f"{epsilon:g}", f"{blocks}"]
            began = time.process_time()
            for by in ("median", "mean"):
                wanted = cs.aggregated(schema, function, blocks=blocks, by=by, **declared)
                held = Truth(table)
                line += [_error(table, wanted, truth, size, held=held) for size in (epsilon, 1e6)]
            lines.append([*line, f"{time.process_time() - began:.0f}"])
            print(line, flush=True)
    heads = [
        "value",
        "ε",
        "blocks",
        "median: released",
        "of which subsamples",
        "mean: released",
        "of which subsamples",
        "seconds",
    ]
    note = (
        f"Adult, {len(codes):,} rows, seven columns, add-remove, pure ε; root mean square error against the same "
        f"function on all rows, over {RUNS} releases; of centres over four numbers, which share ε. *Of which "
        "subsamples* is the error of the median or mean of their results before any noise: each has fewer rows, "
        "the more there are. The seconds are this process's time for both, without that of the processes that ran the "
        "function. With a proved sensitivity, from the joint table of education and income by `laplace` at ε = 1, the "
        f"error of the slope is {_proved(schema, table, codes)}. The other two have no such way."
    )
    title = "Functions on subsamples of a table"
    record("subsamples", title, f"{markdown(heads, lines)}\n\n{note}", "python -m bench single_values")


def _error(table, wanted, truth, epsilon, *, held) -> str:
    """Root mean square error of many releases from one run of the function."""
    plan = plan_of(wanted, Budget(epsilon=epsilon), Relation(Neighbours.ADD_REMOVE))
    endless = Filter("pure", Fraction(10**12), Neighbours.ADD_REMOVE)
    curator = Curator(held, endless, neighbours=Neighbours.ADD_REMOVE)
    found = [[v.value for v in values_of(plan, drawn(curator, plan), 0.95)] for _ in range(RUNS)]
    return f"{float(np.sqrt(np.mean((np.array(found) - truth) ** 2))):.3g}"


def _proved(schema, table, codes) -> str:
    """The slope from the joint table of both columns, in which one person moves one count."""
    truth, errors = slope(codes), []
    for _ in range(RUNS):
        both = cs.release(
            table, cs.marginal(schema, ["edu", "income"]), epsilon=1.0, neighbours="add-remove", mechanism="laplace"
        )
        counts = np.maximum(both.answers.reshape(16, 2), 0)
        edu = np.arange(16.0)
        share = counts / counts.sum()
        mean, income = (share.sum(axis=1) * edu).sum(), share[:, 1].sum()
        errors.append(
            ((share[:, 1] * edu).sum() - mean * income) / ((share.sum(axis=1) * edu**2).sum() - mean**2) - truth
        )
    return f"{float(np.sqrt(np.mean(np.square(errors)))):.2g}"


def _expected(held, agreements, epsilon: float) -> float:
    """On how many rows fewer the rule that `cs.best` chooses is right than the best one: the mean of its law."""
    relation = Relation(Neighbours.ADD_REMOVE)
    problem = Problem(workload=agreements, budget=Budget(epsilon=epsilon, delta=1e-9), relation=relation)
    plan = Top(count=1, rule="exponential", counts=0.2, rest=True).plan(problem)
    score, counts = LargestCounts(plan.asked), held.counts(plan.asked)
    steps = score.of(counts).astype(float)
    rate = float(selection_rate(spread_of(score, relation).under(relation.neighbours) / 2, plan.epsilon))
    chances = np.exp(rate * (steps - steps.max()))
    return float((chances * (counts.max() - counts)).sum() / chances.sum())


def rules(schema, table, codes) -> None:
    """Rules of one and two conditions for a high income: by the table itself, and by a release of marginals."""
    label = "income = '>50K'"
    simple = [f"edu >= {k}" for k in range(8, 16)] + [f"age >= {k}" for k in range(25, 60, 5)]
    simple += [f"hours >= {k}" for k in range(35, 65, 5)] + ["marital = 'Married-civ-spouse'", "sex = 'Male'"]
    listed = simple + [f"{a} AND {b}" for i, a in enumerate(simple) for b in simple[i + 1 :] if a[:3] != b[:3]]
    agreements = cs.sql(schema, [f"(({r}) AND {label}) OR (NOT ({r}) AND NOT {label})" for r in listed])
    exact = cs.release(table, agreements, epsilon=1e6, mechanism="laplace").answers
    held = Truth(table)
    lines = []
    asked = [
        ("age", "edu"),
        ("age", "hours"),
        ("edu", "hours"),
        *((n, s) for n in KEPT[:3] for s in ("marital", "sex")),
    ]
    tables = [cs.marginal(schema, [*pair, "income"]) for pair in (*asked, ("marital", "sex"))]
    workload = sum(tables[1:], tables[0])
    for epsilon in (0.01, 0.03, 0.1, 0.3, 1.0):
        budget = {"epsilon": epsilon, "delta": 1e-9, "neighbours": "add-remove"}
        chosen = _expected(held, agreements, epsilon) / len(codes)
        released = [cs.release(table, workload, mechanism="gaussian", **budget) for _ in range(RELEASES)]
        learned = [exact.max() - exact[each.best(listed, label).position] for each in released]
        bound = f"{cs.best(table, listed, label, **budget).excess:.4f}"
        lines.append([f"{epsilon:g}", f"{chosen:.5f}", bound, f"{np.mean(learned):.4f}"])
        print(lines[-1], flush=True)
    heads = ["ε", "`cs.best`", "its bound", "`release.best`"]
    note = (
        f"Adult, {len(codes):,} rows, add-remove, δ = 1e-9; {len(listed):,} rules of one or two conditions for incomes "
        f"above 50K, of which the best is right on {exact.max():.4f} of the rows. By how much the rule that was chosen "
        "is right less often: on the table itself the mean over the law that it is drawn by, summed over all rules; "
        f"the bound that holds with probability 0.94; and the mean of {RELEASES} choices by post-processing a release "
        "of the ten tables of two columns and income that the rules need, by `gaussian` at the same budget, which "
        "answers all other questions about them too."
    )
    record("rules", "Learning a rule", f"{markdown(heads, lines)}\n\n{note}", "python -m bench.single_values rules")


if __name__ == "__main__":
    rules(*adult()) if sys.argv[1:] == ["rules"] else main()

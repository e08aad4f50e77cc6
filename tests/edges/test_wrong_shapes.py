"""Arguments of the wrong shape, for every maker of workloads: each is answered by one sentence of ours, or served."""

from __future__ import annotations

import numpy as np
import pytest

import conspectus as cs
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

COLUMNS = {
    "a": {"type": "categorical", "values": ["x", "y"]},
    "age": {"type": "integer", "min": 0, "max": 9},
    "b": {"type": "boolean"},
}
S = cs.Schema.from_dict({"name": "small", "columns": COLUMNS})
FUNCTION = {"f": (len, 0.5)}

WRONG = [
    *(None, 3, -1, 1.5, True, float("nan"), object(), len, S, cs.between(1, 2), np.array(3), np.array([1.0])),
    *("a", "abc", "age", b"ab", set(), {"a"}, range(3), (1, 2)),
    *({}, {"a": "x"}, {5: "a"}, {"a": 3}, {"a": (3, 4)}, {"a": (len, "x")}),
    *([], [None], [3], ["a"], ["age"], [["a"]], [[[]]], [(1, 2)], [("a", "b")], [("a",)], [object()], [0.5], [[0.5]]),
    *([{"a": "x"}], [[{"a": "x"}]], [{"a": {"x": 1}}], [{5: "a"}], [{"a": None}], [{"a": [["x"]]}]),
    *([{"age": object()}], [{"a": cs.between(1, 2)}], [{"age": cs.between("u", None)}]),
]

MAKERS = {
    "marginals": [lambda w: cs.marginals(S, w), lambda w: cs.marginals(S, 1, w), lambda w: cs.marginals(w, 1)],
    "marginal": [lambda w: cs.marginal(S, w), lambda w: cs.marginal(w, ["a"])],
    "conjunctions": [lambda w: cs.conjunctions(S, w), lambda w: cs.conjunctions(w, [{"a": "x"}])],
    "random_conjunctions": [
        lambda w: cs.random_conjunctions(S, w, 3, 1),
        lambda w: cs.random_conjunctions(S, 2, w, 1),
        lambda w: cs.random_conjunctions(S, 2, 3, w),
        lambda w: cs.random_conjunctions(w, 2, 3, 1),
    ],
    "parities": [lambda w: cs.parities(S, w), lambda w: cs.parities(w, 1)],
    "ranges": [lambda w: cs.ranges(S, w), lambda w: cs.ranges(w, "age")],
    "prefixes": [lambda w: cs.prefixes(S, w), lambda w: cs.prefixes(w, "age")],
    "sql": [lambda w: cs.sql(S, w), lambda w: cs.sql(w, ["a = 'x'"])],
    "sparse": [lambda w: cs.sparse(w), lambda w: cs.sparse(w, S), lambda w: cs.sparse([["a"]], w)],
    "overlap": [lambda w: cs.overlap(w), lambda w: cs.overlap(w, S), lambda w: cs.overlap(["a"], w)],
    "sparse_arrays": [
        lambda w: cs.sparse_arrays(w, [0, 1]),
        lambda w: cs.sparse_arrays(["a"], w),
        lambda w: cs.sparse_arrays(["a"], [0, 1], weights=w),
        lambda w: cs.sparse_arrays(w, [0, 1], schema=S),
        lambda w: cs.sparse_arrays(["a"], [0, 1], schema=w),
    ],
    "mode_shares": [lambda w: cs.mode_shares(S, w), lambda w: cs.mode_shares(S, given=w), lambda w: cs.mode_shares(w)],
    "truncated_means": [
        lambda w: cs.truncated_means(S, w),
        lambda w: cs.truncated_means(S, "age", w),
        lambda w: cs.truncated_means(S, "age", given=w),
        lambda w: cs.truncated_means(w, "age"),
    ],
    "quantile_shares": [
        lambda w: cs.quantile_shares(S, w),
        lambda w: cs.quantile_shares(S, "age", w),
        lambda w: cs.quantile_shares(w, "age"),
    ],
    "interval_balances": [
        lambda w: cs.interval_balances(S, w),
        lambda w: cs.interval_balances(S, "age", w),
        lambda w: cs.interval_balances(w, "age"),
    ],
    "kolmogorov_distances": [
        lambda w: cs.kolmogorov_distances(S, w),
        lambda w: cs.kolmogorov_distances(S, "age", w),
        lambda w: cs.kolmogorov_distances(w, "age"),
    ],
    "independence_distances": [
        lambda w: cs.independence_distances(S, w),
        lambda w: cs.independence_distances(S, given=w),
        lambda w: cs.independence_distances(w),
    ],
    "independence_gaps": [lambda w: cs.independence_gaps(S, w), lambda w: cs.independence_gaps(w)],
    "satisfied_shares": [lambda w: cs.satisfied_shares(S, w), lambda w: cs.satisfied_shares(w, [[{"a": "x"}]])],
    "unsafe_functions": [
        lambda w: cs.unsafe_functions(S, w),
        lambda w: cs.unsafe_functions(w, FUNCTION),
        lambda w: cs.unsafe_functions(S, FUNCTION, rows=w),
    ],
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_error_is_one_sentence_of_ours(name):
    answers = [(place, wrong, said(make, wrong)) for place, make in enumerate(MAKERS[name]) for wrong in WRONG]
    refused = [(place, wrong, problem) for place, wrong, problem in answers if problem is not None]
    assert len(refused) > len(WRONG) // 2
    for place, wrong, problem in refused:
        assert type(problem).__module__.startswith("conspectus"), (place, wrong, problem)
        assert 10 < len(str(problem)) < 300, (place, wrong, problem)
        assert "\n" not in str(problem), (place, wrong, problem)


def said(make, wrong):
    """The error of a maker, or None where it made a workload."""
    try:
        assert isinstance(make(wrong), Workload)
    except (ValueError, TypeError, LookupError, AttributeError) as problem:
        return problem
    return None


def test_one_mapping_is_one_condition():
    assert cs.conjunctions(S, {"a": "x"}) == cs.conjunctions(S, [{"a": "x"}])
    assert cs.mode_shares(S, given={"a": "x"}) == cs.mode_shares(S, given=[{"a": "x"}])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cs.satisfied_shares(S, [{"a": "x"}]), r"a list of lists of conditions"),
        (lambda: cs.sparse([{5: "a"}]), r"weights of a sparse query are numbers in \[0, 1\]"),
        (lambda: cs.overlap("abc"), r"write \[record\] for a single one"),
        (lambda: cs.sparse({5: 1.0}), r"write \[mapping\] for a single one"),
        (lambda: cs.marginals(["a"], 1), r"a schema is needed here"),
        (lambda: cs.conjunctions(S, ["a"]), r"mappings from columns to values"),
        (lambda: cs.unsafe_functions(S, [len]), r"\{name: \(function, sensitivity\)\}"),
    ],
)
def test_likely_mistakes_are_taught(make, words):
    with pytest.raises(WorkloadError, match=words):
        make()

"""Every synopsis: right answers, linear, in range, sampled from validly, and the same after being taken apart."""

from __future__ import annotations

import dataclasses
import math
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import sums

from conspectus.counting.marginal_tree import MarginalTree
from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities
from conspectus.queries.query import Literal, Parity, Predicate
from conspectus.queries.workload import Workload
from conspectus.synopses.histogram import Histogram, cells_to_chunk
from conspectus.synopses.measured_sums import paid_total
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.product_mixture import ProductMixture
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import BadSynopsis, CannotAnswer, Total, load_synopsis

SMALL = settings(max_examples=40, deadline=None)


def coins(seed):
    return np.random.Generator(np.random.PCG64(seed))


def domains(most=4):
    sizes = st.lists(st.integers(1, 4), min_size=1, max_size=most)
    return sizes.map(lambda sizes: Domain(tuple(f"c{i}" for i in range(len(sizes))), tuple(sizes)))


@st.composite
def predicates(draw, domain):
    """One box, or two that differ in some column."""
    box = {}
    for column, size in enumerate(domain.sizes):
        codes = draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size))
        if len(codes) < size and draw(st.booleans()):
            box[column] = tuple(sorted(codes))
    boxes = [tuple(Literal(c, codes) for c, codes in sorted(box.items()))]
    if box and draw(st.booleans()):
        flip = draw(st.sampled_from(sorted(box)))
        rest = tuple(code for code in range(domain.sizes[flip]) if code not in box[flip])
        boxes.append((Literal(flip, rest),))
    return Predicate(tuple(boxes))


@st.composite
def workloads(draw, domain):
    blocks = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["marginal", "listed", "intervals", "parities"]))
        twofold = tuple(c for c, size in enumerate(domain.sizes) if size == 2)
        if kind == "marginal":
            columns = draw(st.permutations(range(len(domain))))[: draw(st.integers(0, len(domain)))]
            blocks.append(Marginal(domain, tuple(columns)))
        elif kind == "parities" and twofold:
            blocks.append(Parities(domain, twofold, draw(st.integers(0, len(twofold)))))
        elif kind == "intervals":
            column = draw(st.integers(0, len(domain) - 1))
            regular = draw(st.integers(1, domain.sizes[column]))
            blocks.append(Intervals(domain, column, regular, draw(st.booleans())))
        else:
            blocks.append(Conjunctions.of(domain, draw(st.lists(predicates(domain), min_size=1, max_size=4))))
    return Workload(domain, tuple(blocks))


def tables(domain, seed):
    return coins(seed).integers(0, 9, domain.sizes)


EXACT = Total(value=50.0, exact=True)
problems = domains().flatmap(lambda domain: st.tuples(st.just(domain), workloads(domain), st.integers(0, 99)))

pairs_of_workloads = domains().flatmap(lambda domain: st.tuples(st.just(domain), workloads(domain), workloads(domain)))


def made(domain, seed):
    """One histogram, the same thing as rows, with and without multiplicities, and as a mixture of single records."""
    table = tables(domain, seed)
    table.ravel()[0] += 1
    cells = np.arange(domain.cells)
    repeated = cells_to_chunk(domain, np.repeat(cells, table.ravel()))
    counted = cells_to_chunk(domain, cells)
    return table, [
        Histogram(domain, table / table.sum(), EXACT),
        Rows(domain, repeated.columns, EXACT),
        Rows(domain, counted.columns, EXACT, table.ravel()),
        ProductMixture(domain, table.ravel(), single_records(domain), EXACT),
    ]


def single_records(domain):
    """Conditional shares of as many components as there are cells, each of which makes one record."""
    codes = np.unravel_index(np.arange(domain.cells), domain.sizes)
    return np.concatenate([np.eye(size)[column] for column, size in zip(codes, domain.sizes)], axis=1)


@SMALL
@given(problems)
def test_histograms_and_rows_answer_as_the_table_they_describe(problem):
    domain, workload, seed = problem
    table, synopses = made(domain, seed)
    for synopsis in synopses:
        answers = synopsis.answer(workload)
        np.testing.assert_allclose(answers, sums(workload, table) / table.sum(), atol=1e-12)
        assert answers.min(initial=0) >= 0
        assert answers.max(initial=1) <= 1


@SMALL
@given(problems, st.integers(0, 99), st.floats(0, 1))
def test_answers_are_linear_in_the_weights(problem, other_seed, share):
    domain, workload, seed = problem
    (a, *_), (b, *_) = made(domain, seed)[1], made(domain, other_seed)[1]
    mixed = Histogram(domain, share * a.weights + (1 - share) * b.weights, EXACT)
    expected = share * a.answer(workload) + (1 - share) * b.answer(workload)
    np.testing.assert_allclose(mixed.answer(workload), expected, atol=1e-12)


@SMALL
@given(problems)
def test_parts_put_together_answer_the_same_to_the_bit(problem):
    domain, workload, seed = problem
    noisy = sums(workload, tables(domain, seed)) + coins(seed).normal(size=len(workload))
    own = NoisyAnswers(domain, workload, noisy, (Noise("laplace", 2.5),), EXACT)
    for synopsis in [*made(domain, seed)[1], own]:
        meta, parts = synopsis.parts()
        again = load_synopsis(domain, synopsis.kind, meta, parts)
        assert type(again) is type(synopsis)
        assert again.total == synopsis.total
        assert again.answer(workload).tobytes() == synopsis.answer(workload).tobytes()


@SMALL
@given(domains(), st.integers(0, 99), st.integers(0, 300))
def test_samples_are_valid_rows_near_their_shares(domain, seed, rows):
    table, synopses = made(domain, seed)
    for synopsis in synopses:
        chunk = synopsis.sample(rows, public_seed=seed)
        assert chunk.rows == rows
        columns = [chunk.column(position) for position in range(len(domain))]
        assert all(codes.shape == (rows,) for codes in columns)
        assert all((codes < size).all() for codes, size in zip(columns, domain.sizes))
        cells = np.ravel_multi_index([codes.astype(np.int64) for codes in columns], domain.sizes)
        counts = np.bincount(cells, minlength=domain.cells)
        shares = rows * table.ravel() / table.sum()
        # A cell of `Rows` is several records, each rounded; the order of records is random, their total is not.
        slack = table.ravel() + 1 if isinstance(synopsis, Rows) and synopsis.multiplicities is None else 1
        assert (np.abs(counts - shares) < slack + 1e-6).all()
        again = synopsis.sample(rows, public_seed=seed)
        assert all(np.array_equal(a, b) for a, b in zip(chunk.columns, again.columns))


def test_samples_differ_without_a_seed():
    histogram = Histogram(Domain(("a",), (1000,)), np.ones(1000), EXACT)
    assert not np.array_equal(histogram.sample(500).column(0), histogram.sample(500).column(0))


@SMALL
@given(domains(), st.integers(0, 99), st.data())
def test_marginal_trees_and_their_adjoint(domain, seed, data):
    sets = st.sets(st.integers(0, len(domain) - 1)).map(lambda s: tuple(sorted(s)))
    chosen = data.draw(st.lists(sets, max_size=6))
    tree = MarginalTree(domain.sizes, chosen)
    table = coins(seed).normal(size=domain.sizes)
    for columns, marginal in zip(chosen, tree.marginals(table)):
        others = tuple(c for c in range(len(domain)) if c not in columns)
        np.testing.assert_allclose(marginal, table.sum(axis=others).ravel(), atol=1e-12)
    functions = coins(seed + 1).normal(size=tree.length)
    forward = float(functions @ tree.marginals_flat(table)) if chosen else 0.0
    assert math.isclose(forward, float(table.ravel() @ tree.spread_flat(functions)), abs_tol=1e-9)


# Noisy answers


@SMALL
@given(problems, st.booleans())
def test_noisy_answers_give_back_their_counts(problem, exact):
    domain, workload, seed = problem
    noisy = coins(seed).normal(size=len(workload)) * 10
    total = EXACT if exact else Total(value=-3.0, exact=False, kind="gaussian", scale=2.0, terms=4)
    answers = NoisyAnswers(domain, workload, noisy, (Noise("gaussian", 10.0),), total).answer(workload)
    assert np.array_equal(answers, noisy / (50 if exact else 1))


@SMALL
@given(
    domains().flatmap(lambda d: st.tuples(st.just(d), workloads(d), workloads(d))), st.integers(0, 99), st.booleans()
)
def test_whatever_is_answered_from_exact_counts_is_right(problem, seed, exact):
    """Without noise every sum of measured counts must be the truth, and the variance that of so many terms."""
    domain, workload, asked = problem
    table = tables(domain, seed)
    total = Total(value=float(table.sum()), exact=exact, kind=None if exact else "laplace", terms=0 if exact else 1)
    own = NoisyAnswers(domain, workload, sums(workload, table), (Noise("laplace", 3.0),), total)
    known = []
    for query, truth in zip(asked.queries(), sums(asked, table)):
        found = own.find(query)
        known.append(found is not None)
        ways = [] if found is None else [found]
        with suppress(CannotAnswer):
            ways.append(own.sum_for(query))
            assert found is not None, "whatever is a plain sum is found"
        for estimate in ways:
            assert math.isclose(estimate.count, truth, abs_tol=1e-6)
            assert estimate.variance <= variance_of(Noise("laplace", 3.0)) * max(domain.cells, 4) ** 2
    # Together the same are answered as one by one.
    if all(known):
        np.testing.assert_allclose(own.answer(asked) * total.divisor, sums(asked, table), atol=1e-6)
        return
    with pytest.raises(CannotAnswer):
        own.answer(asked)


def three_columns():
    domain = Domain(("sex", "age", "ill"), (2, 5, 2))
    return domain, tables(domain, 3)


def test_a_narrower_marginal_averages_all_wider_ones_of_a_kind():
    domain, table = three_columns()
    pairs = Workload(domain, tuple(Marginal(domain, c) for c in [(0, 2), (2, 0), (1, 2), (0, 1)]))
    noisy = coins(1).normal(size=len(pairs))
    own = NoisyAnswers(domain, pairs, sums(pairs, table) + noisy, (Noise("laplace", 7.0),), EXACT)
    estimate = own.sum_for(Predicate(((Literal(0, (1,)),),)))
    # sex = 1 from sex × ill has 2 terms, from sex × age 5; the repeated sex × ill may share its noise and is left out.
    assert (estimate.terms, estimate.averaged, estimate.scale) == (2, 1, 7.0)
    triples = Workload(domain, (Marginal(domain, (0, 1)), Marginal(domain, (1, 2))))
    own = NoisyAnswers(domain, triples, sums(triples, table), (Noise("gaussian", 7.0),), EXACT)
    estimate = own.sum_for(Predicate(((Literal(1, (0,)),),)))
    assert (estimate.terms, estimate.averaged) == (4, 2)
    assert math.isclose(estimate.variance, 49.0)
    asked = Workload(domain, (Marginal(domain, (1,)),))
    assert math.isclose(dataclasses.replace(own, pooled=False).answer(asked)[0] * 50, estimate.count)
    assert own.best_for(asked.query(0)).variance < estimate.variance  # with what the other marginals say
    assert math.isclose(own.answer(asked)[0] * 50, own.best_for(asked.query(0)).count)


def test_the_rest_of_a_public_total_has_fewer_terms():
    domain, table = three_columns()
    total = float(table.sum())
    measured = Workload(domain, (Marginal(domain, (1,)),))
    most = Predicate(((Literal(1, (0, 1, 2, 3)),),))
    counts = sums(measured, table)
    public = NoisyAnswers(domain, measured, counts, (Noise("laplace", 1.0),), Total(value=total, exact=True))
    assert public.sum_for(most).terms == 1
    paid = Total(value=total, exact=False, kind="laplace", scale=1.0, terms=5)
    assert NoisyAnswers(domain, measured, counts, (Noise("laplace", 1.0),), paid).sum_for(most).terms == 4
    listed = Workload(domain, (Conjunctions.of(domain, [Predicate(((Literal(1, (4,)),),))]),))
    own = NoisyAnswers(domain, listed, sums(listed, table), (Noise("laplace", 1.0),), Total(value=total, exact=True))
    assert own.sum_for(most).count == float(table[:, :4].sum())


def test_prefixes_give_ranges_as_differences():
    domain, table = three_columns()
    prefixes = Workload(domain, (Intervals(domain, 1, 5, True),))
    own = NoisyAnswers(domain, prefixes, sums(prefixes, table), (Noise("gaussian", 1.0),), EXACT)
    middle = own.sum_for(Predicate(((Literal(1, (1, 2)),),)))
    assert (middle.count, middle.terms) == (float(table[:, 1:3].sum()), 2)


def test_parities_are_sums_of_cells():
    domain, table = three_columns()
    measured = Workload(domain, (Marginal(domain, (2, 0)), Parities(domain, (0, 2), 1)))
    own = NoisyAnswers(domain, measured, sums(measured, table), (Noise("gaussian", 1.0),), EXACT)
    both = own.sum_for(Parity((0, 2)))
    assert (both.count, both.terms) == (float(table[0, :, 0].sum() + table[1, :, 1].sum()), 2)
    assert (own.sum_for(Parity((2,))).count, own.sum_for(Parity((2,))).terms) == (float(table[..., 0].sum()), 1)


def test_a_refusal_names_the_columns_that_nothing_covers():
    domain, table = three_columns()
    measured = Workload(domain, (Marginal(domain, (0,)), Marginal(domain, (1,))))
    own = NoisyAnswers(domain, measured, sums(measured, table), (Noise("laplace", 1.0),), EXACT)
    with pytest.raises(CannotAnswer, match="covers ill:"):
        own.sum_for(Predicate(((Literal(2, (0,)),),)))
    with pytest.raises(CannotAnswer, match="covers sex, age together"):
        own.sum_for(Predicate(((Literal(0, (0,)), Literal(1, (0,))),)))
    with pytest.raises(CannotAnswer, match="no rows"):
        own.sample(3)


def test_repeated_questions_are_answered_by_the_one_measurement():
    domain, table = three_columns()
    listed = Conjunctions.of(domain, [Predicate(((Literal(1, (code,)),),)) for code in (0, 3, 0)])
    asked = Workload(domain, (listed, Marginal(domain, (0, 2)), Marginal(domain, (2, 0))))
    once = asked.distinct()
    noisy = sums(once, table) + coins(5).normal(size=len(once))
    answers = NoisyAnswers(domain, once, noisy, (Noise("laplace", 1.0),), EXACT).answer(asked) * 50
    assert answers[0] == answers[2]
    np.testing.assert_allclose(answers[3:7].reshape(2, 2), answers[7:].reshape(2, 2).T)


def test_a_measured_query_is_found_however_it_is_written():
    domain, table = three_columns()
    young, ill = Literal(1, (0, 1)), Literal(2, (1,))
    rest = (Literal(1, (2, 3, 4)), ill)
    listed = Conjunctions.of(domain, [Predicate(()), Predicate(((young,), rest)), Predicate(((),))])
    workload = Workload(domain, (listed,))
    own = NoisyAnswers(domain, workload, sums(workload, table), (Noise("laplace", 1.0),), EXACT)
    either = float(table[:, :2].sum() + table[:, 2:, 1].sum())
    everyone = Literal(0, (0, 1))
    for boxes in (((young,), rest), (rest, (young,)), ((everyone, young), rest)):
        assert own.sum_for(Predicate(boxes)).count == either
    with pytest.raises(CannotAnswer):
        own.sum_for(Predicate(((young,), (Literal(1, (2, 3)), ill))))


def test_a_paid_total_is_the_average_of_the_shortest_marginals():
    domain, table = three_columns()
    measured = Workload(domain, tuple(Marginal(domain, c) for c in [(0,), (2,), (1,), (0, 1)]))
    total = paid_total(measured, sums(measured, table), Noise("laplace", 2.0))
    assert (total.value, total.terms, total.averaged, total.exact) == (float(table.sum()), 4, 2, False)
    listed = Workload(domain, (Conjunctions.of(domain, [Predicate(((Literal(0, (1,)),),))]),))
    with pytest.raises(BadSynopsis, match="measure a marginal"):
        paid_total(listed, np.ones(1), Noise("laplace", 2.0))


def test_the_variance_of_discrete_laplace_noise():
    for scale in (0.05, 0.7, 3.0, 200.0):
        reach = np.arange(1, int(60 * scale) + 60)
        weights = np.exp(-reach / scale)
        direct = 2 * float((reach**2 * weights).sum()) / (1 + 2 * float(weights.sum()))
        assert math.isclose(variance_of(Noise("laplace", scale)), direct, rel_tol=1e-9)
    assert variance_of(Noise("laplace", 0.0)) == 0


# What is not a synopsis


PAIR = Domain(("a", "b"), (2, 2))


@pytest.mark.parametrize(
    "weights", [[0.5, 0.5], [np.nan, 1, 0, 0], [-0.1, 0.6, 0.5, 0], [0, 0, 0, 0], [np.inf, 0, 0, 0]]
)
def test_weights_that_are_no_distribution_are_refused(weights):
    with pytest.raises(BadSynopsis):
        Histogram(PAIR, np.array(weights, dtype=float), EXACT)


@pytest.mark.parametrize("codes", [[[0, 1], [0, 2]], [[0, 1]], [[0.0, 1.0], [0, 1]], [[0], [0, 1]], [[], []]])
def test_codes_outside_the_domain_are_refused(codes):
    with pytest.raises(BadSynopsis):
        Rows(PAIR, tuple(np.array(column) for column in codes), EXACT)


def test_parts_that_do_not_fit_are_refused():
    workload = Workload(PAIR, (Marginal(PAIR, (0,)),))
    whole = [
        Histogram(PAIR, np.full(4, 0.25), EXACT),
        Rows(PAIR, (np.array([0, 1]), np.array([1, 1])), EXACT, np.array([2, 3])),
        NoisyAnswers(PAIR, workload, np.ones(2), (Noise("laplace", 1.0),), EXACT),
        ProductMixture(PAIR, np.ones(4), single_records(PAIR), EXACT),
        ResidualAnswers(PAIR, ((0,), (0, 1)), (1.0, 2.0), np.ones(6), EXACT),
    ]
    whole.append(MedianEnsemble(PAIR, tuple(whole[:2]), (3, 2), workload, EXACT))
    for synopsis in whole:
        meta, parts = synopsis.parts()
        broken = [({}, parts), (meta, {}), ({**meta, "total": {"value": 1}}, parts)]
        broken += [(meta, {**parts, name: pa.table({"x": [1]})}) for name in parts]
        broken += [(meta, {**parts, name: table.slice(0, table.num_rows - 1)}) for name, table in parts.items()]
        broken += [({**meta, "noise": [["cauchy", 1.0]]}, parts)] if "noise" in meta else []
        for new_meta, new_parts in broken:
            with pytest.raises(BadSynopsis):
                load_synopsis(PAIR, synopsis.kind, new_meta, new_parts)
    with pytest.raises(BadSynopsis, match="no synopsis is called"):
        load_synopsis(PAIR, "os.system", {}, {})


def test_members_that_make_no_ensemble_are_refused():
    workload = Workload(PAIR, (Marginal(PAIR, (0,)),))
    member = Histogram(PAIR, np.full(4, 0.25), EXACT)
    for weights in ((), (1, 2), (0,), (-1,), (1.0,), (1 << 50,)):
        with pytest.raises(BadSynopsis):
            MedianEnsemble(PAIR, (member,), weights, workload, EXACT)
    ensemble = MedianEnsemble(PAIR, (member, member), (1, 1), workload, EXACT)
    meta, parts = ensemble.parts()
    inner = meta["members"][0]
    for wrong in (
        {**inner, "kind": "median-ensemble", "meta": meta},
        {**inner, "kind": 3},
        {**inner, "meta": []},
        {**inner, "weight": "1"},
        {"kind": "histogram"},
        [],
    ):
        with pytest.raises(BadSynopsis):
            MedianEnsemble.from_parts(PAIR, {**meta, "members": [wrong, inner]}, parts)
    with pytest.raises(BadSynopsis):
        MedianEnsemble.from_parts(PAIR, {**meta, "members": [inner] * 500}, parts)


def test_an_ensemble_answers_by_the_median_of_its_members():
    workload = Workload(PAIR, (Marginal(PAIR, (0, 1)),))
    members = tuple(Histogram(PAIR, np.array(w), EXACT) for w in ([1.0, 0, 0, 0], [0, 0.5, 0.5, 0], [0.25] * 4))
    plain = MedianEnsemble(PAIR, members, (1, 1, 1), workload, EXACT)
    np.testing.assert_allclose(plain.answer(workload), [0.25, 0.25, 0.25, 0])
    led = MedianEnsemble(PAIR, members, (5, 1, 1), workload, EXACT)
    np.testing.assert_allclose(led.answer(workload), members[0].weights)
    listed = Workload(PAIR, (Conjunctions.of(PAIR, [Predicate(((Literal(0, (1,)),),))]),))
    alone = MedianEnsemble(PAIR, members, (1, 1, 1), listed, EXACT)
    assert alone.sample(100, public_seed=2).rows == 100
    assert alone.fitted.answer(listed)[0] == pytest.approx(0.5, abs=0.01)


def test_another_tables_workload_is_refused():
    other = Domain(("a", "c"), (2, 2))
    asked = Workload(other, (Marginal(other, (0,)),))
    workload = Workload(PAIR, (Marginal(PAIR, (0,)),))
    rows = Rows(PAIR, (np.array([0]), np.array([1])), EXACT)
    own = NoisyAnswers(PAIR, workload, np.ones(2), (Noise("laplace", 1.0),), EXACT)
    mixture = ProductMixture(PAIR, np.ones(4), single_records(PAIR), EXACT)
    for synopsis in (Histogram(PAIR, np.full(4, 0.25), EXACT), rows, own, mixture):
        with pytest.raises(CannotAnswer, match="another table"):
            synopsis.answer(asked)


def test_a_synopsis_holds_arrays_and_no_source():
    """What it keeps is a copy that nobody else can change, and nothing that could read a row again."""
    weights, codes = np.full(4, 0.25), np.array([0, 1])
    histogram, rows = Histogram(PAIR, weights, EXACT), Rows(PAIR, (codes, codes), EXACT)
    mixture = ProductMixture(PAIR, weights, single_records(PAIR), EXACT)
    weights[0], codes[0] = 9, 1
    assert histogram.weights[0] == mixture.weights[0] == 0.25
    assert rows.codes[0][0] == 0
    assert not histogram.weights.flags.writeable
    assert not mixture.tables.flags.writeable
    kept = (np.ndarray, Domain, Total, Workload, tuple, type(None))
    for synopsis in (histogram, rows, mixture):
        assert all(isinstance(value, kept) for value in vars(synopsis).values())


def test_totals_divide_safely_and_survive_json():
    for total in (EXACT, Total(value=-4.5, exact=False, kind="gaussian", scale=3.0, terms=8, averaged=2)):
        assert Total.from_json(total.to_json()) == total
        assert total.divisor >= 1
        assert total.rows >= 0
    bad = EXACT.to_json()
    for change in ({"exact": 1}, {"value": "5"}, {"value": True}, {"terms": 1.5}, {"kind": "laplace"}, {"value": -1.0}):
        with pytest.raises(BadSynopsis):
            Total.from_json({**bad, **change})
    with pytest.raises(BadSynopsis):
        Total(value=math.nan, exact=False, kind="laplace", scale=1.0, terms=1)

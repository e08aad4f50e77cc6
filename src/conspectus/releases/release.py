"""A release: everything that may be published about one run, and nothing else.

It answers questions, publishes tables, makes synthetic rows, and is one file that says how it came about. Everything
here is post-processing: no method of a release can touch the table again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk
from conspectus.data.schema import Schema
from conspectus.mechanisms.bounds import Certificate
from conspectus.mechanisms.mechanism import Claim, ErrorBound
from conspectus.privacy import events as acts
from conspectus.privacy.accounting import best, epsilon_of, price_pure
from conspectus.privacy.guarantee import Guarantee
from conspectus.privacy.prices import Cost, cost_of, scale_down
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.builders.marginals import marginal
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.language import from_sql as language
from conspectus.queries.query import Predicate, Query, Sparse, TableFunction
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses import files
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.noisy_answers import Estimate, NoisyAnswers
from conspectus.synopses.published_records import PublishedRecords, record_array
from conspectus.synopses.random_projection import RandomProjection
from conspectus.synopses.sparse_table import SparseTable
from conspectus.synopses.synopsis import CannotAnswer, Synopsis, Total, load_synopsis

from . import answer as reading
from .answer import Answer
from .tables import (
    TOO_NOISY,
    codes_of,
    covering_cells,
    fitted_histogram,
    integer_table,
    listed_queries,
    published_table,
    rounded_marginal,
)

_BY_ITSELF = (RandomProjection, SparseTable, PublishedRecords)
"""Synopses whose answers and intervals never look at the questions of the release."""


class QuestionsNeeded(ValueError):
    """A release that cannot be saved without its questions."""


@suggest_keywords
@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """What one run published. `answers` are fractions in the workload's order.

    `left_out` is the number of questions that a file saved without them does not list: the workload and the answers are
    then empty, and the synopsis answers as it did.
    """

    schema: Schema
    workload: Workload
    answers: NDArray[np.float64]
    synopsis: Synopsis
    guarantee: Guarantee
    mechanism: str
    parameters: Mapping[str, Any]
    claim: Claim | None
    certificate: Certificate | None
    measured: NoisyAnswers | None
    events: tuple[acts.Event, ...]
    left_out: int = 0

    def __post_init__(self) -> None:
        if type(self.left_out) is not int or self.left_out < 0 or (self.left_out and len(self.workload)):
            raise QuestionsNeeded("questions are left out all together, or not at all")
        if self.left_out and not isinstance(self.synopsis, _BY_ITSELF):
            raise QuestionsNeeded(
                f"what {self.mechanism} answers rests on its questions: save the release with them (only those of "
                "sparse-project and stable-histogram can be left out)"
            )

    @property
    def questions(self) -> int:
        """How many questions were answered, whether they are listed or left out."""
        return len(self.workload) + self.left_out

    @property
    def total(self) -> Total:
        """The number of rows that fractions are of, public or paid for; of functions whose owner declared how far they
        move, the public number that their shares are counted in."""
        return self.synopsis.total

    @property
    def counts_rows(self) -> bool:
        """Whether the total is a number of rows, so that shares of it are too."""
        return self.workload.denominator is None

    def ask(self, question: str | Workload, *, confidence: float = 0.95, snap: bool = False) -> Answer:
        """Answer a predicate or a workload of one query, with an interval where there is an honest one."""
        reading.checked_confidence(confidence)
        if isinstance(question, str):
            question = language.sql(self.schema, [question], snap=snap)
        if len(question) != 1:
            raise language.NotAPredicate(f"ask takes one question at a time, not {len(question)}")
        query = question.query(0)
        answer = self._read(question, query, confidence)
        if self.counts_rows and not (isinstance(query, TableFunction) and not query.counts_rows):
            return answer
        return dataclasses.replace(answer, count=None)

    def _read(self, question: Workload, query: Query, confidence: float) -> Answer:
        """The answer with what it would be in counts of the total."""
        estimate = self._estimate(query)
        if isinstance(self.synopsis, NoisyAnswers):
            return reading.measured(estimate or self.synopsis.estimate(query), self.total, confidence)
        if isinstance(self.synopsis, _BY_ITSELF):
            return reading.projected(self.synopsis, question, self.total, confidence)
        fraction = self._answer(question)
        if estimate is not None:
            return reading.smoothed(fraction, estimate, self.total, confidence)
        cells = self._cells(query)
        if self.certificate is None or cells is None:
            return reading.unguaranteed(fraction, self.total, confidence)
        return reading.guessed(fraction, self.certificate, cells, self.total, confidence)

    def _answer(self, question: Workload) -> float:
        """What the synopsis answers; a function of the released workload has its answer already.

        A short list of records is asked as the predicate that it is.
        """
        query, domain = question.query(0), self.schema.domain
        if isinstance(query, TableFunction) and query in self._places:
            return float(self.answers[self._places[query]])
        if isinstance(query, Sparse) and isinstance(same := canonical_query(domain, query), Predicate):
            question = Workload(domain, (Conjunctions.of(domain, [same]),))
        return float(self.synopsis.answer(question)[0])

    @cached_property
    def _places(self) -> dict[Query, int]:
        """Where the functions of the workload stand."""
        listed = enumerate(self.workload.queries())
        return {query: place for place, query in listed if isinstance(query, TableFunction)}

    def table(self, columns: Sequence[str], *, confidence: float = 0.95) -> pa.Table:
        """A published table: non-negative integer counts, each with its interval in counts and a mark if too noisy.

        Where records were published, their table has a line for each of them, in its own value, and no other line. All
        tables of one release are marginals of one integer table, and so agree, wherever the synopsis is a histogram
        or its universe is small enough to fit one; otherwise each table sums to the total. Intervals are cell by cell.
        """
        reading.checked_confidence(confidence)
        if not self.counts_rows:
            raise CannotAnswer("this release of functions holds no number of rows to count: make rows with synthetic")
        if isinstance(self.synopsis, PublishedRecords) and list(columns) == list(self.schema.domain.names):
            return published_table(self.synopsis, confidence)
        asked = marginal(self.schema, columns)
        positions = asked.blocks[0].columns
        counts = self._integers(asked)
        labels = {
            name: [self.schema.column(name).labels[code] for code in codes]
            for name, codes in zip(columns, codes_of(self.schema.domain, positions))
        }
        centres, margin = self._margins(asked, confidence)
        known = ~np.isnan(margin)
        # Counts that were made consistent may leave their interval: it is widened to hold them, which keeps it honest.
        low = np.minimum(np.maximum(np.floor(np.where(known, centres - margin, 0)), 0).astype(np.int64), counts)
        high = np.maximum(np.maximum(np.ceil(np.where(known, centres + margin, 0)), 0).astype(np.int64), counts)
        noisy = ~known | (high - low > 2 * TOO_NOISY * np.maximum(counts, 1))
        low, high = pa.array(low, mask=~known), pa.array(high, mask=~known)
        return pa.table({**labels, "count": counts, "low": low, "high": high, "too_noisy": noisy})

    @property
    def records(self) -> tuple[tuple[Any, int], ...]:
        """The published records of a table of records, each with its noisy count, sorted by their canonical forms."""
        if not isinstance(self.synopsis, PublishedRecords):
            raise CannotAnswer("this release published no records: release a table of records with stable-histogram")
        return tuple(zip(self.synopsis.records, self.synopsis.counts.tolist()))

    def synthetic(self, rows: int, *, public_seed: int | None = None) -> pa.Table:
        """Synthetic rows in the schema's own values; they are nobody's records."""
        codes = self._sampled(rows, public_seed)
        if isinstance(self.synopsis, PublishedRecords):
            places = self.synopsis.drawn(rows, public_seed=public_seed).tolist()
            made = record_array([self.synopsis.records[place] for place in places])
            return pa.table({self.schema.domain.names[0]: made})
        rng = np.random.Generator(np.random.PCG64(public_seed))
        return pa.table({c.name: c.decode(codes.column(i), rng) for i, c in enumerate(self.schema.columns)})

    def synthetic_pairs(self, users: int, *, public_seed: int | None = None) -> pa.Table:
        """Synthetic users of a table of pairs, as pairs again; a user without items has none, and all are nobody."""
        unit = self.schema.unit
        if unit.kind != "pairs":
            raise CannotAnswer("this release is not about pairs: make rows with synthetic")
        codes = self._sampled(users, public_seed)
        found = [np.flatnonzero(codes.column(position)) for position in range(len(self.schema.columns))]
        owner = np.concatenate(found)
        item = np.repeat(np.arange(len(found), dtype=np.int32), [len(places) for places in found])
        order = np.lexsort((item, owner))
        named = pa.DictionaryArray.from_arrays(pa.array(item[order]), pa.array(self.schema.domain.names))
        return pa.table({str(unit.column): owner[order], str(unit.item): named.dictionary_decode()})

    def _sampled(self, rows: int, public_seed: int | None) -> Chunk:
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise CannotAnswer(f"the number of synthetic rows is zero or more, not {rows!r}")
        source = self._histogram if isinstance(self.synopsis, NoisyAnswers) else self.synopsis
        return source.sample(rows, public_seed=public_seed)

    @cached_property
    def _histogram(self) -> Histogram:
        """The histogram behind the tables: the synopsis itself, or the one fitted to its answers."""
        if isinstance(self.synopsis, Histogram):
            return self.synopsis
        if isinstance(self.synopsis, NoisyAnswers):
            return fitted_histogram(self.synopsis)
        if isinstance(self.synopsis, MedianEnsemble):
            return self.synopsis.fitted
        raise CannotAnswer(f"a synopsis of kind {self.synopsis.kind} has no histogram behind it")

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return self._histogram.counts()

    @cached_property
    def _listed(self) -> frozenset[Query]:
        return listed_queries(self.workload)

    def _cells(self, query: Query) -> int | None:
        forms = (query, canonical_query(self.schema.domain, query))
        found = (covering_cells(self.workload, self._listed, form) for form in forms)
        cells = next((cells for cells in found if cells is not None), None)
        # A sum of medians is not the median of the sums: an ensemble's bound is for single answers alone.
        return None if isinstance(self.synopsis, MedianEnsemble) and cells != 1 else cells

    def _integers(self, asked: Workload) -> NDArray[np.int64]:
        try:
            return integer_table(self._histogram, asked.blocks[0].columns, self._counts)
        except CannotAnswer:
            return rounded_marginal(self.synopsis, asked)

    def _margins(self, asked: Workload, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """For each cell a centre and a margin in counts; NaN where no honest one exists."""
        estimates = [self._estimate(query) for query in asked.queries()] if self._noisy is not None else []
        if isinstance(self.synopsis, NoisyAnswers) or any(estimate is not None for estimate in estimates):
            nothing = (np.nan, np.nan)
            pairs = [nothing if e is None else (e.count, reading.margin_of(e, confidence)) for e in estimates]
            return np.array([centre for centre, _ in pairs]), np.array([margin for _, margin in pairs])
        cells = self._cells(asked.query(0))
        centres = self.synopsis.answer(asked) * self.total.divisor
        if self.certificate is None or cells is None:
            return centres, np.full(len(asked), np.nan)
        # Every cell of one marginal is a sum of equally many cells of the marginal that covers it.
        return centres, np.full(len(asked), cells * self.certificate.counts_at(confidence))

    @property
    def _noisy(self) -> NoisyAnswers | None:
        """The noisy answers that were published, as the synopsis itself or beside it."""
        return self.synopsis if isinstance(self.synopsis, NoisyAnswers) else self.measured

    def _estimate(self, query: Query) -> Estimate | None:
        """What the noisy answers add up to for this question as it stands or in its canonical form, if they do."""
        if self._noisy is None:
            return None
        with suppress(CannotAnswer):
            return self._noisy.estimate(query)
        same = canonical_query(self.schema.domain, query)
        with suppress(CannotAnswer):
            return None if same == query else self._noisy.estimate(same)
        return None

    def save(self, path: str | Path, *, questions: bool = True) -> None:
        """Write the release as one file: JSON and Arrow tables in a zip.

        `questions=False` leaves out the questions and their answers, where the synopsis gives the answers itself: lists
        of records take 8 bytes for each, which is soon more than a projection takes.
        """
        if not questions:
            nothing = Workload(self.workload.domain, ())
            bare = dataclasses.replace(self, workload=nothing, answers=np.zeros(0), left_out=self.questions)
            bare.save(path)
            return
        meta, tables = self.synopsis.parts()
        manifest: dict[str, Any] = {
            "schema": self.schema.to_dict(),
            "guarantee": dataclasses.asdict(self.guarantee),
            "events": [acts.to_json(event) for event in self.events],
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "claim": None if self.claim is None else dataclasses.asdict(self.claim),
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "synopsis": {"kind": self.synopsis.kind, "meta": meta},
            "measured": None,
        }
        if self.left_out:
            manifest["left_out"] = self.left_out
        if self.measured is not None:
            manifest["measured"], noisy = self.measured.parts()
            tables |= {f"{MEASURED}{name}": part for name, part in noisy.items()}
        files.write(
            Path(path), manifest, self.workload.to_json(), {**tables, ANSWERS: pa.table({"answer": self.answers})}
        )


ANSWERS = "answers"
MEASURED = "measured-"


def load(path: str | Path) -> Release:
    """Read a release back; everything is checked and nothing is executed."""
    contents = files.read(Path(path))
    with files.faithful():
        manifest = contents.manifest
        schema = Schema.from_dict(manifest["schema"])
        workload = Workload.from_json(contents.workload)
        tables = dict(contents.tables)
        stored = tables.pop(ANSWERS)
        answers = stored["answer"].to_numpy()
        noisy = {name.removeprefix(MEASURED): tables.pop(name) for name in list(tables) if name.startswith(MEASURED)}
        measured, guarantee = manifest["measured"], manifest["guarantee"]
        claim, certificate = manifest["claim"], manifest["certificate"]
        if answers.shape != (len(workload),) or workload.domain != schema.domain:
            raise files.BadSynopsisFile("its answers do not belong to its workload and schema: get the file again")
        promised = Guarantee(**{**guarantee, "warnings": tuple(guarantee["warnings"])})
        events = tuple(acts.from_json(event) for event in manifest["events"])
        if not keeps(promised, events) or type(manifest["mechanism"]) is not str:
            raise files.BadSynopsisFile("its acts cost more than its guarantee says: get the file again")
        synopsis = load_synopsis(schema.domain, manifest["synopsis"]["kind"], manifest["synopsis"]["meta"], tables)
        keyed = isinstance(synopsis, SparseTable | PublishedRecords)
        if keyed and not any(isinstance(event, acts.StableKeys) for event in events):
            raise files.BadSynopsisFile("it holds keys of a table, and no act that published them: get the file again")
        return Release(
            schema=schema,
            workload=workload,
            answers=answers,
            synopsis=synopsis,
            guarantee=promised,
            mechanism=manifest["mechanism"],
            parameters=dict(manifest["parameters"]),
            claim=None if claim is None else _claim(claim),
            certificate=None if certificate is None else Certificate.from_json(certificate),
            measured=None if measured is None else NoisyAnswers.from_parts(schema.domain, measured, noisy),
            events=events,
            left_out=manifest.get("left_out", 0),
        )


def keeps(promised: Guarantee, events: Sequence[acts.Event]) -> bool:
    """Whether acts, priced afresh by the best theorem there is, keep a promise (but for a last bit of its floats)."""
    slack = 1 + Fraction(1, 2**40)
    if promised.rho is None and not promised.delta and promised.epsilon is not None:
        # Some acts have a pure price alone: a promise of pure ε asks for no other.
        spent = sum((price_pure(event, promised.neighbours) for event in events), Fraction(0))
        return bool(events) and spent <= Fraction(promised.epsilon) * slack
    if promised.missing:
        return bool(events) and _keeps_approximately(promised, events, slack)
    epsilon, rho, _ = best(events, promised.delta, promised.neighbours)
    if promised.rho is not None and (rho is None or rho > Fraction(promised.rho) * slack):
        return False
    return bool(events) and (
        promised.epsilon is None or (epsilon is not None and epsilon <= Fraction(promised.epsilon) * slack)
    )


def _keeps_approximately(promised: Guarantee, events: Sequence[acts.Event], slack: Fraction) -> bool:
    """The same of a promise in ρ but for a part of δ: both parts of what the acts cost, and ε at the rest of δ."""
    assert promised.rho is not None
    spent = sum((cost_of(event, "zcdp", promised.neighbours) for event in events), Cost())
    missing = Fraction(promised.missing)
    left_over = scale_down(Fraction(promised.delta) - missing)
    if not spent.within(Cost(price=Fraction(promised.rho) * slack, delta=missing)):
        return False
    if promised.epsilon is None:
        return True
    return left_over > 0 and Fraction(epsilon_of(promised.rho, left_over)) <= Fraction(promised.epsilon) * slack


def _claim(fields: Mapping[str, Any]) -> Claim:
    bound = fields["bound"]
    lists = {name: tuple(fields[name]) for name in ("citations", "notes")}
    return Claim(**{**fields, **lists, "bound": None if bound is None else ErrorBound(**bound)})

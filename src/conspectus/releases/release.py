"""A release: everything that may be published about one run, and nothing else.

It answers questions, publishes tables, makes synthetic rows, and is one file that says how it came about. Everything
here is post-processing: no method of a release can touch the table again.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk
from conspectus.data.schema import Schema
from conspectus.mechanisms.bounds import Certificate
from conspectus.mechanisms.mechanism import Claim
from conspectus.plain_text import escape
from conspectus.privacy.events import Event
from conspectus.privacy.guarantee import Guarantee
from conspectus.queries.blocks.moments import Moment
from conspectus.queries.builders.marginals import marginal
from conspectus.queries.language.from_select import read_select
from conspectus.queries.language.one_question import one_question
from conspectus.queries.query import TableFunction
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses import files
from conspectus.synopses.evidence import Evidence
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.published_records import record_array
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.synopsis import CannotAnswer, Synopsis, Total, check_known
from conspectus.tabular import ResultTable
from conspectus.whole_numbers import MOST_MADE, SEED, is_seed, whole

from .answer import Answer, checked_confidence, standing_notes
from .guessed_answers import GuessedAnswers
from .learning import Learning
from .moments_inside import answer_moment, released_moments
from .quantiles import Quantiles
from .release_file import read_fields, write_fields
from .released_counts import ReleasedCounts
from .said_counts import SaidCounts
from .selects.query_result import QueryResult
from .selects.selecting import answer_select
from .tables import cells_table, named_columns, records_table
from .winners import Winners
from .within_bins import WithinBins, decoded_rows


class QuestionsNeeded(ValueError):
    """A release that cannot be saved without its questions."""


@suggest_keywords
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Release(Quantiles, Learning, Winners):
    """What one run published: made by `cs.release` or `session.release`, read back by `cs.load`.

    Attributes:
        schema: The schema of the table, published with every release.
        workload: The questions that were released, in order.
        answers: Their answers in the workload's order: fractions, and sums, means and other moments in the units of
            their columns.
        synopsis: What answers further questions.
        guarantee: What the release promises to every unit of the table.
        mechanism: The name of the mechanism that made it.
        parameters: How it was run, for reports.
        claim: What the mechanism had said about its errors before anything was spent.
        certificate: A bound on the maximum error, if one was bought.
        measured: The noisy answers that were bought, where they are published beside the synopsis.
        events: Every private act that touched the table.
        left_out: How many questions a file that was saved without them does not list. Workload and answers are then
            empty, and the synopsis answers as it did.
        shares: The answers to what was measured for the workload, as fractions, where that is not the workload itself
            because it has means or other moments; None otherwise.
        within: What was bought about values inside bins, with `within_bins`; None where nothing was.
        guessed: Of a session's release, which answers were guesses, and how far each may be off; None of any other.
        declared: Whether its acts were fixed, one by one, before the first draw. Otherwise how many there were, or what
            they cost, is itself an outcome, and only the guarantee says what is promised.

    Example:
        A budget so large hides nobody; it only keeps the numbers of the example still.

        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "people", "columns": {
        ...     "smoker": {"type": "boolean"}, "ill": {"type": "boolean"}}})
        >>> rows = pa.table({"smoker": [True, True, False, False], "ill": [True, False, False, False]})
        >>> table = cs.open_table(rows, schema)
        >>> release = cs.release(table, cs.marginals(schema, 2), epsilon=100.0, mechanism="laplace")
        >>> print(release.ask("smoker AND NOT ill"))
        0.2500 of the rows (about 1), 95% interval 0.0000 to 0.5000, measured
        >>> release.table(["smoker"])["count"].to_pylist()
        [2, 2]
        >>> release.synthetic(4, public_seed=1).num_rows
        4
        >>> print(release.guarantee)
        (100, 0)-differential privacy for one row replaced by another, by basic composition. Warning: epsilon = 100 is
        above 10: the odds of a statement about one person may change by a factor of more than 22,000
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
    measured: NoisyAnswers | ResidualAnswers | None
    events: tuple[Event, ...]
    left_out: int = 0
    declared: bool = False
    shares: NDArray[np.float64] | None = None
    within: WithinBins | None = None
    guessed: GuessedAnswers | None = None

    def __post_init__(self) -> None:
        if type(self.left_out) is not int or self.left_out < 0 or (self.left_out and len(self.workload)):
            raise QuestionsNeeded("questions are left out all together, or not at all")
        if self.left_out and not self.synopsis.answers_alone:
            raise QuestionsNeeded(
                f"what {self.mechanism} answers rests on its questions: save the release with them (only those of "
                "sparse-project and stable-histogram can be left out)"
            )

    def __repr__(self) -> str:
        kept = dataclasses.replace(self.guarantee, warnings=())
        return f'<Release of "{self.schema.name}": {self._how_many} by {self.mechanism}, {kept}>'

    def _repr_html_(self) -> str:
        facts = {
            "table": f"{self.schema.name}, {len(self.schema.columns):,} columns, {self.total.rows:,} rows"
            + ("" if self.total.exact else " (noisy)"),
            "released": f"{self._how_many}, by {self.mechanism}",
            "guarantee": str(self.guarantee),
        }
        lines = (f"<tr><th>{name}</th><td>{escape(text)}</td></tr>" for name, text in facts.items())
        return f"<table><tbody>{''.join(lines)}</tbody></table>"

    @property
    def total(self) -> Total:
        """What fractions are of: the number of rows, public or paid for.

        Functions whose owner declared how far they move have the public number that their shares are counted in.
        """
        return self.synopsis.total

    @property
    def counts_rows(self) -> bool:
        """Whether the total is a number of rows, so that shares of it are too."""
        return self.workload.denominator is None

    def ask(self, question: str | Workload, *, confidence: float = 0.95, snap: bool = False) -> Answer:
        """Answer one question, with an interval where there is an honest one.

        Args:
            question: A SQL predicate over the columns, or a workload of one query. It need not be a released one.
            confidence: The probability, over the noise, with which the interval holds the truth.
            snap: Whether a predicate that cuts a bin is widened to the bin's edges. Otherwise it is refused. The answer
                names the question that was answered.

        Returns:
            The fraction and its count, the interval, what they rest on, and what must be said besides.

        Raises:
            CannotAnswer: The release does not hold what the question asks for; the message says what is missing.
            NotAPredicate: The question is not a predicate over the columns, or is more than one.
            ConfidenceError: The confidence is not strictly between 0 and 1.
        """
        checked_confidence(confidence)
        put, words, notes = one_question(self.schema, question, snap=snap)
        notes = (*notes, *standing_notes(self.schema))
        self._check_seen(put)
        asked = put.query(0)
        if isinstance(asked, Moment):
            return answer_moment(self.counts, asked, confidence)
        answer = self.counts.answer(put, confidence)
        counted = self.counts_rows and not (isinstance(asked, TableFunction) and not asked.counts_rows)
        return dataclasses.replace(answer, question=words, notes=notes, count=answer.count if counted else None)

    def table(self, columns: Sequence[str] | str, *, confidence: float = 0.95) -> ResultTable:
        """A table to print: whole counts, zero or more, each with its interval and a mark if it is too noisy.

        Tables of one release agree with each other wherever its synopsis is a histogram, or its universe is small
        enough to fit one; otherwise each table sums to the total. Where records were published, there is a line for
        each of them in its own value, and no other line.

        Args:
            columns: The names of the columns, in the order in which the table has them; or a single name.
            confidence: The probability with which the interval of a cell holds, cell by cell.

        Returns:
            The columns in their declared types, bins by their labels and missing as null; then `count`, `low` and
            `high` in counts, and `too_noisy`. `low` and `high` are null where no interval would be honest. It has
            `to_pandas`, `to_polars`, `to_arrow`, `to_dict` and `plot`, and all that an Arrow table has.

        Raises:
            CannotAnswer: The release does not hold these columns together.
            WorkloadError: No columns are named, or one that the schema does not have.
            ConfidenceError: The confidence is not strictly between 0 and 1.
        """
        checked_confidence(confidence)
        columns = named_columns(columns)
        if not self.counts_rows:
            raise CannotAnswer("this release of functions holds no number of rows to count: make rows with synthetic")
        listed = self.synopsis.listed()
        if listed is not None and list(columns) == list(self.schema.domain.names):
            return records_table(columns[0], listed, confidence)
        cells = marginal(self.schema, columns)
        self._check_seen(cells)
        counts = self.synopsis.integer_marginal(cells.blocks[0].columns)
        ends = self.synopsis.intervals(cells, confidence, self.evidence)
        return cells_table(self.schema, columns, counts, ends, self.total.value if self.total.exact else math.inf)

    def query(self, select: str, *, confidence: float = 0.95, snap: bool = False) -> QueryResult:
        """Answer a SELECT: counts, sums, averages, medians and the like by group, each with its interval.

        It costs nothing: everything follows from what was released.

        Args:
            select: One SELECT over the table, by its name. Served are COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN,
                QUANTILE, CORR, COVAR_POP, ratios of counts, FILTER and CASE; WHERE as `ask` reads it; GROUP BY columns,
                bins, conditions and CASE; HAVING, ORDER BY, LIMIT and OFFSET.
            confidence: The probability, over the noise, with which each interval holds the truth.
            snap: Whether a condition that cuts a bin is widened to the bin's edges. Otherwise it is refused.

        Returns:
            A table: beside each number `x` its ends `x_low` and `x_high`, null where no interval would be honest. It
            has `to_pandas`, `to_polars`, `to_arrow`, `to_dict` and `plot`.

        Raises:
            CannotQuery: The SELECT cannot be answered; the message says why, and what can be asked instead.
            CannotAnswer: The release does not hold what it asks for; the message says what is missing.
            NotAPredicate: A condition in it is none that is served.
            ConfidenceError: The confidence is not strictly between 0 and 1.
        """
        checked_confidence(confidence)
        if not self.counts_rows:
            raise CannotAnswer("this release of functions holds no number of rows to count: ask(…) answers them")
        return answer_select(read_select(self.schema, select, snap=snap), self.counts, confidence)

    @property
    def counts(self) -> ReleasedCounts:
        """Its counts, as a SELECT takes them."""
        moments = released_moments(self.workload)
        source = ReleasedCounts if self.guessed is None else SaidCounts
        return source(self.schema, self.synopsis, self.evidence, self._check_seen, self.within, moments)

    @property
    def records(self) -> tuple[tuple[Any, int], ...]:
        """The published records of a table of records, each with its noisy count, sorted by their canonical forms.

        Raises:
            CannotAnswer: The release published no records.
        """
        listed = self.synopsis.listed()
        if listed is None:
            raise CannotAnswer("this release published no records: release a table of records with stable-histogram")
        return tuple(zip(listed.records, listed.counts.tolist()))

    def synthetic(self, rows: int, *, public_seed: int | None = None) -> pa.Table:
        """Synthetic rows in the schema's own values; they are nobody's records.

        Args:
            rows: How many rows to make; it need not be the table's number of rows.
            public_seed: A seed that makes the rows repeatable. It protects nobody and may be known to all.

        Returns:
            One column for each of the schema's, in their own values; missing values are null.

        Raises:
            CannotAnswer: The release holds no rows to draw, or `rows` or the seed is not such a number.
        """
        codes = self._sampled(rows, public_seed)
        listed = self.synopsis.listed()
        if listed is not None:
            places = listed.drawn(rows, public_seed=public_seed).tolist()
            return pa.table({self.schema.domain.names[0]: record_array([listed.records[place] for place in places])})
        rng = np.random.Generator(np.random.PCG64(public_seed))
        return decoded_rows(self.schema, codes, rng, self.within)

    def synthetic_pairs(self, users: int, *, public_seed: int | None = None) -> pa.Table:
        """Synthetic users of a table of pairs, as pairs again; a user without items has none, and all are nobody.

        Args:
            users: How many users to make.
            public_seed: A seed that makes the users repeatable. It protects nobody and may be known to all.

        Returns:
            Two columns named as in the table that was opened: the number of a user, and one of its items.

        Raises:
            CannotAnswer: The release is not about pairs, or holds no rows to draw.
        """
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

    def save(self, path: str | Path, *, questions: bool = True) -> None:
        """Write the release as one file: JSON and Arrow tables in a zip.

        Args:
            path: Where to write. After a crash the path holds the old file or the new one, complete.
            questions: Whether the file lists the released questions and their answers. Lists of records take 8 bytes
                for each, which is soon more than a projection takes.

        Raises:
            QuestionsNeeded: `questions` is False, and the answers rest on the questions.
            CannotWriteFile: No file can be written there.
        """
        release = self
        if not questions:
            nothing = Workload(self.workload.domain, ())
            release = dataclasses.replace(
                self, workload=nothing, answers=np.zeros(0), left_out=self.questions, shares=None, guessed=None
            )
        write_fields(Path(path), {field.name: getattr(release, field.name) for field in dataclasses.fields(release)})

    @cached_property
    def gives_rows(self) -> bool:
        """Whether `synthetic` makes rows, or `synthetic_pairs` users: some synopses hold no rows to draw."""
        try:  # whatever would refuse some rows refuses none of them, too
            self._sampled(0, 0)
        except CannotAnswer:
            return False
        return True

    def _sampled(self, rows: int, public_seed: int | None) -> Chunk:
        if not whole(rows, 0, MOST_MADE):
            raise CannotAnswer(f"the number of synthetic rows is zero or more, and at most {MOST_MADE:,} at once")
        if public_seed is not None and not is_seed(public_seed):
            raise CannotAnswer(SEED)
        return self.synopsis.source_of_rows().sample(rows, public_seed=public_seed)

    def _check_seen(self, asked: Workload) -> None:
        """Refuse what the release never saw: of other columns a synopsis that is fitted to answers invents its own."""
        if not (self.synopsis.answers_alone or self.synopsis.all_measured):
            measured = () if self.measured is None else self.measured.known_columns
            check_known(self.schema.domain, asked.columns, {*self.workload.columns, *measured})

    @cached_property
    def evidence(self) -> Evidence:
        """What is published beside the synopsis, from which intervals are taken."""
        workload = self.workload.measured(total_known=self.total.exact)
        answers = self.answers if self.shares is None else self.shares
        known = Evidence(workload=workload, answers=answers, bound=self.certificate, measured=self.measured)
        return dataclasses.replace(known, guesses=self.guessed)


def load(path: str | Path) -> Release:
    """Read a release back. It answers as it did when it was saved, to the bit.

    Nothing in the file is executed and everything is checked, its guarantee included: acts that cost more than it says
    are refused.

    Args:
        path: A file that `Release.save` or `conspectus release` wrote.

    Returns:
        The release.

    Raises:
        BadSynopsisFile: The file is not a complete, undamaged release that this version can read.

    Example:
        >>> import tempfile
        >>> import conspectus as cs
        >>> import pyarrow as pa
        >>> schema = cs.Schema.from_dict({"name": "people", "columns": {"ill": {"type": "boolean"}}})
        >>> table = cs.open_table(pa.table({"ill": [True, False]}), schema)
        >>> release = cs.release(table, cs.marginals(schema, 1), epsilon=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/people.conspectus")
        ...     again = cs.load(f"{folder}/people.conspectus")
        >>> again.ask("ill") == release.ask("ill")
        True
    """
    fields = read_fields(Path(path))
    with files.faithful():
        return Release(**fields)

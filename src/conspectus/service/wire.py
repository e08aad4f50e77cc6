"""What travels: the bodies of requests and answers, checked, and described in OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from conspectus.releases.answer import NEAREST

LONGEST_QUESTION = 20_000
Confidence = Annotated[float, Field(ge=NEAREST, le=1 - NEAREST, description="How often the interval holds the truth.")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Question(_Strict):
    """One question: a SQL predicate, or codes picked of some columns."""

    where: Annotated[str | None, Field(max_length=LONGEST_QUESTION)] = None
    picks: Annotated[dict[str, list[int]] | None, Field(max_length=100)] = None
    confidence: Confidence = 0.95
    snap: bool = False


class Select(_Strict):
    """A SELECT over the columns of a release."""

    sql: Annotated[str, Field(max_length=LONGEST_QUESTION)]
    confidence: Confidence = 0.95
    snap: bool = False


class Answered(BaseModel):
    """An answer: a fraction and its count, the interval where there is an honest one, and what both rest on."""

    where: str
    fraction: float
    count: float | None
    low: float | None
    high: float | None
    basis: Literal["measured", "guessed", "simulated", "unguaranteed"]
    confidence: float
    question: str | None
    notes: list[str]
    value: float | None
    columns: list[str]
    why: str | None


class LiveAnswered(Answered):
    """An answer of a session: what it took from the budget, in the session's currency, and whether it is repeated."""

    cost: float
    repeated: bool


class RepairBody(BaseModel):
    label: str
    where: str


class Problem(BaseModel):
    """Why there is no answer, and what to ask instead."""

    error: str
    title: str
    text: str
    at: list[int] | None
    repairs: list[RepairBody]
    spent: int


class Cell(BaseModel):
    codes: list[int]
    count: int
    low: int | None
    high: int | None
    too_noisy: bool


class TableBody(BaseModel):
    """A published table: the cells in row-major order of the columns' codes."""

    by: list[str]
    confidence: float
    labels: list[list[str]]
    cells: list[Cell]


class Listed(BaseModel):
    """What is served, by name."""

    synopses: list[dict[str, Any]]


class ListedSessions(BaseModel):
    sessions: list[dict[str, Any]]


class Result(BaseModel):
    """The lines of a SELECT: beside each number x its ends x_low and x_high, null where no interval would be honest."""

    columns: list[str]
    rows: list[list[Any]]
    labels: list[str]
    measures: list[list[str]]
    notes: list[str]
    confidence: float
    cost: float


class Quoted(BaseModel):
    """What a question would cost at most, from public facts alone. Nothing is spent by asking for it.

    `of` is the whole budget; `affordable` says whether what is left pays for the most; `free_because` is "repeated" for
    a question that was asked before, and "bought" for one that what was bought at the start answers.
    """

    where: str
    at_most: float
    currency: Literal["epsilon", "rho"]
    of: float
    affordable: bool
    free_because: Literal["repeated", "bought"] | None


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in (
        (400, "The request is not one"),
        (401, "A token is needed, or is not known"),
        (403, "The request comes from another origin"),
        (404, "Nothing is served under this name, or not to you"),
        (408, "The request came too slowly"),
        (409, "The budget does not pay for this, or the session cannot go on"),
        (413, "The request is too large"),
        (421, "This host name is not served"),
        (422, "The question is not answered, and why"),
        (429, "The analyst has asked as much as they may"),
        (500, "A fault of the service"),
        (503, "Too many questions at once: try again"),
    )
}

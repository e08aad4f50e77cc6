"""The file of a release: its fields as JSON and Arrow tables, and back again.

A file may have been changed by anyone. Nothing in it is executed, everything is checked, and its guarantee is believed
only if its private acts, priced afresh, keep it. By which theorem they are priced is not for the file to say: its
mechanism decides whether they were fixed before the first draw.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from conspectus.curator.acts import relation_of
from conspectus.data.schema import Schema
from conspectus.mechanisms.bounds import Certificate
from conspectus.mechanisms.mechanism import Claim, ErrorBound
from conspectus.mechanisms.registry import OFFLINE
from conspectus.privacy import events as acts
from conspectus.privacy.events import Event, GaussianNoise, LaplaceNoise, MixedGaussianNoise, RowTotal, StableKeys
from conspectus.privacy.guarantee import Guarantee
from conspectus.privacy.kept_promises import Allowed, keeps
from conspectus.privacy.relation import Relation
from conspectus.queries.workload import Workload
from conspectus.synopses import files
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.stream_answers import StreamAnswers
from conspectus.synopses.synopsis import load_synopsis, numbers_of, part

from .acts_and_noise import contradicted
from .guessed_answers import GuessedAnswers
from .winners import checked_parameters
from .within_bins import WithinBins

ANSWERS = "answers"
SHARES = "counted-shares"
MEASURED = "measured-"
WITHIN = "inside-bins"
GUESSED = "guessed-answers"
VALUES = "values"
"""What the tables of the answers, of what they follow from, of noisy answers beside it, of noisy sums inside bins and
of guesses of a session are called in a file; and what tells a file of single values, which holds no answers to
questions."""

DECLARABLE = (LaplaceNoise, GaussianNoise, MixedGaussianNoise, StableKeys, RowTotal)
"""The kinds of acts that mechanisms declare: what follows a selection or a watch depends on what was selected."""


class HoldsValues(files.BadSynopsisFile):
    """A file of single values where one of a release was wanted."""


def write_fields(path: Path, fields: Mapping[str, Any]) -> None:
    """Write the fields of a release, by name, as one file."""
    synopsis, measured = fields["synopsis"], fields["measured"]
    claim, certificate = fields["claim"], fields["certificate"]
    meta, tables = synopsis.parts()
    manifest: dict[str, Any] = {
        "schema": fields["schema"].to_dict(),
        "guarantee": dataclasses.asdict(fields["guarantee"]),
        "events": [acts.to_json(event) for event in fields["events"]],
        "mechanism": fields["mechanism"],
        "parameters": dict(fields["parameters"]),
        "claim": None if claim is None else _claim_json(claim),
        "certificate": None if certificate is None else certificate.to_json(),
        "synopsis": {"kind": synopsis.kind, "meta": meta},
        "measured": None,
    }
    if fields["left_out"]:
        manifest["left_out"] = fields["left_out"]
    if fields["declared"]:
        manifest["declared"] = True
    if measured is not None:
        manifest["measured"], noisy = measured.parts()
        if measured.kind != NoisyAnswers.kind:
            manifest["measured"]["kind"] = measured.kind
        tables |= {f"{MEASURED}{name}": part for name, part in noisy.items()}
    own = {ANSWERS: pa.table({"answer": fields["answers"]})}
    if fields["shares"] is not None:
        own[SHARES] = pa.table({"share": fields["shares"]})
    if fields["within"] is not None:
        manifest["within"], own[WITHIN] = fields["within"].parts()
    if fields["guessed"] is not None:
        manifest["guessed"], own[GUESSED] = fields["guessed"].parts()
    assert {ANSWERS, SHARES, WITHIN, GUESSED}.isdisjoint(tables), "a synopsis has a table of that name"
    files.write(path, manifest, fields["workload"].to_json(), tables | own)


def read_fields(path: Path) -> dict[str, Any]:
    """The inverse of `write_fields`; raises `BadSynopsisFile` with one sentence.

    What is left for the caller is to put the fields together, inside `files.faithful`.
    """
    contents = files.read(path)
    if VALUES in contents.manifest:
        raise HoldsValues(f"{path} holds single values, and no answers to questions: read it with cs.load_value")
    with files.faithful():
        manifest = contents.manifest
        schema = Schema.from_dict(manifest["schema"])
        workload = Workload.from_json(contents.workload)
        tables = dict(contents.tables)
        answers = numbers_of(part(tables, ANSWERS, [("answer", pa.float64())])["answer"])
        shares = within = guessed = None
        if SHARES in tables:
            shares = numbers_of(part(tables, SHARES, [("share", pa.float64())])["share"])
        if WITHIN in tables:
            within = WithinBins.from_parts(schema, manifest["within"], tables, WITHIN)
        if GUESSED in tables:
            guessed = GuessedAnswers.from_parts(manifest["guessed"], tables, GUESSED)
        for name in (ANSWERS, SHARES, WITHIN, GUESSED):
            tables.pop(name, None)
        noisy = {name.removeprefix(MEASURED): tables.pop(name) for name in list(tables) if name.startswith(MEASURED)}
        measured, guarantee = manifest["measured"], manifest["guarantee"]
        claim, certificate = manifest["claim"], manifest["certificate"]
        whole = answers.shape == (len(workload),) and (guessed is None or guessed.which.shape == answers.shape)
        if not whole or workload.domain != schema.domain:
            raise files.BadSynopsisFile("its answers do not belong to its workload and schema: get the file again")
        promised = Guarantee(**{**guarantee, "warnings": tuple(guarantee["warnings"])})
        if promised.unit != str(schema.unit):
            raise files.BadSynopsisFile("it promises to others than its schema protects: get the file again")
        events = tuple(acts.from_json(event) for event in manifest["events"])
        allowed = _allowed(manifest["mechanism"], promised, events, session=guessed is not None)
        relation = _relation(schema, promised, manifest)
        if not keeps(promised, events, relation, allowed=allowed):
            raise files.BadSynopsisFile("its acts cost more than its guarantee says: get the file again")
        synopsis = load_synopsis(schema.domain, manifest["synopsis"]["kind"], manifest["synopsis"]["meta"], tables)
        beside = None if measured is None else _beside(schema, measured, noisy)
        proved = None if certificate is None else Certificate.from_json(certificate)
        parts = workload.measured(total_known=synopsis.total.exact)
        if (shares is None) != (parts == workload) or (shares is not None and shares.shape != (len(parts),)):
            raise files.BadSynopsisFile("its answers do not belong to its workload and schema: get the file again")
        held = (synopsis,) if beside is None else (synopsis, beside)
        if contradicted(relation, events, held, parts, proved, within):
            raise files.BadSynopsisFile("its acts did not draw the noise that it speaks of: get the file again")
        if guessed is not None and guessed.contradicted(events, relation):
            raise files.BadSynopsisFile("its watches do not prove what it says of guesses: get the file again")
        return {
            "schema": schema,
            "workload": workload,
            "answers": answers,
            "shares": shares,
            "within": within,
            "guessed": guessed,
            "synopsis": synopsis,
            "guarantee": promised,
            "mechanism": manifest["mechanism"],
            "parameters": checked_parameters(manifest["mechanism"], dict(manifest["parameters"]), workload),
            "claim": None if claim is None else _claim(claim),
            "certificate": proved,
            "measured": beside,
            "events": events,
            "left_out": manifest.get("left_out", 0),
            "declared": manifest.get("declared", False) is True and allowed == "declared",
        }


def _allowed(mechanism: object, promised: Guarantee, events: tuple[Event, ...], *, session: bool) -> Allowed:
    """How the acts of a release were allowed, by the mechanism that made it: chosen as one went, where it is not known.

    Sessions may have a mechanism of the same name, and their acts follow questions.
    """
    if type(mechanism) is not str:
        raise ValueError("a mechanism has a name")
    entry = OFFLINE.get(mechanism)
    if entry is None or session or entry.acts == "filtered":
        return "filtered"
    if entry.acts == "gaussian":
        return "gaussian"
    listed = all(isinstance(event, DECLARABLE) for event in events)
    pure = promised.rho is None and not promised.delta
    return "declared" if listed and not (pure and entry.acts == "declared-with-delta") else "filtered"


def _relation(schema: Schema, promised: Guarantee, manifest: Mapping[str, Any]) -> Relation:
    """Who are neighbours: what its schema says; of a stream also how many events one person has."""
    if manifest["synopsis"]["kind"] != StreamAnswers.kind:
        return relation_of(schema, promised.neighbours, filtered=False)
    events = manifest["parameters"]["events"]
    if type(events) is not int or not schema.unit.one_row_per_unit:
        raise ValueError("the rows of a stream are its events, and a person has a number of them")
    return Relation(promised.neighbours, events, events == 1)


def _beside(schema: Schema, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> NoisyAnswers | ResidualAnswers:
    """The noisy answers beside a synopsis: those of questions, unless the file says that they are of residuals."""
    if meta.get("kind") == ResidualAnswers.kind:
        return ResidualAnswers.from_parts(schema.domain, meta, tables)
    return NoisyAnswers.from_parts(schema.domain, meta, tables)


def _claim_json(claim: Claim) -> dict[str, Any]:
    """A claim as JSON values, without what version 0.1 did not know where there is nothing of it."""
    later = ("expected_width", "answered", "expected_within")
    return {name: value for name, value in dataclasses.asdict(claim).items() if name not in later or value is not None}


def _claim(fields: Mapping[str, Any]) -> Claim:
    bound = fields["bound"]
    lists = {name: tuple(fields[name]) for name in ("citations", "notes")}
    return Claim(**{**fields, **lists, "bound": None if bound is None else ErrorBound(**bound)})

"""Why measured counts do not answer a question: what was not measured of its columns, and what can be had."""

from __future__ import annotations

from collections.abc import Collection

from conspectus.data.domain import Domain

from .synopsis import knows


def refusal(domain: Domain, asked: Collection[int], known: Collection[int], in_marginals: Collection[int]) -> str:
    """The sentence that refuses a question.

    Args:
        domain: The columns of the table.
        asked: The columns that the question reads.
        known: The columns about which anything was measured.
        in_marginals: Those of them that some measured marginal holds.
    """
    if not known:
        return "no counts were measured: nothing but the number of rows can be asked (release the question itself)"
    unknown = set(asked).difference(known)
    names = ", ".join(domain.names[column] for column in sorted(unknown or asked)) or "nothing"
    if not unknown and not set(asked) <= set(in_marginals):
        return (
            f"of {names} single counts alone were measured, and this question is neither one nor a sum of them: ask "
            f"for one that was measured, or release a marginal of {names}"
        )
    names += "" if unknown else " together"
    return (
        f"no marginal that was measured covers {names}: ask a synopsis whose workload includes it "
        f"({knows(domain, known)})"
    )

"""Addresses of PostgreSQL servers, which may hold a password: what may be shown of them, and what may not.

Two options of an address are our own: `table` names the table to read, `ledger` the ledger.
"""

from __future__ import annotations

from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

_SCHEMES = ("postgresql://", "postgres://")
_SHOWN = frozenset({"host", "hostaddr", "port", "dbname", "user", "sslmode", "table", "ledger"})


class AddressError(ValueError):
    """An address that cannot be read. The message holds nothing of it, since it may hold a password."""


def is_server(place: object) -> bool:
    """Whether something is the address of a PostgreSQL server, and not a file."""
    return isinstance(place, str) and place.casefold().startswith(_SCHEMES)


def shown(address: str) -> str:
    """An address as it may be printed and stored: without its password and without what is not known to be harmless.

    Raises:
        AddressError: It cannot be taken apart, so that nobody knows where in it the password stands.
    """
    parts = _split(address)
    name, _, host = parts.netloc.rpartition("@")
    user = name.partition(":")[0]
    options = [(key, value) for key, value in _options(parts.query) if key in _SHOWN]
    netloc = f"{user}@{host}" if user else host
    return urlunsplit(("postgresql", netloc, parts.path, urlencode(options), ""))


def without(address: str, option: str, default: str) -> tuple[str, str]:
    """An address without one option of our own, which the server's library would refuse, and what it said."""
    parts = _split(address)
    options = _options(parts.query)
    said = [value for key, value in options if key == option]
    # libpq reads no + as a space.
    kept = "&".join(f"{quote(key, safe='')}={quote(value, safe='/')}" for key, value in options if key != option)
    plain = urlunsplit(("postgresql", parts.netloc, parts.path, kept, ""))
    return plain, said[-1] if said else default


def _split(address: str) -> SplitResult:
    parts: SplitResult | None
    try:
        parts = urlsplit(address)
        unquote(parts.netloc, errors="strict")
    except ValueError:
        parts = None
    # A sign with a meaning of its own that a password holds unquoted leaves parts of the password elsewhere.
    if parts is None or parts.fragment or parts.netloc.count("@") > 1 or "@" in parts.path:
        raise AddressError(
            "this is no address of a PostgreSQL server: write it as postgresql://user@host:5432/database, with signs "
            "such as @, / and # inside a password as %40, %2F and %23"
        )
    return parts


def _options(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise AddressError("the options of this address are not of the form name=value&name=value") from None

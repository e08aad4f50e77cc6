"""Addresses of PostgreSQL servers and of object stores, which may hold a password or keys: what may be shown of them.

Two options of the address of a server are our own: `table` names the table to read, `ledger` the ledger.
"""

from __future__ import annotations

from pathlib import PurePath
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

_SCHEMES = ("postgresql://", "postgres://")
_SHOWN = frozenset({"host", "hostaddr", "port", "dbname", "user", "sslmode", "table", "ledger"})


STORES = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs")
"""How addresses in object stores begin."""
_SHOWN_OF_STORES = frozenset({"region", "scheme", "endpoint_override"})


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


def is_store(place: object) -> bool:
    """Whether a text is an address in an object store."""
    return isinstance(place, str) and place.partition("://")[0].casefold() in STORES and "://" in place


def shown_of_store(address: str) -> str:
    """An address in an object store as it may be printed and stored: without keys, and options that may be some."""
    scheme, _, rest = address.partition("://")
    place, _, options = rest.partition("?")
    if "@" not in place and "@" in options:
        return f"{scheme}://"  # nobody knows where in it the keys end
    inside, _, path = place.partition("/")
    if "@" in inside:
        who, _, inside = inside.rpartition("@")
        # In Azure a container may stand where others have a key, before its own.
        container = who.partition(":")[0] if scheme.casefold().startswith("abfs") else ""
        place = f"{container}@{inside}/{path}" if container else f"{inside}/{path}"
    elif ":" in inside and "@" in path:
        place = place.rpartition("@")[2]  # a key with a / of its own
    kept = [each for each in options.split("&") if each.partition("=")[0] in _SHOWN_OF_STORES]
    return f"{scheme}://{place.rstrip('/')}{'?' if kept else ''}{'&'.join(kept)}"


def name_of(source: str | PurePath) -> str:
    """What a file, a folder or an address in a store is called, where nobody has given it another name."""
    if not is_store(source):
        return PurePath(source).name
    place = shown_of_store(str(source)).partition("://")[2].partition("?")[0].rpartition("@")[2]
    return PurePath(place).name or "the store"


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

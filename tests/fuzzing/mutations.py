"""Files changed at random: as trees of JSON values, and as bytes.

Blind changes mostly end at the first look. So numbers are negated, enlarged and moved by one, parts are swapped,
repeated, reordered and left out, types are changed, and arrays in base64 are opened, changed and closed again.
"""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

Path = tuple[Any, ...]

NUMBERS = (
    *(0, 1, -1, 2, 3, 7, 64, 255, 256, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 53) + 1, (1 << 61) - 1),
    *((1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64, 10**30, 10**400, 0.5, 1e-9, 1e308, -0.0),
)
TEXTS = (
    "",
    "a",
    "é",
    "0",
    "-1",
    "1/3",
    "1e9",
    "9" * 5000,
    "1/0",
    "null",
    "\x00",
    "\ud800",
    "a" * 3000,
    "..",
    "/dev/null",
)
OTHERS = (None, True, False, [], {}, [[]], [None], float("inf"), float("nan"))


def paths(value: Any, path: Path = ()) -> list[Path]:
    """Every place in a tree, the root too."""
    found = [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        found += paths(part, (*path, key))
    return found


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def mutated_json(random: Random, value: Any) -> Any:
    """A copy of a tree with one to four changes."""
    value = copy.deepcopy(value)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        value = _changed(random, value)
    return value


def nudged(random: Random, value: Any) -> Any:
    """A copy of a tree with a few numbers changed a little, or exchanged; its form stays."""
    value = copy.deepcopy(value)
    places = [path for path in paths(value) if type(at(value, path)) is int or _is_array(at(value, path))]
    for _ in range(random.choice((1, 1, 2, 2, 3)) if places else 0):
        path, other = random.choice(places), random.choice(places)
        here = at(value, path)
        if type(here) is not int:
            new = _packed(random, base64.b64decode(here))
        elif random.random() < 0.3 and type(at(value, other)) is int:
            new = at(value, other)
            value = _put(value, other, here)
        else:
            new = random.choice(
                (here + 1, here - 1, -here, random.randrange(-1, 6), here * 2, random.choice(NUMBERS[:9]))
            )
        value = _put(value, path, new)
    return value


def _is_array(here: Any) -> bool:
    """Whether it is an array of integers in base64."""
    if not isinstance(here, str) or len(here) < 8 or len(here) % 4:
        return False
    try:
        return bool(base64.b64decode(here, validate=True))
    except (binascii.Error, ValueError):
        return False


def _changed(random: Random, value: Any) -> Any:
    places = paths(value)
    # Deep places are many, and shallow ones few: half of the changes walk down from the root.
    if random.random() < 0.5:
        path: Path = ()
        while isinstance(here := at(value, path), dict | list) and here and random.random() < 0.85:
            path = (*path, random.choice(list(here) if isinstance(here, dict) else range(len(here))))
    else:
        path = random.choice(places)
    here = at(value, path)
    if isinstance(here, list) and random.random() < 0.6:
        return _put(value, path, _list(random, here))
    if isinstance(here, dict) and random.random() < 0.6:
        return _put(value, path, _mapping(random, here))
    if random.random() < 0.15:
        return _put(value, path, copy.deepcopy(at(value, random.choice(places))))
    return _put(value, path, scalar(random, here))


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    at(value, path[:-1])[path[-1]] = new
    return value


def _list(random: Random, here: list[Any]) -> list[Any]:
    new = list(here)
    place, other = random.randrange(len(new) + 1), random.randrange(len(new) + 1)
    low, high = min(place, other), max(place, other)
    match random.randrange(9):
        case 0:
            random.shuffle(new)
        case 1 if new:
            new.insert(place, copy.deepcopy(random.choice(new)))
        case 2:
            new[low:low] = copy.deepcopy(new[low:high])
        case 3:
            del new[low:high]
        case 4 if place < len(new):
            del new[place]
        case 5:
            new[low:high] = reversed(new[low:high])
        case 6 if high < len(new):
            new[low], new[high] = new[high], new[low]
        case 7:
            new[low:high] = sorted(new[low:high], key=repr)
        case _:
            new.insert(place, scalar(random, None))
    return new


def _mapping(random: Random, here: dict[str, Any]) -> dict[str, Any]:
    new = dict(here)
    if not new:
        return {"kind": random.choice(TEXTS)}
    key, other = random.choice(list(new)), random.choice(list(new))
    match random.randrange(4):
        case 0:
            del new[key]
        case 1:
            new[key], new[other] = new[other], new[key]
        case 2:
            new[random.choice((key + "s", key.upper(), "", other))] = new.pop(key)
        case _:
            new[random.choice(TEXTS)] = scalar(random, None)
    return new


def scalar(random: Random, here: Any) -> Any:
    """Another value in the place of one, often of the same type."""
    if isinstance(here, int | float) and not isinstance(here, bool) and random.random() < 0.7:
        changes: tuple[Callable[[Any], Any], ...] = (
            *(lambda x: -x, lambda x: x + 1, lambda x: x - 1, lambda x: x * 2, lambda x: x // 2),
            *(lambda x: -1, lambda x: float(x) if abs(x) < 1e300 else 0.0, lambda x: str(x), lambda x: [x]),
            *(lambda x: random.randrange(6), lambda x: x + 0.5 if abs(x) < 1e300 else 0, lambda x: x == 1),
        )
        try:
            return random.choice(changes)(here)
        except (OverflowError, ValueError):
            return 0
    if isinstance(here, str) and random.random() < 0.7:
        return _text(random, here)
    return copy.deepcopy(random.choice(random.choice((NUMBERS, TEXTS, OTHERS))))


def _text(random: Random, here: str) -> Any:
    if _is_array(here) and random.random() < 0.9:
        return _packed(random, base64.b64decode(here))
    match random.randrange(6):
        case 0:
            return here[: random.randrange(len(here) + 1)]
        case 1:
            return here + here
        case 2 if here:
            place = random.randrange(len(here))
            return here[:place] + random.choice("09-/.eE aZ\x00é\ud800") + here[place + 1 :]
        case 3:
            return here[::-1]
        case 4 if here.lstrip("-").isdecimal() and len(here) < 4000:
            return str(int(here) + random.choice((-1, 1, 1 << 40)))
        case _:
            return random.choice(TEXTS)


def _packed(random: Random, data: bytes) -> str:
    """An array of integers that stands in base64, with its elements changed."""
    if random.random() < 0.2 or len(data) % 4:
        return base64.b64encode(mutated_bytes(random, data)).decode()
    kind = "<i8" if len(data) % 8 == 0 and random.random() < 0.7 else "<u4"
    values = np.frombuffer(data, dtype=kind).tolist()
    if random.random() < 0.5:
        values = _list(random, values)
    elif values:
        place = random.randrange(len(values))
        values[place] = scalar(random, values[place])
    bits = 64 if kind == "<i8" else 32
    numbers = [value % (1 << bits) for value in values if type(value) is int]
    return base64.b64encode(np.array(numbers, dtype=f"<u{bits // 8}").tobytes()).decode()


def mutated_bytes(random: Random, data: bytes) -> bytes:
    """Bytes with one to eight changes: bits and bytes, numbers of four and eight bytes, stretches, the end."""
    new = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        place, other = random.randrange(len(new) + 1), random.randrange(len(new) + 1)
        low, high = min(place, other), max(place, other)
        match random.randrange(10):
            case 0 | 1 | 2 if place < len(new):
                new[place] ^= 1 << random.randrange(8)
            case 3 if place < len(new):
                new[place] = random.choice((0, 255, 127, 128, random.randrange(256)))
            case 4 | 5:
                width = random.choice((2, 4, 8))
                number = random.choice((0, 1, 255, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 63) - 1, (1 << 64) - 1))
                new[low : low + width] = (number % (1 << 8 * width)).to_bytes(width, random.choice(("little", "big")))
            case 6:
                new[low : low + 64] = b""
            case 7:
                new[low:low] = new[high : high + 64] * random.choice((1, 1, 50))
            case 8 if random.random() < 0.5:
                del new[place:]
            case _:
                new[low : low + 16] = bytes(random.randrange(256) for _ in range(random.randrange(16)))
    return bytes(new)

"""The ordinary tables that marginals are measured on: real ones in codes, and one that is made.

Values of categorical columns are those that occur, as in the papers that report on these tables: fine for public data,
and what a schema of a private table must not be made of.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import data_file
from bench.encodings import kdd99

ORDERED_OF_ADULT = ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
CENSUS_BINS = {0: 91, 5: 32, 16: 32, 17: 32, 18: 32, 24: 32, 30: 7, 39: 53}
CENSUS_MOST = {5: 10_000, 16: 100_000, 17: 5_000, 18: 100_000, 24: 20_000}
DIABETIC_NUMBERS = {
    "time_in_hospital": 15,
    "num_lab_procedures": 140,
    "num_procedures": 7,
    "num_medications": 90,
    "number_outpatient": 10,
    "number_emergency": 10,
    "number_inpatient": 10,
    "number_diagnoses": 17,
}
"""Counts from 0 to one below these; what is above counts as the last."""
CHAPTERS = (139, 239, 279, 289, 319, 389, 459, 519, 579, 629, 679, 709, 739, 759, 779, 799, 999)
"""The last code of each chapter of ICD-9, in which diagnoses are given."""


@dataclass(frozen=True)
class Case:
    """A table as codes, which of its columns stand in an order, the marginals that are asked for, and who answers.

    Rivals run at ε = 1.
    """

    title: str
    codes: dict[str, np.ndarray]
    sizes: dict[str, int]
    ordered: tuple[str, ...]
    order: int
    mechanisms: tuple[str, ...] = ("adaptive",)
    budgets: tuple[float, ...] = (0.1, 1.0, 10.0)
    delta: float = 1e-9
    rivals: tuple[str, ...] = ()

    def table(self) -> cs.Table:
        """The table, with numbers where columns stand in an order."""
        columns = {
            name: {"type": "integer", "min": 0, "max": max(size - 1, 1)}
            if name in self.ordered
            else {"type": "categorical", "values": [str(code) for code in range(max(size, 2))]}
            for name, size in self.sizes.items()
        }
        schema = cs.Schema.from_dict({"name": "ordinary", "neighbours": "add-remove", "columns": columns})
        data = {
            name: pa.array(codes) if name in self.ordered else pa.array(codes).cast(pa.string())
            for name, codes in self.codes.items()
        }
        return cs.open_table(pa.table(data), schema)

    def matrix(self) -> tuple[np.ndarray, np.ndarray]:
        """All codes, one row a record, and the number of codes of each column."""
        return np.stack([self.codes[name] for name in self.sizes], axis=1), np.array(list(self.sizes.values()))


def adult() -> Case:
    import pandas as pd

    frame = pd.read_csv(data_file("adult_ppgm.csv.gz"))
    sizes = _sizes("adult_ppgm-domain.json", frame.columns)
    codes = {name: frame[name].to_numpy() for name in frame.columns}
    return Case("Adult, 14 columns", codes, sizes, ORDERED_OF_ADULT, 3)


def small() -> Case:
    """Seven columns of Adult, at the δ of published comparisons."""
    import pandas as pd

    frame = pd.read_csv(data_file("adult_small.csv.gz"))
    sizes = _sizes("adult_small-domain.json", frame.columns)
    codes = {name: frame[name].to_numpy() for name in frame.columns}
    delta = 1 / len(frame) ** 2
    rivals = ("adaptive", "mwem", "gaussian")
    return Case("Adult, 7 columns", codes, sizes, (), 3, ("projection",), (1.0,), delta, rivals)


def _sizes(name: str, columns) -> dict[str, int]:
    domain = json.loads(data_file(name).read_text())
    return {key: domain[key] if isinstance(domain[key], int) else domain[key]["domain"] for key in columns}


def nltcs() -> Case:
    import pandas as pd

    frame = pd.read_csv(data_file("nltcs_named.csv.gz"))
    codes = {name: frame[name].astype(str).astype("category").cat.codes.to_numpy() for name in frame.columns}
    rivals = ("adaptive", "mwem", "dual-query", "gaussian")
    return Case("NLTCS, 16 columns", codes, dict.fromkeys(codes, 2), (), 3, ("projection",), rivals=rivals)


def census() -> Case:
    """42 columns; amounts in 32 bins of equal width on a logarithmic scale, the values of the others as they occur."""
    with gzip.open(data_file("census-income-kdd.data.gz"), "rt") as lines:
        rows = np.array([[field.strip() for field in line.strip().rstrip(".").split(",")] for line in lines])
    codes, sizes, ordered = {}, {}, []
    for place in range(rows.shape[1]):
        name = f"c{place}"
        if place not in CENSUS_BINS:
            codes[name], sizes[name] = _as_they_occur(rows[:, place])
            continue
        bins, number = CENSUS_BINS[place], rows[:, place].astype(float)
        most = CENSUS_MOST.get(place)
        scaled = number / bins if most is None else np.log1p(number) / np.log1p(most)
        codes[name] = np.clip((scaled * bins).astype(np.int64), 0, bins - 1)
        sizes[name] = bins
        ordered.append(name)
    return Case("Census-Income, 42 columns", codes, sizes, tuple(ordered), 2)


def acs() -> Case:
    """11 columns of up to 529 values; of an income it says whether it is above 50,000 dollars."""
    import pandas as pd

    frame = pd.read_parquet(data_file("folktables_ACSIncome_2018_40pct.parquet"))
    found = {name: _as_they_occur(frame[name].to_numpy()) for name in frame.columns}
    codes, sizes = ({name: pair[place] for name, pair in found.items()} for place in (0, 1))
    title = "ACS Income, 11 columns of up to 529 values"
    return Case(title, codes, sizes, ("AGEP", "WKHP"), 2, budgets=(1.0,))


def diabetic() -> Case:
    """47 columns of hospital stays, without the two of ids; diagnoses by their chapter. A stay is the unit here."""
    import pandas as pd

    frame = pd.read_csv(data_file("diabetic_data.csv.gz"), dtype=str, keep_default_na=False)
    codes, sizes, ordered = {}, {}, []
    for name in frame.columns:
        if name in ("encounter_id", "patient_nbr"):
            continue
        if name in DIABETIC_NUMBERS:
            sizes[name] = DIABETIC_NUMBERS[name]
            codes[name] = np.minimum(frame[name].astype(int).to_numpy(), sizes[name] - 1)
        elif name.startswith("diag_"):
            number = pd.to_numeric(frame[name], errors="coerce").to_numpy()
            chapter = np.searchsorted(np.array(CHAPTERS) + 1, np.nan_to_num(number, nan=-1.0), side="right")
            # Letters are supplementary codes, and "?" is missing: one more value each.
            sizes[name] = len(CHAPTERS) + 2
            codes[name] = np.where(np.isnan(number), len(CHAPTERS) + (frame[name] == "?").to_numpy(), chapter)
        else:
            codes[name], sizes[name] = _as_they_occur(frame[name].to_numpy().astype(str))
        if name in DIABETIC_NUMBERS or name == "age":
            ordered.append(name)
    return Case("Diabetic, 48 columns", codes, sizes, tuple(ordered), 2, budgets=(1.0,))


def kdd() -> Case:
    """41 columns of connections, in public bins."""
    schema, table = kdd99()
    names = schema.domain.names
    chunks = list(table.chunks())
    codes = {n: np.concatenate([chunk.column(c).astype(np.int64) for chunk in chunks]) for c, n in enumerate(names)}
    sizes = dict(zip(names, schema.domain.sizes))
    listed = ("protocol_type", "service", "flag")
    return Case("KDD Cup 99, 41 columns", codes, sizes, tuple(n for n in names if n not in listed), 2, budgets=(1.0,))


def onehot() -> Case:
    """200 two-valued columns: groups of one-hot columns from 100,000 made rows of 20 columns of ten values."""
    rng = np.random.Generator(np.random.PCG64(1))
    rows = 100_000
    hidden = rng.integers(0, 10, rows)
    codes = {}
    for group in range(20):
        value = np.where(rng.random(rows) < 0.4, hidden, np.minimum(rng.geometric(0.35, rows) - 1, 9))
        codes |= {f"g{group}v{each}": (value == each).astype(np.int64) for each in range(10)}
    return Case("made one-hot groups, 200 columns", codes, dict.fromkeys(codes, 2), (), 2, budgets=(1.0,))


def _as_they_occur(values: np.ndarray) -> tuple[np.ndarray, int]:
    found, codes = np.unique(values, return_inverse=True)
    return codes, len(found)


CASES: dict[str, Callable[[], Case]] = {
    "adult": adult,
    "small": small,
    "nltcs": nltcs,
    "census": census,
    "acs": acs,
    "diabetic": diabetic,
    "kdd": kdd,
    "onehot": onehot,
}

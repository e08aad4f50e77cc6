"""Made people for the demo: a hospital's table whose columns hang together, the same on every machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

ROWS = 20_000
PUBLIC_SEED = 2014

SCHEMA = """\
# What the owner declares before anyone looks at the table. Nothing here was computed from its rows.
name = "patients"
nouns = ["patient", "patients"]   # what pages call one row, and many
neighbours = "replace"

[unit]
kind = "row"                      # one row is one patient

[columns.sex]
type = "categorical"
values = ["female", "male"]

[columns.age]
type = "integer"
min = 18
max = 97                          # ages outside are clamped
width = 10                        # 18–27, 28–37, …

[columns.region]
type = "categorical"
values = ["north", "east", "south", "west"]

[columns.smoker]
type = "boolean"

[columns.diagnosis]
type = "categorical"
values = ["injury", "heart", "lung", "cancer", "birth"]
other = true                      # everything else takes one more code

[columns.nights]
type = "number"
edges = [0, 1, 3, 7, 14, 60]

[columns.returned]
type = "boolean"
missing = true                    # not everyone was followed up
"""


def made_people(rows: int = ROWS, *, public_seed: int = PUBLIC_SEED) -> pa.Table:
    """A table of made patients: age, sex and smoking drive the diagnosis, which drives the stay and the return."""
    rng = np.random.Generator(np.random.PCG64(public_seed))
    age = np.clip(rng.gamma(9.0, 6.2, rows) + 6, 18, 99).astype(np.int64)
    female = rng.random(rows) < 0.53
    region = rng.choice(np.array(["north", "east", "south", "west"]), rows, p=[0.38, 0.27, 0.2, 0.15])
    smoker = rng.random(rows) < np.where(age < 65, 0.31, 0.16) + np.where(region == "east", 0.08, 0.0)
    chances = np.stack(
        [
            np.where(age < 45, 3.0, 1.0),
            0.04 * np.maximum(age - 35, 0) * np.where(female, 0.8, 1.2) * np.where(smoker, 1.6, 1.0),
            np.where(smoker, 1.5, 0.35) + 0.008 * age,
            0.022 * np.maximum(age - 25, 0),
            np.where(female & (age < 45), 3.2, 0.0),
            np.full(rows, 0.5),
        ],
        axis=1,
    )
    bounds = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)
    drawn = np.minimum((rng.random((rows, 1)) > bounds).sum(axis=1), 5)
    names = np.array(["injury", "heart", "lung", "cancer", "birth", "fever"])
    usual = np.array([1.6, 5.0, 4.0, 8.0, 2.5, 1.2])[drawn] * (0.6 + age / 100)
    nights = np.round(np.minimum(rng.gamma(1.4, usual / 1.4), 80), 1)
    back = rng.random(rows) < 0.06 + 0.12 * np.isin(drawn, [1, 3]) + 0.004 * np.minimum(nights, 20)
    unknown = rng.random(rows) < 0.07
    return pa.table(
        {
            "sex": np.where(female, "female", "male"),
            "age": age,
            "region": region,
            "smoker": smoker,
            "diagnosis": names[drawn],
            "nights": nights,
            "returned": pa.array(back, mask=unknown),
        }
    )


def write_people(folder: Path) -> pa.Table:
    """Write `patients.csv` and `patients.toml` into a folder."""
    people = made_people()
    pyarrow.csv.write_csv(people, folder / "patients.csv")
    (folder / "patients.toml").write_text(SCHEMA, encoding="utf-8")
    return people

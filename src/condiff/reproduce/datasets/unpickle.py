"""Read the Planetoid files' Python-2 pickles without running anybody's code.

A pickle can call any importable function. This unpickler knows the six names that the public files
need and refuses every other; the files' checksums are compared before it sees a byte.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError


def _dtype(spec: str, align: int = 0, copy: int = 1) -> np.dtype[Any]:
    # Old pickles hold the two flags as 0 and 1, which today's NumPy deprecates.
    return np.dtype(spec, align=bool(align), copy=bool(copy))


_ALLOWED: dict[tuple[str, str], Any] = {
    # Arrays name their own rebuilding function, wherever this version of NumPy keeps it.
    ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _dtype,
    ("scipy.sparse.csr", "csr_matrix"): sp.csr_matrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
}


class _PlanetoidUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise InvalidFileError(f"the pickle needs {module}.{name}, which is forbidden") from None


def unpickle(path: Path) -> Any:
    """The object in a Planetoid pickle: an array, a CSR matrix, or a dictionary of lists."""
    with path.open("rb") as stream:
        try:
            return _PlanetoidUnpickler(stream, encoding="latin1").load()
        except InvalidFileError as error:
            raise InvalidFileError(f"{path}: {error}; use the original file") from None
        # A damaged pickle can fail in any way that an opcode can: with a missing stack entry, key, attribute...
        except Exception as error:
            raise InvalidFileError(f"{path} is not a complete pickle ({error}): fetch it again") from error

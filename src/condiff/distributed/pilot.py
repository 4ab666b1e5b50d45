"""The pilot of a fit on a cluster: an ordinary estimator of the rows that were gathered in one place.

It brings the base, the length of the diffusion, the held-out score and the calibration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from condiff.diffusion import degrees_of_freedom, diffusion_time
from condiff.distributed import rows as reading
from condiff.distributed.crew import Work
from condiff.distributed.rows import Reading
from condiff.encoders.encoding import EncodedTable
from condiff.errors import InvalidInputError
from condiff.estimators import COINClassifier, COINRegressor, load
from condiff.readers.targets import encode_classes, infer_task, regression_values


def read_labels(work: Work, item: int, how: Reading, task: str) -> None:
    """The class code or value of every word in the target."""
    table = reading.pilot_table(work)
    where = f"target column {how.target!r}"
    values = table.target(how.target, how.unlabelled)
    chosen = infer_task(values) if task == "auto" else task
    words = table.column(how.target).words().tolist()
    if chosen == "classification":
        codes, classes = encode_classes(values, where)
        if any(isinstance(label, float) for label in classes):
            raise InvalidInputError(f"{where} is continuous: use the task regression")
        of_word = {word: code for word, code in zip(words, codes.tolist(), strict=True) if code >= 0}
        counts = {str(label): int((codes == code).sum()) for code, label in enumerate(classes)}
    else:
        numbers, classes = regression_values(values, where), []
        of_word = {word: value for word, value in zip(words, numbers.tolist(), strict=True) if value == value}
        counts = {"values": int(np.isfinite(numbers).sum())}
    work.write_json("labels", {"task": chosen, "classes": classes, "of_word": of_word, "labelled": counts})


def fit_pilot(work: Work, item: int, how: Reading, options: dict[str, Any], are_all: bool) -> dict[str, Any]:
    """Fit an ordinary estimator on the gathered rows, which may be all."""
    table, labels = reading.pilot_table(work), work.read_json("labels")
    classes, encoder = labels["classes"], reading.encoder_in(work)
    targets = reading.targets_of(table.column(how.target).words(), labels)
    kind = COINClassifier if classes else COINRegressor
    given = {**_by_code(options, labels), "graph": "knn"}
    for name in given:
        if name not in kind._get_param_names():
            raise InvalidInputError(f"{name} does not apply to a {labels['task']}: leave it out")
    known = np.nan_to_num(targets, nan=-1).astype(int) if classes else targets
    try:
        model = kind(**given).fit(EncodedTable(table, encoder), known)
    except InvalidParameterError as error:
        raise InvalidInputError(str(error)) from error
    if classes:
        # Fitted on codes, because a class of the table may itself be called -1.
        called = np.array(classes, dtype=object if isinstance(classes[0], str) else None)
        model.classes_, model.transduction_ = called, called[model.transduction_]
    columns = [str(column.note) for column in encoder.columns_]
    facts = {"target": how.target, "unlabelled": list(how.unlabelled), "id_columns": [], "columns": columns}
    model.save(work.path("pilot"), {**facts, "ids": list(range(1, table.n_rows + 1)), "edges": False})
    return {
        "task": labels["task"],
        "labelled": labels["labelled"],
        "choice": str(model.choice_),
        **_chosen_time(model, are_all),
        "outputs": model.record_.output.shape[1],
        "n_neighbors": model.n_neighbors,
        "bandwidth_rank": model.bandwidth_rank,
        "cv_score": None if np.isnan(model.cv_score_) else model.cv_score_,
        "columns": columns,
    }


def _chosen_time(model: Any, are_all: bool) -> dict[str, Any]:
    """The pilot's layers; where others lead as far over all rows, the degrees of freedom to leave.

    A network may have chosen a share of that time.
    """
    found = {"layers": model.layers_, "strength": model.strength_, "freedom": None, "share": 1.0}
    found["half_steps"] = model.readout_ is not None
    if model.readout_ is None:
        classes = model.record_.output.shape[1] if hasattr(model, "classes_") else 1
        freedom = math.sqrt(classes * len(np.unique(model.record_.nodes)))
        longest = diffusion_time(model.graph_, freedom)
        found |= {"freedom": freedom, "share": min(1.0, model.diffusion_time_ / longest) if longest else 1.0}
    elif model.layers == "auto" and not are_all:
        found["freedom"] = degrees_of_freedom(model.graph_, model.diffusion_time_)
    return found


def _by_code(options: dict[str, Any], labels: dict[str, Any]) -> dict[str, Any]:
    """Weights and sizes of classes by their codes instead of their names."""
    codes = {str(label): code for code, label in enumerate(labels["classes"])}
    found = dict(options)
    sizes = {"labels": labels["labelled"], "uniform": dict.fromkeys(codes, 1)}
    if isinstance(found.get("class_prior"), str):
        found["class_prior"] = sizes[found["class_prior"]]
    for name in ("class_weight", "class_prior"):
        if isinstance(found.get(name), Mapping):
            unknown = [label for label in found[name] if str(label) not in codes]
            if unknown:
                raise InvalidInputError(f"there is no class {unknown[0]!r}: the classes are {', '.join(codes)}")
            found[name] = {codes[str(label)]: float(size) for label, size in found[name].items()}
    return found


def pilot_of(work: Work) -> Any:
    """The pilot; one is kept for each process."""
    file = work.path("pilot/model.json")
    return _pilot(str(work.path("pilot")), file.stat().st_mtime_ns).on_numbers()


@lru_cache(maxsize=1)
def _pilot(folder: str, changed: int) -> Any:
    return load(folder)

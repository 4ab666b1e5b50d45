"""``condiff predict``: answers of a saved model for the rows of a table."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from condiff.cli.inputs import (
    CLUSTER_HELP,
    COVERAGE,
    DATA_HELP,
    EDGES_HELP,
    WORKERS_HELP,
    FitFacts,
    id_columns,
    is_shared,
    open_data,
    peek,
    row_index,
)
from condiff.cli.output import (
    FORMULAS_HELP,
    batches_shown,
    check_out,
    console,
    counted,
    formula_notes,
    note,
    print_json,
    working,
    write_csv,
)
from condiff.encoders.embedding import progress_shown
from condiff.encoders.learning import require_columns
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import atomic_path
from condiff.readers.cells import listed
from condiff.readers.targets import observed

if TYPE_CHECKING:
    import scipy.sparse as sp

    from condiff.readers.tables import Table

#: What to know of a model that was fitted on a cluster, where a table in one file is answered.
GATHERED = (
    "this model was fitted on a cluster, and a table in one file is answered from the rows that were gathered there: "
    "give a folder of Parquet files for answers from all rows"
)


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A folder that condiff fit or Python wrote.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help=DATA_HELP)],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write the answers: .csv or .parquet, or a folder.")
    ],
    id: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Copy this column, which identifies the rows, to the answers."),
    ] = None,
    keep_columns: Annotated[
        bool, typer.Option("--keep-columns", help="Copy all columns of the table to the answers.")
    ] = False,
    edges: Annotated[Path | None, typer.Option(metavar="FILE", help=EDGES_HELP)] = None,
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Add the set of labels that holds the true one this often, such as 0.9; for values, the coverage of "
            "low and high, 0.9 by default.",
        ),
    ] = None,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Let the sets of --coverage hold every label by itself this often.")
    ] = False,
    formulas: Annotated[bool, typer.Option("--formulas", help=FORMULAS_HELP)] = False,
    abstain: Annotated[
        float | None,
        typer.Option(metavar="CHANCE", help="Leave labels empty whose chance of being wrong is larger, such as 0.2."),
    ] = None,
    none_of_these: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Leave labels empty of rows farther from all labelled ones than this share of these are from the "
            "others, such as 0.05; out_of_scope says how far.",
        ),
    ] = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help=CLUSTER_HELP)] = None,
    workers: Annotated[int | None, typer.Option(min=1, help=WORKERS_HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Answer the rows of a table: their ids with label and probabilities, or with value and interval.

    Rows that the model was fitted on get their fitted answer, so predicting the same file completes it. A label that is
    given is kept, and the column given marks it; where the model disagrees, model_says has its answer. --coverage 0.9
    adds the set of labels that holds the true one in nine cases of ten; --abstain and --none-of-these leave out answers
    that are not to be relied on.

    Example: [bold]condiff predict flowers-model flowers.csv --out answers.csv[/bold]
    """
    if is_shared(data, cluster, workers):
        alone = edges or keep_columns or coverage or abstain is not None or none_of_these is not None or id
        _predict_shared(model, data, out, cluster, workers, json, alone)
        return
    check_out(out, data, *([edges] if edges else []), suffixes=(".csv", ".parquet"))
    if coverage is not None and not 0 < coverage < 1:
        raise InvalidInputError(f"--coverage must be between 0 and 1, not {coverage:g}")
    for option, share in (("--abstain", abstain), ("--none-of-these", none_of_these)):
        if share is not None and not 0 <= share <= 1:
            raise InvalidInputError(f"{option} must be between 0 and 1, not {share:g}")
    if per_class and coverage is None:
        raise InvalidInputError("--per-class is for the sets of --coverage: give that too")
    facts, read = peek(model)
    if model.resolve() in out.resolve().parents:
        raise InvalidInputError(f"--out {out} is within the model, which a new fit replaces: choose another folder")
    table, edge_file = open_data(data, edges)
    if table.matrix is None:
        require_columns(read, table)
    ids = id_columns(table, id or [name for name in facts.id_columns if name in table.columns], read)
    with working(f"answering {table.n_rows} rows"), progress_shown(batches_shown):
        from condiff.estimators.answering import load_answers

        fitted: Any = load_answers(model)
        facts = FitFacts.of(fitted.metadata_, model)
        notes = [GATHERED] * (model / "cluster").is_dir()
        reader = fitted.heads_[0] if hasattr(fitted, "heads_") else fitted
        notes += [*table.notes, *([] if reader.encoder_ is None else reader.encoder_.notes_at_predict(table))]
        if reader is not fitted:
            _refuse_for_several(coverage, abstain, none_of_these)
            answers = _several(fitted, facts, table, ids, edge_file, notes)
            columns = _row_columns(table, ids, keep_columns, facts.target)
            _finish(_several_summary(answers, fitted.classes_.tolist()), columns, answers, out, notes, formulas, json)
            return
        outputs = _answers(fitted, facts, table, ids, edge_file, notes)
        if not fitted.classifies:
            _refuse_for_values(abstain, none_of_these, per_class)
        ranges = _ranges(fitted, facts, table, ids, edge_file, coverage, notes, per_class=per_class)
        scope = None if none_of_these is None else _scope(fitted, facts, table)
    if not fitted.classifies and outputs.ndim > 1:
        raise InvalidInputError(f"{model} answers {outputs.shape[1]} values per row: use condiff.load in Python")
    columns = _row_columns(table, ids, keep_columns, facts.target)
    given = _given(table, facts)
    if given is not None and fitted.classifies:
        notes += _unknown_labels(given, fitted.classes_.tolist(), facts.target)
    left_out = _left_out(outputs, abstain, scope, none_of_these) if fitted.classifies else None
    if abstain is not None and left_out is not None:
        notes += _nothing_left(outputs, left_out, given, abstain)
    answers = (
        _class_columns(outputs, fitted.classes_.tolist(), given, ranges, left_out)
        if left_out is not None
        else _value_columns(outputs, ranges, given)
    )
    if scope is not None:
        answers["out_of_scope"] = scope[0].round(6).tolist()
    told = _class_summary(answers) if fitted.classifies else _value_summary(answers)
    _finish(told, columns, answers, out, notes, formulas, json)


def _finish(
    told: tuple[dict[str, Any], str],
    columns: dict[str, list[Any]],
    answers: dict[str, list[Any]],
    out: Path,
    notes: list[str],
    formulas: bool,
    json: bool,
) -> None:
    """Write the answers beside the columns of the table, and say what they are."""
    facts, line = told
    columns = {**{_free(name, answers): values for name, values in columns.items()}, **answers}
    notes += formula_notes(_write(columns, out, formulas))
    summary: dict[str, Any] = {"rows": len(next(iter(answers.values()))), "out": str(out), "notes": notes}
    summary["given"] = sum(value is not None for value in answers.get("given", ()))
    summary |= {"disagreeing": _disagreeing(answers), **facts}
    if json:
        print_json([summary])
        return
    console.print(line, markup=False)
    if summary["given"]:
        other = summary["disagreeing"]
        opinion = f"; the model disagrees with {other} of them (model_says)" if other else ", and the model agrees"
        console.print(f"{counted(summary['given'], 'label')} given and kept{opinion}", markup=False)
    for remark in notes:
        console.print(f"note: {remark}", markup=False)
    console.print(f"written to {out}", markup=False)


def _predict_shared(
    model: Path, data: Path, out: Path, cluster: str | None, workers: int | None, json: bool, more: Any
) -> None:
    """Answer a folder of Parquet files on the workers of a cluster."""
    if more:
        raise InvalidInputError(
            "--id, --keep-columns, --edges, --coverage, --abstain and --none-of-these are for a table in one file: "
            "leave them out"
        )
    peek(model)
    from condiff.distributed.tables import predict_table

    rows = predict_table(model, data, out, cluster=cluster, workers=workers, report=note)
    if json:
        print_json([{"rows": rows, "out": str(out)}])
    else:
        console.print(f"{counted(rows, 'row')} answered, written to {out}", markup=False)


def _answers(
    fitted: Any,
    facts: FitFacts,
    table: Table,
    ids: Sequence[str],
    edge_file: Path | None,
    notes: list[str],
    coverage: float | None = None,
    **how: bool,
) -> NDArray[Any]:
    """Probabilities or values for every row; with a coverage, sets of classes or the ends of intervals."""
    from condiff.encoders.encoding import rows_for

    classifies = hasattr(fitted, "predict_proba")
    names_of_answers = ("predict_set", "predict_interval") if coverage else ("predict_proba", "predict")
    name = names_of_answers[0 if classifies else 1]
    options = {"coverage": coverage, **how} if coverage else {}

    def answer(model: Any, rows: Any, **more: Any) -> NDArray[Any]:
        return np.asarray(getattr(model, name)(rows, **options, **more))

    if not facts.edges:
        if edge_file is not None:
            raise InvalidInputError("this model was fitted without edges: leave them out, or fit it with --edges")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # they have been compared
            return answer(fitted, rows_for(fitted, table))
    names = list(row_index(table, ids))
    if len(facts.ids) != len(fitted.record_.node_of_row):
        raise InvalidFileError(f"the model has {len(facts.ids)} ids for its rows: fit it again")
    place = {str(name): row for row, name in enumerate(facts.ids)}
    rows = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    new = np.flatnonzero(rows < 0)
    # By their numbers: nodes of a graph may have the same features.
    found = np.asarray(fitted.answers_at(fitted.record_.node_of_row[np.maximum(rows, 0)], coverage, **how))
    if len(new):
        features = table.matrix if fitted.encoder_ is None else fitted.encoder_.transform(table)
        features = None if features is None else features[new]
        on_numbers = fitted.on_numbers()
        if edge_file is not None:
            adjacency = _edges_to_known(edge_file, place, [names[row] for row in new], notes)
            # Without features, a row is identified by its edges.
            found[new] = answer(on_numbers, adjacency if features is None else features, adjacency=adjacency)
        elif features is not None:
            found[new] = answer(on_numbers, features)
        else:
            raise InvalidInputError(f"{table.source} has {len(new)} new rows: give their edges with --edges")
    return found


def _ranges(
    fitted: Any,
    facts: FitFacts,
    table: Table,
    ids: Sequence[str],
    edge_file: Path | None,
    coverage: float | None,
    notes: list[str],
    *,
    per_class: bool,
) -> NDArray[Any] | None:
    """Sets of classes, if asked for, or the ends of intervals; None where no label was held out to make them from."""
    from condiff.errors import CoverageWarning

    if coverage is None and (hasattr(fitted, "classes_") or not len(fitted.record_.held_out)):
        return None
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", CoverageWarning)
        how = {"per_class": True} if per_class else {}
        found = _answers(fitted, facts, table, ids, edge_file, [], coverage or COVERAGE, **how)
    notes += list(dict.fromkeys(str(each.message) for each in said if each.category is CoverageWarning))
    return found


def _several(
    fitted: Any, facts: FitFacts, table: Table, ids: Sequence[str], edge_file: Path | None, notes: list[str]
) -> dict[str, list[Any]]:
    """The columns of answers of a model that gives any number of labels to a row."""
    from condiff.cli.several import several_columns
    from condiff.cli.target import several
    from condiff.encoders.encoding import rows_for

    if facts.edges or edge_file is not None:
        parts = [_answers(head, facts, table, ids, edge_file, notes)[:, 1] for head in fitted.heads_]
        notes[:] = dict.fromkeys(notes)  # every head says the same
        chances = np.stack(parts, axis=1)
    else:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")  # they have been compared
            chances = fitted.predict_proba(rows_for(fitted.heads_[0], table))
    names, separator = [str(name) for name in fitted.classes_], facts.separator or ";"
    given: list[set[str] | None] = [None] * table.n_rows
    if facts.target in table.columns and facts.separator:
        given = several(table, facts.target, separator, facts.unlabelled)
        unknown = Counter(label for cell in given for label in (cell or set()) - set(names))
        notes += _strangers(unknown, facts.target)
    return several_columns(chances, names, separator, given)


def _refuse_for_several(coverage: float | None, abstain: float | None, none_of_these: float | None) -> None:
    """Options that mean nothing where a row may have several labels."""
    for option, given in (("--coverage", coverage), ("--abstain", abstain), ("--none-of-these", none_of_these)):
        if given is not None:
            raise InvalidInputError(
                f"{option} is for rows of one label, and this model gives several: leave it out, and see the p_ columns"
            )


def _refuse_for_values(abstain: float | None, none_of_these: float | None, per_class: bool) -> None:
    """Options that mean nothing for values."""
    for option, given in (
        ("--abstain", abstain is not None),
        ("--none-of-these", none_of_these is not None),
        ("--per-class", per_class),
    ):
        if given:
            raise InvalidInputError(f"{option} is for classes: leave it out, and see low and high")


def _scope(fitted: Any, facts: FitFacts, table: Table) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How far every row is out of scope, and the share of labelled rows that would be as far."""
    from condiff.encoders.encoding import rows_for
    from condiff.estimators.coverage import Asked
    from condiff.estimators.scope import out_of_scope

    if facts.edges:
        raise InvalidInputError("--none-of-these is for tables without edges: use condiff.load in Python")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # they have been compared
        rows = rows_for(fitted, table)
        return out_of_scope(fitted, rows, Asked.rows(fitted, rows, None))


def _left_out(
    probabilities: NDArray[np.float64],
    abstain: float | None,
    scope: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    none_of_these: float | None,
) -> NDArray[np.bool_]:
    """The rows whose label is left empty."""
    found = np.zeros(len(probabilities), bool)
    if abstain is not None:
        found |= 1 - probabilities.max(axis=1) > abstain
    if scope is not None and none_of_these is not None:
        found |= scope[1] <= none_of_these
    return found


def _nothing_left(
    probabilities: NDArray[np.float64], left_out: NDArray[np.bool_], given: NDArray[Any] | None, abstain: float
) -> list[str]:
    """Why every row without a label is left empty, as a note."""
    asked = np.ones(len(left_out), bool) if given is None else ~observed(given)
    if not asked.any() or not left_out[asked].all():
        return []
    return [
        f"--abstain {abstain:g} leaves every row empty: the largest confidence is {probabilities[asked].max():.3f}; "
        "allow a larger chance of being wrong, or label more rows"
    ]


def _edges_to_known(path: Path, place: dict[str, int], new: list[str], notes: list[str]) -> sp.csr_array:
    """Weights of the edges from new rows to training rows."""
    from condiff.readers.graph_file import read_links

    everyone = {name: number for number, name in enumerate([*place, *new])}
    weights = read_links(path, everyone, "the table or the model")[len(place) :]
    between = int(weights[:, len(place) :].nnz) // 2
    if between:
        notes.append(f"edges between new rows are left out ({between}): answers come from fitted rows")
    return weights[:, : len(place)]


def _given(table: Table, facts: FitFacts) -> NDArray[Any] | None:
    """The labels in the table, None where it has none."""
    if facts.target not in table.columns:
        return None
    values = table.labels(facts.target, facts.unlabelled)
    return values if values is not None and observed(values).any() else None


def _unknown_labels(given: NDArray[Any], classes: list[Any], target: str) -> list[str]:
    """Labels in the table that the model has not learned, as a note."""
    known = set(map(str, classes))
    return _strangers(
        Counter(word for value in given[observed(given)].tolist() if (word := str(_plain(value))) not in known), target
    )


def _strangers(unknown: Counter[str], target: str) -> list[str]:
    if not unknown:
        return []
    shown = listed([word for word, _ in unknown.most_common(3)], 3)
    return [f"{target!r}: {counted(unknown.total(), 'label')} that the model has not learned ({shown})"]


def _row_columns(table: Table, ids: Sequence[str], keep: bool, target: str) -> dict[str, list[Any]]:
    names = [name for name in table.columns if name != target] if keep else list(ids)
    if table.matrix is not None and names:
        return {"id": table.column(names[0]).words().tolist()}
    columns: dict[str, list[Any]] = {name: [word or None for word in table.column(name).words()] for name in names}
    return columns if columns and (keep or ids) else {"row": list(range(1, table.n_rows + 1))}


def _free(name: str, taken: dict[str, Any]) -> str:
    return f"{name} (table)" if name in taken else name


def _class_columns(
    probabilities: NDArray[np.float64],
    classes: list[Any],
    given: NDArray[Any] | None,
    sets: NDArray[np.bool_] | None,
    left_out: NDArray[np.bool_],
) -> dict[str, list[Any]]:
    best = [classes[code] for code in probabilities.argmax(axis=1).tolist()]
    best = [None if empty else said for said, empty in zip(best, left_out.tolist(), strict=True)]
    columns: dict[str, list[Any]] = {"label": best}
    confidence: list[float | None] = probabilities.max(axis=1).round(6).tolist()
    if given is not None:
        by_name = {str(label): code for code, label in enumerate(classes)}
        known = [None if value is None or value != value else _plain(value) for value in given.tolist()]
        columns["label"] = [said if own is None else own for said, own in zip(best, known, strict=True)]
        for row, own in enumerate(known):
            if own is not None:
                code = by_name.get(str(own))
                confidence[row] = None if code is None else round(float(probabilities[row, code]), 6)
        columns["confidence"] = confidence
        columns["given"] = known
        differs = [
            own is not None and said is not None and str(own) != str(said)
            for said, own in zip(best, known, strict=True)
        ]
        columns["model_says"] = [said if other else None for said, other in zip(best, differs, strict=True)]
    else:
        columns["confidence"] = confidence
    if sets is not None:
        # A label within a set is separated by a bar, as it may hold a comma.
        columns["set"] = [" | ".join(str(classes[code]) for code in np.flatnonzero(row)) for row in sets]
        columns["set_size"] = sets.sum(axis=1).tolist()
    for position, name in enumerate(classes):
        columns[f"p_{name}"] = probabilities[:, position].round(6).tolist()
    return columns


def _value_columns(
    values: NDArray[np.float64], ends: NDArray[np.float64] | None, given: NDArray[Any] | None
) -> dict[str, list[Any]]:
    values = np.array([float(f"{value:.8g}") for value in values])  # more digits would only be hard to read
    columns: dict[str, list[Any]] = {"value": values.tolist()}
    if ends is not None:
        columns["low"] = [float(f"{value:.8g}") for value in ends[:, 0]]
        columns["high"] = [float(f"{value:.8g}") for value in ends[:, 1]]
    if given is not None and given.dtype != object:
        known = ~np.isnan(given)
        columns["value"] = np.where(known, given, values).tolist()
        columns["given"] = [value if there else None for value, there in zip(given.tolist(), known, strict=True)]
        columns["model_says"] = [said if there else None for said, there in zip(values.tolist(), known, strict=True)]
    return columns


def _disagreeing(answers: dict[str, list[Any]]) -> int:
    """How many labels that were given the model would not have given; of values, those outside of the interval."""
    said, given = answers.get("model_says", []), answers.get("given", [])
    if "low" not in answers:
        return 0 if "value" in answers else sum(value is not None for value in said)
    limits = zip(given, answers["low"], answers["high"], strict=False)
    return sum(own is not None and not low <= own <= high for own, low, high in limits)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _class_summary(answers: dict[str, list[Any]]) -> tuple[dict[str, Any], str]:
    """What was answered, as plain values and in words."""
    counts = Counter(str(label) for label in answers["label"] if label is not None)
    rows, labels = len(answers["label"]), {label: counts[label] for label in sorted(counts)}
    below, left_out = sum(value is not None and value < 0.5 for value in answers["confidence"]), rows - counts.total()
    shown = _counts(labels | ({"no answer": left_out} if left_out else {}))
    line = f"{counted(rows, 'row')}: {shown}; {below} with a confidence below one half"
    return {"labels": labels, "below_half": below, "left_out": left_out}, line


def _value_summary(answers: dict[str, list[Any]]) -> tuple[dict[str, Any], str]:
    found = np.array(answers["value"])
    line = f"{counted(len(found), 'row')}: values from {found.min():.4g} to {found.max():.4g}, mean {found.mean():.4g}"
    return {"mean": float(found.mean())}, line


def _several_summary(answers: dict[str, list[Any]], names: list[str]) -> tuple[dict[str, Any], str]:
    counts = {name: sum(chance > 0.5 for chance in answers[f"p_{name}"]) for name in names}
    return {"labels": counts}, f"{counted(len(answers['labels']), 'row')}: {_counts(counts)}"


def _counts(labels: dict[str, int]) -> str:
    return ", ".join(f"{label} {count}" for label, count in labels.items())


def _write(columns: dict[str, list[Any]], out: Path, formulas: bool) -> int:
    with atomic_path(out) as temporary:
        if out.suffix == ".parquet":
            from condiff.readers.arrow import write_parquet

            write_parquet(columns, temporary)
            return 0
        with temporary.open("w", newline="", encoding="utf-8") as stream:
            return write_csv(columns, zip(*columns.values(), strict=True), stream, formulas=formulas)

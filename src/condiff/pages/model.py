"""The report of a fitted model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD

from condiff.estimators import COINClassifier, COINRegressor
from condiff.pages.html import Html, join, tag
from condiff.pages.layout import Card, Section, report_page, settings_text, versions
from condiff.pages.model_charts import agreement, confusion, limits, point_map, reliability
from condiff.pages.palette import colours
from condiff.pages.tables import Cell, Column, pairs, table
from condiff.uncertainty import Change, Inspection, Suggestion

_CHANGES = 50
_SUGGESTIONS = 20


def model_page(model: COINClassifier | COINRegressor, name: str, command: str) -> str:
    """The page of a model: how good it is, what the diffusion changed and why, what to label next.

    Parameters
    ----------
    model
        As :func:`condiff.load` returns it; its ``metadata_`` may name the rows and say what made it.
    name
        Of its folder.
    command
        How the page says it was made.
    """
    found = Inspection(model)
    metadata: dict[str, Any] = model.metadata_ if isinstance(model.metadata_, dict) else {}
    names = _Names(metadata.get("ids"))
    classes = isinstance(model, COINClassifier)
    target = str(metadata.get("target", "the target"))
    source = str(metadata.get("data", name))
    n_rows = len(model.unlabelled_component_)
    lede = f"{target} of {source}, learnt from {found.n_labelled:,} labelled of {n_rows:,} rows" + (
        f" in {len(model.classes_)} classes." if isinstance(model, COINClassifier) else "."
    )
    sections = [
        Section("How good it is", _score(found)),
        Section("A map of the points", _map(found)),
        Section("What the diffusion changed", _changes(found, names)),
        Section("What to label next", _suggestions(found, names)),
        Section("The diffusion and its certificate", _certificate(model)),
        Section("How it was made", _made(model, metadata)),
    ]
    kind = "A classifier" if classes else "A regressor"
    return report_page(name, kind, lede, _cards(found), sections, command)


class _Names:
    """What the rows are called: their ids where they are known, else their numbers from 1."""

    def __init__(self, ids: Any) -> None:
        self.ids = ids if isinstance(ids, list) else None

    def __call__(self, row: int) -> str:
        known = self.ids is not None and row < len(self.ids) and self.ids[row] != ""
        return str(self.ids[row]) if known and self.ids is not None else f"row {row + 1}"


def _cards(found: Inspection) -> list[Card]:
    model = found.model
    cards = []
    if isinstance(model, COINClassifier):
        held_out = found.held_out()
        if held_out is None:
            cards.append(Card("Held-out accuracy", "unknown", "too few labels to hold some out"))
        else:
            low, high = _wilson(model.cv_score_, len(held_out[0]))
            about = f"{len(held_out[0])} labels; 95 % interval {100 * low:.0f} to {100 * high:.0f}"
            cards.append(Card("Held-out accuracy", f"{100 * model.cv_score_:.1f}", about, "%"))
        share = found.n_changed / model.graph_.n_nodes
        cards.append(Card("Changed class", f"{found.n_changed:,}", f"{100 * share:.1f} % of points, by the diffusion"))
    else:
        score = "unknown" if math.isnan(model.cv_score_) else f"{model.cv_score_:.3f}"
        cards.append(Card("Held-out R²", score, "of values that were held out in turn"))
    nodes, edges = f"{model.graph_.n_nodes:,}", f"{model.graph_.n_edges:,} edges"
    cards.append(Card("Points", nodes, edges))
    problem = model.certificate_.problem(model.strength_) if model.layers_ else None
    certified = "past a limit" if problem else "certified"
    about = f"{model.layers_:,} layers of {model.strength_:.3g}; {certified}" if model.layers_ else "no diffusion"
    cards.append(Card("Diffusion time", f"{model.diffusion_time_:.3g}", about))
    unreached = int(model.unlabelled_component_.sum())
    if unreached:
        cards.append(Card("Out of reach", f"{unreached:,}", "rows in parts of the graph without a label"))
    return cards


def _score(found: Inspection) -> Html:
    held_out, model = found.held_out(), found.model
    if held_out is None:
        return tag(
            "p",
            "There were too few labels to hold some out, so nothing is known about how good the answers are. "
            "Ten labels in classes of two or more are enough for a first figure.",
        )
    truth, answers = held_out
    if not isinstance(model, COINClassifier):
        figure = agreement([np.ravel(value)[0] for value in truth], answers[:, 0].tolist())
        about = f"R² is {model.cv_score_:.3f} over {len(truth)} values that {model.folds} folds held out in turn."
        return join([tag("p", about), figure])
    codes = np.array([model.classes_.tolist().index(label) for label in truth])
    about = (
        f"{len(truth)} labels were held out in turn, in {model.folds} folds: each was answered by a model that had "
        "not seen it. These are its answers; with few labels they are an estimate, and the final model has seen all."
    )
    shown = [str(label) for label in model.classes_.tolist()]
    return join(
        [
            tag("p", about),
            tag("div", confusion(codes, answers.argmax(axis=1), shown), reliability(codes, answers), class_="columns"),
        ]
    )


def _map(found: Inspection) -> Html:
    model = found.model
    places = plane(found.points)
    if isinstance(model, COINClassifier):
        codes = found.record.output.argmax(axis=1)
        changed = found.record.base.argmax(axis=1) != codes
        names = [str(label) for label in model.classes_.tolist()]
        labelled = np.array([label is not None for label in found.label])
        return point_map(places, codes, names, labelled, changed)
    values = np.asarray([np.ravel(value)[0] for value in found.after], dtype=np.float64)
    # Five equal parts of the values, from low to high.
    edges = np.quantile(values, [0.2, 0.4, 0.6, 0.8])
    codes = np.searchsorted(edges, values)
    ends = [f"{value:.3g}" for value in edges]
    names = [f"below {ends[0]}", *(f"{a} to {b}" for a, b in pairwise(ends)), f"from {ends[-1]}"]
    labelled = np.array([label is not None for label in found.label])
    return point_map(places, codes, names, labelled, np.zeros(len(codes), dtype=bool))


def plane(points: Any) -> NDArray[np.float64]:
    """The points' first two principal components; one column gets a second of zeros."""
    if points.shape[1] < 2 or points.shape[0] < 3:
        dense = points.toarray() if sp.issparse(points) else np.asarray(points)
        return np.concatenate([dense, np.zeros((len(dense), 2))], axis=1)[:, :2]
    if not sp.issparse(points) and points.shape[1] == 2:
        return np.asarray(points, dtype=np.float64)
    method = TruncatedSVD(2, random_state=0) if sp.issparse(points) else PCA(2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # points that are all the same have no variance to divide by
        return np.asarray(method.fit_transform(points), dtype=np.float64)


def _changes(found: Inspection, names: _Names) -> Html:
    changes = found.changes(_CHANGES)
    if not changes:
        return tag("p", "The diffusion changed no answer: the network alone says the same.")
    classes = isinstance(found.model, COINClassifier)
    shades = _shades(found)
    columns = [Column("point", "text"), Column("network alone", "text"), Column("after diffusion", "text")]
    if classes:
        columns += [
            Column("gained", about="Rise of the new class's output"),
            Column(
                "from its like", about="Part of the answer that came from points which the network gives that class"
            ),
        ]
    else:
        columns.append(Column("moved"))
    columns += [
        Column("own part", about="Part of the answer that comes from the point itself"),
        Column("closest neighbours", "text", "Share of its weights; what the network alone and the diffusion say"),
    ]
    rows = [_change_row(change, names, shades) for change in changes]
    shown = f"The {len(changes)} largest of {found.n_changed:,}" if found.n_changed > len(changes) else "All"
    what = "points whose class the diffusion changed" if classes else "moves by the diffusion"
    explained = (
        "After the diffusion an answer is a weighted sum of the network's answers at all points, nearer ones counting "
        "more. The neighbours show where a change came from; L marks a label."
    )
    return join([tag("p", explained), table(f"{shown} {what}.", columns, rows)])


def _change_row(change: Change, names: _Names, shades: dict[Any, str]) -> list[Cell]:
    neighbours = [
        tag(
            "li",
            f"{100 * neighbour.share:.0f} % ",
            names(neighbour.row),
            ": ",
            _answer(neighbour.before, shades),
            "" if neighbour.before == neighbour.after else join([" → ", _answer(neighbour.after, shades)]),
            "" if neighbour.label is None else join([" ", tag("abbr", "L", title="labelled")]),
        )
        for neighbour in change.neighbours
    ]
    cells = [Cell(names(change.row)), Cell(_answer(change.before, shades)), Cell(_answer(change.after, shades))]
    cells.append(Cell(f"{change.size:.3g}", change.size))
    if change.received is not None:
        cells.append(_percent(change.received))
    return [*cells, _percent(change.own), Cell(tag("ul", *neighbours, class_="neighbours"))]


def _suggestions(found: Inspection, names: _Names) -> Html:
    wishes = found.suggestions(_SUGGESTIONS)
    if not wishes:
        return tag("p", "Every point has a label.")
    classes = isinstance(found.model, COINClassifier)
    shades = _shades(found)
    columns = [Column("point", "text"), Column("answer now", "text")]
    if classes:
        columns += [Column("probability"), Column("or", "text"), Column("probability of that")]
    columns += [
        Column("reach of labels", about="Part of the answer that comes from labelled points"),
        Column("why", "text"),
    ]
    rows = [_suggestion_row(wish, names, shades) for wish in wishes]
    how = "smallest gap between the two most probable classes" if classes else "least reached by labels"
    explained = (
        f"Points whose label would tell most: first one for each part of the graph that has no label, then those with "
        f"the {how}. Of points that are joined to each other only one is named."
    )
    return join([tag("p", explained), table("Points to label next.", columns, rows)])


def _suggestion_row(wish: Suggestion, names: _Names, shades: dict[Any, str]) -> list[Cell]:
    cells = [Cell(names(wish.row)), Cell(_answer(wish.answer, shades))]
    if wish.probability is not None and wish.rival_probability is not None:
        cells += [_percent(wish.probability), Cell(_answer(wish.rival, shades)), _percent(wish.rival_probability)]
    why = f"stands for {wish.unreached:,} points without a label in reach" if wish.unreached else "uncertain"
    if not wish.unreached and wish.probability is None:
        why = "far from labels"
    return [*cells, _percent(wish.reach), Cell(why)]


def _certificate(model: COINClassifier | COINRegressor) -> Html:
    certificate = model.certificate_
    said = certificate.problem(model.strength_) or (
        f"{model.layers_:,} layers of {model.strength_:.4g} are within the positivity limit: no answer leaves the "
        "range of the network's own."
    )
    if not model.layers_:
        said = "There is no diffusion: the network answers alone, as was asked or as the held-out labels asked for."
    items = [
        ("layers", f"{model.layers_:,}"),
        ("strength of a layer", f"{model.strength_:.4g}"),
        ("diffusion time", f"{model.diffusion_time_:.4g}"),
        ("positivity limit", f"{certificate.positivity_limit:.4g}"),
        ("stability limit", f"{certificate.stability_limit:.4g}"),
        ("largest eigenvalue", f"{certificate.lambda_max:.4g}, at most {certificate.lambda_max_bound:.6g}"),
        ("evidence", certificate.evidence),
    ]
    bounded = math.isfinite(certificate.stability_limit) and math.isfinite(certificate.positivity_limit)
    figure = limits(model.strength_, certificate.positivity_limit, certificate.stability_limit) if bounded else None
    return join([tag("p", said), figure, pairs("The certificate of the graph", items)])


def _made(model: COINClassifier | COINRegressor, metadata: dict[str, Any]) -> Html:
    encoder = metadata.get("encoder")
    lines = encoder.get("lines", []) if isinstance(encoder, dict) else []
    parts = [versions(metadata["made"])] if isinstance(metadata.get("made"), dict) else []
    if lines:
        parts.append(join([tag("h3", "Columns"), tag("ul", *(tag("li", str(line)) for line in lines))]))
    settings = {key: value for key, value in model.get_params(deep=False).items() if _is_plain(value)}
    parts.append(join([tag("h3", "Settings"), tag("p", settings_text(settings))]))
    return join(parts)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _shades(found: Inspection) -> dict[Any, str]:
    if not isinstance(found.model, COINClassifier):
        return {}
    labels: Sequence[Any] = found.model.classes_.tolist()
    return dict(zip(labels, colours(len(labels)), strict=True))


def _answer(value: Any, shades: dict[Any, str]) -> Html:
    if not shades:
        return tag("span", ", ".join(f"{number:.4g}" for number in np.ravel(value)))
    return tag(
        "span", tag("span", class_="swatch", style=f"background: {shades[value]}", aria_hidden="true"), str(value)
    )


def _percent(part: float) -> Cell:
    return Cell(f"{100 * part:.1f} %", part)


def _wilson(share: float, number: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which few labels do not push past 0 or 1."""
    z = 1.959964
    centre = (share + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return max(0.0, centre - half), min(1.0, centre + half)

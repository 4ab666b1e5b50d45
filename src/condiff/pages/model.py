"""The report of a fitted model."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from condiff.estimators import COINClassifier, COINRegressor
from condiff.pages.canvas import class_colours
from condiff.pages.model_figures import LOW_TO_HIGH, agreement, limits, point_map, reliability
from condiff.pages.report import (
    Answer,
    Beside,
    Block,
    Bullets,
    Card,
    Cell,
    Column,
    Listen,
    Neighbours,
    Pairs,
    Picture,
    Point,
    Report,
    Section,
    Table,
    Text,
    settings_code,
    versions,
)
from condiff.pages.scene import plane
from condiff.uncertainty import Change, Inspection, Reliability, Suggestion, column_shares

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
    return _ModelReport(model, name).report().page(command)


class _ModelReport:
    """A model, what was found about it, and what its rows and classes are called."""

    def __init__(self, model: COINClassifier | COINRegressor, name: str) -> None:
        self.model = model
        self.name = name
        self.found = Inspection(model)
        self.metadata: dict[str, Any] = model.metadata_ if isinstance(model.metadata_, dict) else {}
        ids = self.metadata.get("ids")
        self.ids = ids if isinstance(ids, list) else []
        #: Labels of a classifier with their colours; none of a regressor.
        labels = model.classes_.tolist() if isinstance(model, COINClassifier) else []
        self.colours = dict(zip(labels, class_colours(len(labels)), strict=True))

    def report(self) -> Report:
        target = str(self.metadata.get("target", "the target"))
        source = str(self.metadata.get("data", self.name))
        rows = len(self.model.unlabelled_component_)
        lede = f"{target} of {source}, learned from {self.found.n_labelled:,} labelled of {rows:,} rows"
        lede += f" in {len(self.colours)} classes." if self.colours else "."
        sections = [
            Section("How good it is", self.score()),
            Section("A map of the points", [self.map()]),
            Section("What the diffusion changed", self.changes()),
            Section("What to label next", self.suggestions()),
            *([Section("Labels that look wrong", self.issues())] if self.colours else []),
            *self.columns(),
            Section("The diffusion and its certificate", self.certificate()),
            Section("How it was made", self.made()),
        ]
        return Report(self.name, "A classifier" if self.colours else "A regressor", lede, self.cards(), sections)

    def point(self, row: int) -> Point:
        """The row's text or picture where it has one; its id, or its number from 1, and its first cells."""
        named = _entry(self.ids, row)
        text = _entry(self.metadata.get("texts"), row)
        name = named if named and not (text and named == str(row + 1)) else ("" if text else f"row {row + 1}")
        text = text or _entry(self.metadata.get("cells"), row)
        picture = _entry(self.metadata.get("pictures"), row)
        shown = picture if picture.startswith("data:image/jpeg;base64,") else ""
        return Point(": ".join(filter(None, [name, text])), shown)

    def answer(self, value: Any) -> Answer:
        if self.colours:
            return Answer(str(value), self.colours[value])
        return Answer(", ".join(f"{number:.4g}" for number in np.ravel(value)))

    def cards(self) -> list[Card]:
        model, found, cards = self.model, self.found, []
        if isinstance(model, COINClassifier):
            held_out = found.held_out()
            if held_out is None:
                cards.append(Card("Held-out accuracy", "unknown", "too few labels to hold some out"))
            else:
                number = len(held_out[0])
                # Wilson's interval: few labels do not push it past 0 or 1.
                low, high = binomtest(round(model.cv_score_ * number), number).proportion_ci(method="wilson")
                about = f"{number} labels; 95 % interval {100 * low:.0f} to {100 * high:.0f}"
                cards.append(Card("Held-out accuracy", f"{100 * model.cv_score_:.1f}", about, "%"))
            share = f"{100 * found.n_changed / model.graph_.n_nodes:.1f} % of points, by the diffusion"
            cards.append(Card("Changed class", f"{found.n_changed:,}", share))
        else:
            score = "unknown" if math.isnan(model.cv_score_) else f"{model.cv_score_:.3f}"
            cards.append(Card("Held-out R²", score, "of values that were held out in turn"))
        cards.append(Card("Points", f"{model.graph_.n_nodes:,}", f"{model.graph_.n_edges:,} edges"))
        certified = "past a limit" if model.certificate_.problem(model.strength_) else "certified"
        about = f"{model.layers_:,} layers of {model.strength_:.3g}; {certified}" if model.layers_ else "no diffusion"
        cards.append(Card("Diffusion time", f"{model.diffusion_time_:.3g}", about))
        if unreached := int(model.unlabelled_component_.sum()):
            cards.append(Card("Out of reach", f"{unreached:,}", "rows in parts of the graph without a label"))
        return cards

    def score(self) -> list[Block]:
        held_out, model = self.found.held_out(), self.model
        if held_out is None:
            return [
                Text(
                    "There were too few labels to hold some out, so nothing is known about how good the answers are. "
                    "Ten labels in classes of two or more are enough for a first estimate."
                )
            ]
        truth, answers = held_out
        if not isinstance(model, COINClassifier):
            about = f"R² is {model.cv_score_:.3f} over {len(truth)} values that {model.folds} folds held out in turn."
            return [Text(about), agreement([float(np.ravel(value)[0]) for value in truth], answers[:, 0].tolist())]
        codes = np.array([model.classes_.tolist().index(label) for label in truth])
        about = (
            f"{len(truth)} labels were held out in turn, in {model.folds} folds: each was answered by a model that had "
            "not seen it. These are its answers; with few labels they are an estimate, and the final model has seen "
            "all labels."
        )
        names = [str(label) for label in self.colours]
        shown: list[Block] = [confusion(codes, answers.argmax(axis=1), names), reliability(model.reliability())]
        return [Text(about), Beside(shown), self.class_rates(model.reliability(per_class=True))]

    def class_rates(self, rates: list[Reliability]) -> Table:
        """What was said of every class over all held-out answers, beside how often it was the true one."""
        columns = [
            Column("class", "text"),
            Column("said", about="The mean probability of the class over all held-out rows, in %"),
            Column("true", about="The share of these rows that have its label, in %"),
            Column("95 % interval", "text", "Of that share, as far as so few labels tell"),
        ]
        rows = [
            [
                Cell(Answer(str(label), colour)),
                Cell(f"{100 * rate.said:.1f}"),
                Cell(f"{100 * rate.right:.1f}"),
                Cell(f"{100 * rate.low:.0f} to {100 * rate.high:.0f}"),
            ]
            for (label, colour), rate in zip(self.colours.items(), rates, strict=True)
        ]
        caption = "Whether the probabilities of each class are what they say, over all held-out rows."
        return Table(caption, columns, rows, [not rate.agrees for rate in rates])

    def map(self) -> Picture:
        found = self.found
        places = plane(found.points)
        labelled = np.array([label is not None for label in found.label])
        if self.colours:
            codes = found.record.output.argmax(axis=1)
            changed = found.record.base.argmax(axis=1) != codes
            return point_map(places, codes, [str(label) for label in self.colours], labelled, changed)
        values = np.asarray([np.ravel(value)[0] for value in found.after], dtype=np.float64)
        # Five equal parts of the values, from low to high.
        edges = np.quantile(values, [0.2, 0.4, 0.6, 0.8])
        ends = [f"{value:.3g}" for value in edges]
        names = [f"below {ends[0]}", *(f"{a} to {b}" for a, b in pairwise(ends)), f"from {ends[-1]}"]
        nothing = np.zeros(len(values), dtype=bool)
        return point_map(places, np.searchsorted(edges, values), names, labelled, nothing, LOW_TO_HIGH)

    def changes(self) -> list[Block]:
        changes, total = self.found.changes(_CHANGES), self.found.n_changed
        if not changes:
            return [Text("The diffusion changed no answer: the network alone says the same.")]
        labelled = any(self.label(each.row) is not None for each in changes)
        columns = [
            Column("point", "text"),
            *([Column("given label", "text")] if labelled else []),
            Column("network alone", "text"),
            Column("after diffusion", "text"),
        ]
        if self.colours:
            like = "Part of the answer that came from points which the network gives that class"
            columns += [Column("gained", about="Rise of the new class's output"), Column("from its like", about=like)]
        else:
            columns.append(Column("moved"))
        columns += [
            Column("own part", about="Part of the answer that comes from the point itself"),
            Column("closest neighbours", "text", "Share of its weights; what the network alone and the diffusion say"),
        ]
        shown = f"The {len(changes)} largest of {total:,}" if total > len(changes) else "All"
        what = "points whose class the diffusion changed" if self.colours else "moves by the diffusion"
        explained = (
            "After the diffusion an answer is a weighted sum of the answers before it at all points, nearer ones "
            "counting more. The neighbours show where a change came from; L marks a label."
        )
        return [Text(explained), Table(f"{shown} {what}.", columns, [self.change(each, labelled) for each in changes])]

    def label(self, row: int) -> Any:
        """What a row is labelled; None where it is not."""
        return self.found.label[int(self.found.record.node_of_row[row])]

    def change(self, change: Change, labelled: bool) -> list[Cell]:
        neighbours = [
            Listen(
                f"{100 * each.share:.0f} %",
                self.point(each.row),
                self.answer(each.before),
                None if each.before == each.after else self.answer(each.after),
                each.label is not None,
            )
            for each in change.neighbours
        ]
        given = self.label(change.row)
        cells = [Cell(self.point(change.row))]
        if labelled:
            cells.append(Cell("" if given is None else self.answer(given)))
        cells += [Cell(self.answer(change.before)), Cell(self.answer(change.after))]
        cells.append(Cell(f"{change.size:.3g}", change.size))
        if change.received is not None:
            cells.append(_percent(change.received))
        return [*cells, _percent(change.own), Cell(Neighbours(neighbours))]

    def suggestions(self) -> list[Block]:
        suggestions = self.found.suggestions(_SUGGESTIONS)
        if not suggestions:
            return [Text("Every point has a label.")]
        columns = [Column("point", "text"), Column("answer now", "text")]
        if self.colours:
            columns += [Column("probability"), Column("or", "text"), Column("probability of that")]
        reach = "Part of the answer that comes from labelled points"
        columns += [Column("reach of labels", about=reach), Column("why", "text")]
        explained = (
            "Points whose label would tell most: first one for each large part of the graph that has no label, then "
            "those whose label is expected to change the answers most. Points that would tell the same are not named "
            "twice. condiff label asks for them one by one."
        )
        rows = [self.suggestion(each) for each in suggestions]
        return [Text(explained), Table("Points to label next.", columns, rows)]

    def suggestion(self, it: Suggestion) -> list[Cell]:
        cells = [Cell(self.point(it.row)), Cell(self.answer(it.answer))]
        why = "far from labels"
        if it.probability is not None and it.rival_probability is not None:
            cells += [_percent(it.probability), Cell(self.answer(it.rival)), _percent(it.rival_probability)]
            why = "uncertain"
        if it.unreached:
            why = f"stands for {it.unreached:,} points without a label in reach"
        return [*cells, _percent(it.reach), Cell(why)]

    def issues(self) -> list[Block]:
        issues = self.found.label_issues()
        if not issues:
            return [Text("None: no held-out answer speaks against a given label, or too few could be held out.")]
        columns = [
            Column("point", "text"),
            Column("given label", "text"),
            Column("probability", about="By a model that had not seen the label"),
            Column("answer", "text"),
            Column("probability of that"),
            Column("among neighbours", about="Probability of the label on average over the neighbours"),
        ]
        rows = [
            [
                Cell(self.point(it.row)),
                Cell(self.answer(it.label)),
                _percent(it.probability),
                Cell(self.answer(it.answer)),
                _percent(it.answer_probability),
                _percent(it.neighbours),
            ]
            for it in issues[:_SUGGESTIONS]
        ]
        explained = "Each label was judged by a model that had not seen it and by its neighbours; the worst come first."
        return [Text(explained), Table(f"{len(rows)} of {len(issues)} given labels.", columns, rows)]

    def columns(self) -> list[Section]:
        """How much of the answers each column predicts, where there are several."""
        shares = column_shares(self.model)
        if not shares:
            return []
        what = "share of the points whose answer most of their ten nearest have"
        if not self.colours:
            what = "share of the answers' variance that the mean of the ten nearest explains"
        rows = [[Cell(name), _percent(share)] for name, share in list(shares.items())[:_SUGGESTIONS]]
        table = Table(
            "The best columns first.", [Column("column", "text"), Column("answers predicted", about=what)], rows
        )
        explained = f"By each column alone, the {what}. What columns say only together is not seen here."
        return [Section("Which columns mattered", [Text(explained), table])]

    def certificate(self) -> list[Block]:
        model, certificate = self.model, self.model.certificate_
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
        blocks: list[Block] = [Text(said), Pairs("The certificate of the graph", items)]
        if math.isfinite(certificate.stability_limit) and math.isfinite(certificate.positivity_limit):
            blocks.insert(1, limits(model.strength_, certificate.positivity_limit, certificate.stability_limit))
        return blocks

    def made(self) -> list[Block]:
        made, lines = self.metadata.get("made"), self.metadata.get("columns")
        blocks: list[Block] = [versions(made)] if isinstance(made, dict) else []
        if isinstance(lines, list) and lines:
            blocks.append(Bullets("Columns", [str(line) for line in lines]))
        shares = self.metadata.get("carried")
        if isinstance(shares, dict) and shares:
            told = [(str(name), f"{100 * float(share):.0f} %") for name, share in shares.items()]
            blocks.append(Pairs("Answers that neighbours by one part of the columns alone tell", told))
        simple = (str, int, float, bool, type(None))
        settings = {key: value for key, value in self.model.get_params(deep=False).items() if isinstance(value, simple)}
        return [*blocks, Bullets("Settings", [settings_code(settings)])]


def confusion(truth: NDArray[np.int64], answers: NDArray[np.int64], classes: list[str]) -> Table:
    """The confusion matrix: what was true by row, what was answered by column."""
    counts = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(counts, (truth, answers), 1)
    rows = [
        [Cell(name)]
        + [
            Cell(str(count), style="diagonal" if row == column else "", shade=count / max(int(counts[row].sum()), 1))
            for column, count in enumerate(counts[row].tolist())
        ]
        for row, name in enumerate(classes)
    ]
    caption = f"Confusion matrix: {int(np.trace(counts))} of {len(truth)} held-out labels answered correctly."
    columns = [Column("true", "text"), *(Column(name) for name in classes)]
    return Table(caption, columns, rows, style="confusion", sortable=False)


def _entry(entries: Any, row: int) -> str:
    """What a model's file says of a row, which may be anything; "" where it says nothing."""
    return str(entries[row]) if isinstance(entries, list) and row < len(entries) else ""


def _percent(part: float) -> Cell:
    return Cell(f"{100 * part:.1f} %", part)

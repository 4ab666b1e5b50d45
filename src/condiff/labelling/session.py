"""One labelling session: who is asked what, what was said, and a model that follows in the background."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from condiff.errors import CondiffError, InvalidInputError
from condiff.labelling.journal import Decision, Journal, Kind
from condiff.labelling.learner import Answers, Learner
from condiff.labelling.rows import Rows, codes_of
from condiff.readers.cells import MISSING_CELLS
from condiff.uncertainty.label_noise import trust
from condiff.uncertainty.suggestions import DEFAULT

# Questions that are chosen at once, and seconds for which a row is kept for the browser that shows it.
_QUESTIONS, _KEPT = 5, 600.0
# Classes that are shown with a row, labels that look wrong, and pairs of classes between which answers moved.
_CLASSES, _ISSUES, _MOVES = 9, 50, 3
_MOST_LETTERS = 200
# The chance below which a label is asked about.
_HARDLY = 0.1
# Labels that the page asks about, refits that show a trend, and the fewest labels for it.
_MORE, _TREND, _FEWEST = 10, 3, 10


class Conflict(CondiffError):
    """Somebody else has said something of the row since it was shown."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """What is known after a fit.

    Attributes
    ----------
    number, labels
        Which fit it is, and from how many labels.
    classes
        The columns of the answers.
    answers
        None while there are labels of fewer than two classes.
    questions
        Nodes to ask for, the best first.
    moved
        How many rows have another answer than after the fit before, and the most frequent moves.
    seconds
        How long it took.
    """

    number: int = 0
    labels: int = 0
    classes: tuple[str, ...] = ()
    answers: Answers | None = None
    questions: tuple[int, ...] = ()
    moved: tuple[int, tuple[tuple[str, str, int], ...]] = (0, ())
    seconds: float = 0.0


@dataclass(eq=False)
class Session:
    """Rows, what was said of them, and what the model makes of it.

    Parameters
    ----------
    rows, learner, journal
        What is labelled, what learns from it, and where decisions are kept.
    strategy
        Which rows are asked for.
    checks
        The share of questions that are drawn at random instead: on these the answers are measured.
    seed
        Of the draws.
    """

    rows: Rows
    learner: Learner
    journal: Journal
    strategy: str = DEFAULT
    checks: float = 0.2
    seed: int = 0
    fitted: Fitted = field(default_factory=Fitted)
    problem: str = ""
    _kept: dict[str, tuple[int, bool, float]] = field(default_factory=dict)
    _trend: list[tuple[int, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock, self._wanted = threading.RLock(), threading.Event()
        self._stopped = False
        self.labels: dict[int, str] = {row: label for row, label in enumerate(self.rows.given) if label}
        self.classes: list[str] = sorted(set(self.labels.values()), key=_natural)
        for decision in self.journal.decisions:
            self._take(decision)

    def _take(self, decision: Decision) -> None:
        label = self.rows.label(decision.row, decision)
        self.labels.pop(decision.row, None)
        if label:
            self.labels[decision.row] = label
            if label not in self.classes:
                self.classes.append(label)

    # ---- the model that follows ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fit once, then follow in the background."""
        self.refit()
        threading.Thread(target=self._follow, name="condiff-refit", daemon=True).start()

    def stop(self) -> None:
        """No more fits."""
        self._stopped = True
        self._wanted.set()

    def settle(self, patience: float = 60.0) -> None:
        """Wait until the model knows every label."""
        until = time.monotonic() + patience
        while time.monotonic() < until and self.fitted.number < self._due and not self.problem:
            time.sleep(0.01)

    _due = 0

    def _follow(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._stopped:
                return
            try:
                self.refit()
            except Exception as error:  # labels are safe on disk: the page says what went wrong and goes on
                self.problem = f"{type(error).__name__}: {error}"

    def refit(self) -> None:
        """Fit on what was said so far, and choose the next questions."""
        started = time.perf_counter()
        with self._lock:
            number, labels = max(self._due, self.fitted.number + 1), dict(self.labels)
            last = dict(self.journal.last)
            # What the table came with counts as a fair sample of it.
            fair = np.array([self.journal.is_fair(row) for row in labels], dtype=bool)
        of_row, n = self.learner.node_of_row, self.learner.domain.graph.n_nodes
        rows = np.array(list(labels), dtype=np.int64)
        names, codes = codes_of(labels.values())
        answers = self.learner.fit(of_row[rows], codes, len(names), fair) if len(rows) else None
        labelled, closed = np.zeros(n, bool), np.zeros(n, bool)
        labelled[of_row[rows]] = True
        closed[of_row[[row for row, said in last.items() if said.kind != "open"]]] = True
        asked = self.learner.suggest(labelled, answers, closed, _QUESTIONS, self.strategy, self.seed + number)
        moved = self._moved(tuple(names), answers)
        with self._lock:
            self.fitted = Fitted(
                number, len(rows), tuple(names), answers, tuple(asked.tolist()), moved, time.perf_counter() - started
            )
            if answers is not None:
                error = 1 - float(answers.plain.max(axis=1).mean())
                self._trend = [*(each for each in self._trend if each[0] < len(rows)), (len(rows), error)]
            self.problem = ""

    def _moved(self, names: tuple[str, ...], answers: Answers | None) -> tuple[int, tuple[tuple[str, str, int], ...]]:
        before = self.fitted
        if answers is None or before.answers is None:
            return 0, ()
        of_row = self.learner.node_of_row
        then = np.array(before.classes, dtype=object)[before.answers.chances.argmax(axis=1)][of_row]
        now = np.array(names, dtype=object)[answers.chances.argmax(axis=1)][of_row]
        changed = np.flatnonzero(then != now)
        pairs = Counter(zip(then[changed].tolist(), now[changed].tolist(), strict=True)).most_common(_MOVES)
        return len(changed), tuple((old, new, count) for (old, new), count in pairs)

    # ---- questions and answers -------------------------------------------------------------------------------------

    def next_row(self, who: str) -> int | None:
        """The row to show to a browser; None where every row was decided on."""
        with self._lock:
            now = time.monotonic()
            self._kept = {each: kept for each, kept in self._kept.items() if now - kept[2] < _KEPT}
            if who in self._kept and self._is_open(self._kept[who][0]):
                return self._kept[who][0]
            self._kept.pop(who, None)
            taken = {row for row, _, _ in self._kept.values()}
            decided = sum(last.kind == "label" and not last.undoes for last in self.journal.last.values())
            every = round(1 / self.checks) if self.checks > 0 else 0
            drawn = bool(every and self.classes and decided % every == every - 1)
            row = None if drawn else self._question(taken)
            row = self._any(taken) if row is None else row
            if row is not None:
                self._kept[who] = row, drawn or self.strategy == "random", now
            return row

    def _is_open(self, row: int) -> bool:
        last = self.journal.last.get(row)
        return row not in self.labels and (last is None or last.kind == "open")

    def _question(self, taken: set[int]) -> int | None:
        rows = [int(self.learner.row_of_node[node]) for node in self.fitted.questions]
        return next((row for row in rows if row not in taken and self._is_open(row)), None)

    def _any(self, taken: set[int]) -> int | None:
        """A row drawn at random: the same until something is said, whoever asks."""
        order = np.random.default_rng([self.seed, len(self.journal.decisions)]).permutation(len(self.rows))
        open_rows = (int(row) for row in order if int(row) not in taken and self._is_open(int(row)))
        skipped = (int(row) for row, last in self.journal.last.items() if last.kind == "skip" and row not in taken)
        return next(open_rows, next(skipped, None))

    def act(self, who: str, row: int, seen: int, kind: Kind, label: str = "") -> Decision:
        """Put on disk what a browser says of a row, unless somebody else has since it was shown.

        Parameters
        ----------
        who
            The browser.
        row, seen
            The row, and the number of the last decision about it when it was shown; 0 for none.
        kind, label
            What is said.
        """
        label = " ".join(label.split()) if kind == "label" else ""
        if kind == "label":
            _check_label(label)
        if not 0 <= row < len(self.rows):
            raise InvalidInputError(f"there is no row {row + 1}")
        with self._lock:
            last = self.journal.last.get(row)
            if (last.number if last else 0) != seen:
                raise Conflict(f"row {row + 1} was decided on elsewhere meanwhile ({self._said(row)}): look again")
            kept = self._kept.get(who)
            drawn = bool(kept and kept[0] == row and kept[1])
            decision = self.journal.write(row, kind, label, who, drawn=drawn)
            self._changed(who, decision)
            return decision

    def undo(self, who: str) -> Decision | None:
        """Take back what a browser said last."""
        with self._lock:
            decision = self.journal.undo(who)
            if decision is not None:
                undone = self.journal.decisions[decision.undoes - 1]
                self._changed(who, decision)
                self._kept[who] = decision.row, undone.drawn, time.monotonic()
            return decision

    def _changed(self, who: str, decision: Decision) -> None:
        self._kept.pop(who, None)
        self._take(decision)
        self._due = max(self._due, self.fitted.number) + 1
        self._wanted.set()

    def _said(self, row: int) -> str:
        last = self.journal.last.get(row)
        return self.labels.get(row) or (last.kind if last else "nothing yet")

    def export(self, out: Path) -> int:
        """Write the table with its labels; returns how many there are."""
        with self._lock:
            return self.rows.export(out, self.journal)

    # ---- what the page shows ---------------------------------------------------------------------------------------

    def card(self, row: int) -> dict[str, Any]:
        """A row with all that helps to decide on it."""
        with self._lock:
            last, fitted = self.journal.last.get(row), self.fitted
            kept = next((drawn for shown, drawn, _ in self._kept.values() if shown == row), False)
            said = {"kind": last.kind if last else "open", "label": self.labels.get(row, "")}
        node = int(self.learner.node_of_row[row])
        neighbours = [
            {
                **self.rows.brief(int(self.learner.row_of_node[other])),
                "share": share,
                "answers": self._answers(fitted, other)[:1],
                "label": self._label_at(other),
            }
            for other, share in self.learner.neighbours(node)
        ]
        return {
            **self.rows.look(row),
            "row": row,
            "seen": last.number if last else 0,
            "given": self.rows.given[row],
            "said": said,
            "drawn": kept,
            "answers": self._answers(fitted, node)[:_CLASSES],
            "neighbours": neighbours,
        }

    def _label_at(self, node: int) -> str:
        return self.labels.get(int(self.learner.row_of_node[node]), "")

    def _answers(self, fitted: Fitted, node: int) -> list[tuple[str, float]]:
        if fitted.answers is None:
            return []
        chances = fitted.answers.plain[node]
        order = np.argsort(-chances, kind="stable")
        return [(fitted.classes[code], float(chances[code])) for code in order.tolist()]

    def state(self) -> dict[str, Any]:
        """How far it is, and how good."""
        with self._lock:
            counts = Counter(self.labels.values())
            kinds = Counter(last.kind for last in self.journal.last.values())
            fitted, gain = self.fitted, self._gain()
            changed, flows = fitted.moved
            score = None if fitted.answers is None else fitted.answers.score
            return {
                "rows": len(self.rows),
                "labelled": len(self.labels),
                "given": sum(map(bool, self.rows.given)),
                "unsure": kinds["unsure"],
                "none": kinds["none"],
                "skipped": kinds["skip"],
                "classes": [[name, counts[name]] for name in self.classes],
                "fit": fitted.number,
                "busy": fitted.number < self._due,
                "seconds": round(fitted.seconds, 2),
                "problem": self.problem,
                "score": None if score is None else asdict(score),
                "moved": {"rows": changed, "flows": [list(each) for each in flows]},
                "gain": gain,
            }

    def _gain(self) -> float | None:
        """Points of accuracy that ten more labels may bring, if errors fall with labels as they have so far."""
        trend = self._trend[-8:]
        if len(trend) < _TREND or trend[-1][0] < _FEWEST:
            return None
        count, error = np.array(trend).T
        slope = np.polyfit(np.log(count), np.log(np.maximum(error, 1e-6)), 1)[0]
        return float(100 * error[-1] * max(0.0, 1 - (count[-1] / (count[-1] + _MORE)) ** min(-slope, 2.0)))

    def issues(self) -> list[dict[str, Any]]:
        """Labels that look wrong, the worst first."""
        with self._lock:
            fitted = self.fitted
        answers = fitted.answers
        if answers is None or not len(answers.held_out):
            return []
        nodes, codes = answers.held_out, answers.codes
        weights = self.learner.domain.graph.weights[nodes]
        around = weights @ answers.plain / np.maximum(weights.sum(axis=1), 1e-300)[:, None]
        # With few labels many are answered otherwise without being wrong: the answer must leave them hardly a chance.
        own = answers.judged[np.arange(len(codes)), codes]
        wrong = ((answers.judged * around).argmax(axis=1) != codes) & (own < _HARDLY)
        found: list[dict[str, Any]] = []
        for at in np.argsort(trust(answers.judged, around, codes), kind="stable").tolist():
            row, label = int(self.learner.row_of_node[nodes[at]]), fitted.classes[codes[at]]
            if wrong[at] and self.labels.get(row) == label and len(found) < _ISSUES:
                best = int(answers.judged[at].argmax())
                said = {"label": label, "chance": float(answers.judged[at, codes[at]])}
                found.append(
                    {
                        **self.rows.brief(row),
                        **said,
                        "answer": fitted.classes[best],
                        "answer_chance": float(answers.judged[at, best]),
                    }
                )
        return found


def _check_label(label: str) -> None:
    if not label:
        raise InvalidInputError("a class needs a name")
    if len(label) > _MOST_LETTERS or not label.isprintable():
        raise InvalidInputError(f"a class's name is at most {_MOST_LETTERS} letters, all of them printable")
    if label in MISSING_CELLS:
        raise InvalidInputError(f"{label!r} stands for no value in a table: choose another name")


def _natural(label: str) -> tuple[float, str]:
    """Numbers in their order, then words."""
    try:
        return float(label), label
    except ValueError:
        return math.inf, label

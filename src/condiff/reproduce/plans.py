"""From what a user asks to reproduce to the jobs that do it: one plan for each of the paper's applications."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from condiff.errors import InvalidInputError
from condiff.reproduce import figures
from condiff.reproduce.blocks import TASKS
from condiff.reproduce.datasets import covid as panels
from condiff.reproduce.episodes import Episodes, Labelled, Sizes, draw_episodes, read_episodes, write_episodes
from condiff.reproduce.genes import leading_alterations
from condiff.reproduce.pairs import Pair, paired, pairs_markdown
from condiff.reproduce.pretraining import trained_methods as episodic
from condiff.reproduce.protocols import covid, fewshot, node, prostate
from condiff.reproduce.protocols import episodic as episodic_jobs
from condiff.reproduce.rows import Row
from condiff.reproduce.runner import Job
from condiff.reproduce.runs import Run
from condiff.reproduce.splits import random_splits, read_splits, write_splits

#: Draws the pictures of a task's runs, and of the rows that sum them up, into a folder.
Draw = Callable[[Sequence[Run], Sequence[Row], Path], None]


@dataclass(frozen=True)
class FewShotWish:
    """What a user asks of few-shot tasks; None is the protocol's own number.

    Attributes
    ----------
    features
        The file of features of the novel classes.
    shot, ways, queries
        Labelled images a class, classes, and queries a class.
    tasks
        How many tasks.
    unbalanced
        Draw the classes' shares of the queries.
    dataset, backbone
        The images of methods that are trained on episodes, and what these begin from: ``conv4``, or a trained one.
    episodic
        Train methods on episodes.
    episodes
        How many of them.
    """

    features: Path | None = None
    shot: int | None = None
    ways: int | None = None
    queries: int | None = None
    tasks: int | None = None
    unbalanced: bool = False
    dataset: str | None = None
    backbone: str | None = None
    episodic: bool = False
    episodes: int | None = None


@dataclass(frozen=True)
class Wish:
    """What a user asks for; None is the protocol's own number.

    Attributes
    ----------
    targets
        Data sets, all of one application.
    methods
        With commas between, or ``all``.
    changes
        ``[METHOD.]NAME=VALUE`` each.
    splits, inits
        Random splits (masks of hidden entries, for COVID-19), and initialisations of each.
    per_class
        Training and validation nodes of each class.
    import_splits, export_splits
        Files of the splits of one graph, or of few-shot tasks.
    missing
        The part of a panel's entries that is hidden.
    causal
        Standardise by training days alone.
    fewshot
        What concerns few-shot tasks.
    """

    targets: tuple[str, ...]
    methods: str = "COIN"
    changes: tuple[str, ...] = ()
    splits: int | None = None
    inits: int | None = None
    per_class: tuple[int, int] | None = None
    import_splits: Path | None = None
    export_splits: Path | None = None
    missing: float | None = None
    causal: bool = False
    fewshot: FewShotWish = FewShotWish()


@dataclass(frozen=True)
class Plan:
    """The jobs, what the table shows of them, the pictures, the splits for the record, and texts beside the table."""

    task: str
    metrics: tuple[str, ...]
    jobs: list[Job]
    draw: Draw
    splits: list[dict[str, Any]] = field(default_factory=list)
    texts: Callable[[Sequence[Run]], dict[str, str]] = lambda runs: {}
    #: What has to be there before these of the jobs can run; told of as it goes on.
    prepare: Callable[[Executor, Sequence[Job], Callable[[str], None]], None] = lambda pool, missing, tell: None


def plan(wish: Wish) -> Plan:
    """The plan of the application that the targets belong to."""
    named = [target for target in wish.targets if target in _PLANS]
    if not named:
        return _node(wish)
    if len(wish.targets) > 1:
        raise InvalidInputError(f"{named[0]} is a benchmark of its own: run it without other targets")
    return _PLANS[named[0]](wish)


def _node(wish: Wish) -> Plan:
    from condiff.reproduce.baselines.node import REGISTRY

    _refuse(wish, "a graph", "missing", "causal", "fewshot")
    if (wish.import_splits or wish.export_splits) and len(wish.targets) > 1:
        raise InvalidInputError("splits are of one graph: give one target with --import-splits or --export-splits")
    train, validation = wish.per_class or (20, 30)
    jobs: list[Job] = []
    drawn: list[dict[str, Any]] = []
    for target in wish.targets:
        dataset = node.load(target)
        splits = (
            read_splits(wish.import_splits, dataset.labels)
            if wish.import_splits
            else random_splits(
                dataset.labels, wish.splits or 10, train_per_class=train, validation_per_class=validation
            )
        )
        if wish.export_splits:
            write_splits(wish.export_splits, splits, dataset.name, dataset.labels)
        drawn += [{"dataset": dataset.name, "seed": seed, "hash": split.hash} for seed, split in splits.items()]
        methods = REGISTRY.chosen(wish.methods, Path(target).stem, wish.changes)
        jobs += node.jobs(target, methods, splits, wish.inits or 2)
    return Plan("node", (node.METRIC,), jobs, _draw_node, drawn)


def _draw_node(runs: Sequence[Run], rows: Sequence[Row], folder: Path) -> None:
    figures.accuracy_intervals(rows, folder / "accuracy.png")
    figures.time_complexity(rows, folder / "time.png")
    figures.memory_bars(rows, folder / "memory.png")


def _covid(wish: Wish) -> Plan:
    from condiff.reproduce.baselines.temporal import REGISTRY

    _refuse(wish, "covid", "per_class", "import_splits", "export_splits", "fewshot")
    rate = covid.RATE if wish.missing is None else wish.missing
    methods = REGISTRY.chosen(wish.methods, "covid", wish.changes)
    masks = covid.mask_seeds(wish.splits or covid.MASKS)
    jobs = covid.jobs(methods, masks, wish.inits or covid.INITS, rate=rate, causal=wish.causal)
    drawn = [{"dataset": covid.dataset_name(rate, causal=wish.causal), "seed": seed} for seed in masks]
    shown = [job for job in jobs if (job.seed, job.init) == (masks[0], 0) and job.name in _FORECASTS] or jobs[:1]
    return Plan("covid", (covid.METRIC,), list(jobs), partial(_draw_covid, shown), drawn)


# Methods whose forecasts are drawn: more lines could not be told apart.
_FORECASTS = ("LastValue", "GCN", "COIN")


def _draw_covid(shown: Sequence[covid.CovidJob], runs: Sequence[Run], rows: Sequence[Row], folder: Path) -> None:
    figures.case_forecasts(covid.forecasts(shown), folder / "forecasts.png")
    papers = {covid.dataset_name(), covid.dataset_name(causal=True)}
    figures.accuracy_intervals([row for row in rows if row.dataset in papers] or rows, folder / "intervals.png")
    looking_ahead = [row for row in rows if not row.dataset.endswith("-causal")]
    if len({row.dataset for row in looking_ahead}) > 2:
        figures.error_against_missing(looking_ahead, folder / "missing.png")
    figures.region_map(panels.load(), folder / "regions.png")


def _prostate(wish: Wish) -> Plan:
    from condiff.reproduce.baselines.tabular import REGISTRY

    _refuse(wish, "prostate", "per_class", "import_splits", "export_splits", "missing", "causal", "fewshot")
    splits = prostate.splits(wish.splits or prostate.SPLITS)
    jobs = prostate.jobs(REGISTRY.chosen(wish.methods, "prostate", wish.changes), splits, wish.inits or prostate.INITS)
    drawn = [{"dataset": prostate.DATASET, "seed": seed, "hash": split.hash} for seed, split in splits.items()]
    return Plan("prostate", prostate.METRICS, list(jobs), _draw_prostate, drawn, _prostate_pairs)


def _draw_prostate(runs: Sequence[Run], rows: Sequence[Row], folder: Path) -> None:
    for name in prostate.METRICS:
        figures.accuracy_intervals([row for row in rows if row.metric == name], folder / f"{name}.png")
    figures.roc_and_pr_curves(runs, folder / "curves.png")
    figures.gene_bars(leading_alterations(prostate.load(), 10), folder / "genes.png")


def _prostate_pairs(runs: Sequence[Run]) -> dict[str, str]:
    pairs = _pairs(runs, prostate.METRICS)
    return {"pairs.md": pairs_markdown(pairs) + "\n", "pairs.json": _pairs_json(pairs)} if pairs else {}


def _pairs(runs: Sequence[Run], metrics: Sequence[str]) -> list[Pair]:
    """COIN, or what there is most of, against every other method, split by split."""
    names = [run.method for run in runs]
    return paired(runs, metrics, "COIN" if "COIN" in names else max(names, key=names.count))


def _pairs_json(pairs: Sequence[Pair]) -> str:
    return json.dumps([pair.to_dict() for pair in pairs], indent=2) + "\n"


def _fewshot(wish: Wish) -> Plan:
    from condiff.reproduce.baselines.fewshot import REGISTRY

    _refuse(wish, "fewshot", "splits", "inits", "per_class", "missing", "causal")
    asked = wish.fewshot
    if asked.episodic:
        return _episodic(wish)
    if asked.episodes:
        raise InvalidInputError("--episodes is for methods that are trained on them: give --episodic as well")
    if asked.features is None:
        raise InvalidInputError("few-shot tasks need features: give --features FILE.npz, or --dataset cub|omniglot|DIR")
    features = fewshot.load(str(asked.features))
    episodes = _tasks(wish, features)
    methods = REGISTRY.chosen(wish.methods, fewshot.dataset_name(features, episodes.sizes), wish.changes)
    jobs = fewshot.jobs(asked.features, methods, episodes)
    blocks = {job.first: job for job in jobs}
    drawn = [{"dataset": job.dataset, "seed": first, "hash": job.episodes.hash} for first, job in blocks.items()]
    return Plan("fewshot", (fewshot.METRIC,), list(jobs), _draw_fewshot, drawn, _fewshot_pairs)


def _episodic(wish: Wish) -> Plan:
    from condiff.reproduce.baselines.fewshot.episodic import REGISTRY

    asked = wish.fewshot
    if asked.dataset is None or asked.features is not None:
        raise InvalidInputError("--episodic trains on images: give --dataset cub|omniglot|DIR, and no --features")
    initial = None if asked.backbone in (None, "conv4") else asked.backbone
    if initial is not None and not Path(initial).is_dir():
        raise InvalidInputError(
            f"--episodic is for conv4, or a folder of `condiff backbone train --backbone conv4` to begin from, "
            f"not {initial!r}"
        )
    episodes = _tasks(wish, episodic.load(asked.dataset, "novel"))
    changes = wish.changes if asked.episodes is None else (*wish.changes, f"training.episodes={asked.episodes}")
    methods = REGISTRY.chosen(wish.methods, episodic_jobs.title_of(asked.dataset, episodes), changes)
    jobs = episodic_jobs.jobs(asked.dataset, methods, episodes, initial)
    blocks = {job.first: job for job in jobs}
    drawn = [{"dataset": job.dataset, "seed": first, "hash": job.episodes.hash} for first, job in blocks.items()]
    return Plan(
        "fewshot",
        (fewshot.METRIC,),
        list(jobs),
        _draw_fewshot,
        drawn,
        episodic_jobs.training_table,
        episodic_jobs.prepare,
    )


def _tasks(wish: Wish, source: Labelled) -> Episodes:
    """The novel tasks that a user asks for, drawn or imported, and exported where that is asked for too."""
    asked = wish.fewshot
    if wish.import_splits:
        if fixed := [name for name in ("shot", "ways", "queries", "tasks", "unbalanced") if getattr(asked, name)]:
            raise InvalidInputError(f"the file of --import-splits fixes the tasks: leave out --{', --'.join(fixed)}")
        episodes = read_episodes(wish.import_splits, source)
    else:
        concentration = fewshot.CONCENTRATION if asked.unbalanced else None
        sizes = Sizes(asked.ways or 5, asked.shot or 1, asked.queries or 15, concentration)
        episodes = draw_episodes(source, sizes, asked.tasks or fewshot.TASKS)
    if wish.export_splits:
        write_episodes(wish.export_splits, episodes, source)
    return episodes


def _fewshot_pairs(runs: Sequence[Run]) -> dict[str, str]:
    """Methods compared on the same tasks, for every kind of task by itself."""
    texts, found = [], []
    blocks = [run for run in runs if run.metrics.get(TASKS) == fewshot.BLOCK]
    for dataset in dict.fromkeys(run.dataset for run in blocks):
        pairs = _pairs([run for run in blocks if run.dataset == dataset], (fewshot.METRIC,))
        if pairs:
            about = (
                f"{dataset}: differences over blocks of {fewshot.BLOCK} tasks that both were run on, ± standard error"
            )
            texts.append(f"{about}.\n\n{pairs_markdown(pairs)}\n")
            found += pairs
    return {"pairs.md": "\n".join(texts), "pairs.json": _pairs_json(found)} if found else {}


def _draw_fewshot(runs: Sequence[Run], rows: Sequence[Row], folder: Path) -> None:
    # Other methods are trained on episodes than work on given features: a picture for each kind.
    for name, trained in (("accuracy", False), ("episodic", True)):
        if shown := [row for row in rows if (episodic_jobs.MARK in row.dataset) == trained]:
            figures.accuracy_intervals(shown, folder / f"{name}.png")
    if figures.with_and_without_balance(rows):
        figures.balance_bars(rows, folder / "balance.png")


_PLANS: dict[str, Callable[[Wish], Plan]] = {"covid": _covid, "prostate": _prostate, "fewshot": _fewshot}


def _refuse(wish: Wish, target: str, *names: str) -> None:
    """Say of options that mean nothing here, rather than pass over them."""
    given = [name for name in names if name != "fewshot" and getattr(wish, name)]
    if "fewshot" in names:
        given += [part.name for part in fields(wish.fewshot) if getattr(wish.fewshot, part.name)]
    for name in given:
        option = "--train-per-class and --validation-per-class" if name == "per_class" else f"--{name}"
        raise InvalidInputError(f"{option.replace('_', '-')} means nothing for {target}: leave it out")

"""Migrates stores of the first layout, which spelled conditions in the names of data sets, to the second.

Names are parsed here and nowhere else, once for each file.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable

from condiff.reproduce.runs import NO_CONDITION, Condition, Key, canonical

_COVID = re.compile(r"england-(?P<percent>[\d.]+)-missing(?P<causal>-causal)?")
_FEWSHOT = re.compile(
    r"(?P<name>.+?)(?P<episodic>-conv4-episodic)?(?:-(?P<ways>\d+)way)?-(?P<shots>\d+)shot(?:-(?P<queries>\d+)queries)?"
    r"(?:-unbalanced|-dirichlet(?P<concentration>[\d.e+-]+))?"
)
_BACKBONES = ("conv4", "resnet18", "wrn28_10", "efficientnet_lite0")


def split_features_name(name: str) -> tuple[str, str | None]:
    """Data set and backbone in the name of features, such as ``cub-resnet18``; no backbone where none is known."""
    dataset, _, backbone = name.removesuffix("-novel").rpartition("-")
    return (dataset, backbone) if dataset and backbone in _BACKBONES else (name.removesuffix("-novel"), None)


def split_name(task: str, name: str, command: str = "") -> tuple[str, Condition]:
    """The data set and the condition that a name of the first layout stands for.

    Parameters
    ----------
    task, name
        As they were stored.
    command
        What made the run: numbers of nodes per class were in no name.
    """
    if task == "node":
        sizes = {"train_per_class": 20, "validation_per_class": 30}
        for option in sizes:
            if given := re.search(rf"--{option.replace('_', '-')}[= ](\d+)", command):
                sizes[option] = int(given[1])
        return name, Condition(sizes)
    if task == "covid" and (found := _COVID.fullmatch(name)):
        return "england", Condition(missing=_share(found["percent"]), causal=bool(found["causal"]))
    if task == "prostate" and name == "p1000-20-train":
        return "p1000", Condition(train=20, validation=100)
    if task == "fewshot" and (found := _FEWSHOT.fullmatch(name)):
        episodic = bool(found["episodic"])
        dataset, backbone = (found["name"], "conv4") if episodic else split_features_name(found["name"])
        unbalanced = name.endswith("-unbalanced")
        return dataset, Condition(
            backbone=backbone,
            episodic=episodic,
            ways=int(found["ways"] or 5),
            shots=int(found["shots"]),
            queries=int(found["queries"] or 15),
            concentration=2.0 if unbalanced else float(found["concentration"]) if found["concentration"] else None,
        )
    return name, NO_CONDITION


def migrate(connection: sqlite3.Connection, create: Callable[[], None]) -> None:
    """Move the runs of the first layout to the second, within the caller's transaction.

    Parameters
    ----------
    connection
        To a store of the first layout.
    create
        Makes the tables of the second.
    """
    connection.execute("ALTER TABLE runs RENAME TO old_runs")
    create()
    makers: dict[str, int] = {}
    columns = "task, dataset, method, settings, split, init, identity, metrics, epochs, seconds, memory_mb, made"
    for row in connection.execute(f"SELECT {columns} FROM old_runs").fetchall():
        task, name, method, settings, split, init, identity, *measured, made = row
        if made not in makers:
            makers[made] = len(makers) + 1
            connection.execute("INSERT INTO makers (id, made) VALUES (?, ?)", (makers[made], made))
        dataset, condition = split_name(task, name, json.loads(made).get("command", ""))
        key = Key(task, dataset, method, json.loads(settings), split, init, identity, condition)
        names = (key.digest, task, dataset, canonical(dict(condition)), method, settings, split, init)
        connection.execute(
            "INSERT INTO runs (key, task, dataset, condition, method, settings, split, init, metrics, epochs, seconds, "
            f"memory_mb, identity, maker) VALUES ({', '.join('?' * 14)})",
            (*names, *measured, identity, makers[made]),
        )
    connection.execute("DROP TABLE old_runs")


def _share(percent: str) -> float:
    # Ten decimals: 12.5 is 0.125, and 90 is 0.9 to the last digit.
    return round(float(percent) / 100, 10)

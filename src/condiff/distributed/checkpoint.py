"""Where a sharded fit stands, on disk: weights and optimiser in safetensors, the rest in JSON; never a pickle.

Weights, moments and the state of early stopping are the same on every rank and do not depend on the partition, so a fit
resumes with any number of ranks. ``fit.json`` names its file of tensors and is written last: a fit that was stopped at
any moment leaves a folder that is whole.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save_file
from torch import Tensor

from condiff.distributed.group import Ranks
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import atomic_path, read_json, refusing, sha256, write_text

FORMAT = "condiff-sharded-fit"
SCHEMA = 1
_RECORD = "fit.json"


@dataclass
class Record:
    """What is known of a fit besides its tensors.

    Attributes
    ----------
    facts
        The problem and the settings; a fit resumes only where they are the same.
    losses
        The training loss of every finished epoch.
    best_loss, best_score, best_epoch
        What early stopping has seen; None and -1 before the first progress.
    finished
        Whether there is nothing left to do.
    tensors, checksum
        The file of tensors and its SHA-256.
    """

    facts: dict[str, Any]
    losses: list[float] = field(default_factory=list)
    best_loss: float | None = None
    best_score: float | None = None
    best_epoch: int = -1
    finished: bool = False
    tensors: str = ""
    checksum: str = ""


def save(folder: Path, record: Record, tensors: dict[str, Tensor]) -> None:
    """Write a checkpoint, then remove the one before."""
    record.tensors = f"epoch-{len(record.losses):06d}.safetensors"
    with atomic_path(folder / record.tensors) as temporary:
        save_file({name: value.detach().contiguous() for name, value in tensors.items()}, temporary)
    record.checksum = sha256(folder / record.tensors)
    content = {"format": FORMAT, "schema": SCHEMA, **vars(record)}
    write_text(folder / _RECORD, json.dumps(content, indent=2, allow_nan=False) + "\n")
    for path in folder.glob("epoch-*.safetensors"):
        if path.name != record.tensors:
            path.unlink()


def load_shared(folder: Path, ranks: Ranks) -> tuple[Record, dict[str, Tensor]] | None:
    """The checkpoint in a folder, or None where there is none yet; only the first rank needs to see the folder."""
    problem, content, tensors = None, None, None
    if ranks.first:
        try:
            content, tensors = _read(folder)
        except (InvalidFileError, InvalidInputError) as error:
            problem = str(error)
    ranks.agree(problem)
    content, tensors = ranks.broadcast(content), ranks.broadcast(tensors)
    if content is None or tensors is None:
        return None
    return Record(**json.loads(content)), load(tensors)


def _read(folder: Path) -> tuple[bytes | None, bytes | None]:
    path = folder / _RECORD
    if not path.is_file():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            leftovers = folder.is_dir() and all(
                file.name.startswith((".", "epoch-")) for file in folder.iterdir()
            )  # of a fit that was stopped while it wrote its first checkpoint
            if not leftovers:
                raise InvalidInputError(f"{folder} exists and is not a sharded fit; choose another name or remove it")
        return None, None
    with refusing(path, "the record of a sharded fit", f"remove {folder} and fit again"):
        content = read_json(path, f"remove {folder} and fit again")
        if content.pop("format") != FORMAT or content.pop("schema") != SCHEMA:
            raise InvalidFileError(f"{path} is not of this version's fits; choose another folder")
        record = Record(**content)
        _check(record)
        tensors = (folder / record.tensors).read_bytes()
        if hashlib.sha256(tensors).hexdigest() != record.checksum:
            raise InvalidFileError(f"{folder / record.tensors} was cut off or changed; remove {folder} and fit again")
        load(tensors)
    return json.dumps(content).encode(), tensors


def _check(record: Record) -> None:
    """Raise where a record is not what :func:`save` writes."""
    numbers = [*record.losses, *(each for each in (record.best_loss, record.best_score) if each is not None)]
    sound = isinstance(record.facts, dict) and isinstance(record.losses, list) and isinstance(record.finished, bool)
    sound = sound and all(isinstance(each, float | int) for each in numbers) and type(record.best_epoch) is int
    if not sound or not -1 <= record.best_epoch < max(1, len(record.losses)):
        raise TypeError("a part has the wrong kind")
    if Path(record.tensors).name != record.tensors:
        raise ValueError("its tensors are outside of the folder")


def check_same(record: Record, facts: dict[str, Any], folder: Path) -> None:
    """Raise where a fit would resume with another problem or other settings."""
    for key in facts.keys() | record.facts.keys():
        before, now = record.facts.get(key), facts.get(key)
        if before != now:
            raise InvalidInputError(
                f"{folder} holds a fit with another {key} ({before}, now {now}); give the same one to resume, or "
                "another folder"
            )


def pack(base: torch.nn.Module, best: dict[str, Tensor], optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything that a fit needs to resume, by name."""
    tensors = {f"base.{name}": value for name, value in base.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": value for name, value in state.items() if isinstance(value, Tensor)}
    return tensors


def unpack(
    tensors: dict[str, Tensor], base: torch.nn.Module, optimiser: torch.optim.Optimizer | None = None
) -> dict[str, Tensor]:
    """Put the weights, and the optimiser's state, back; the best weights are returned."""
    parts: dict[str, dict[str, Tensor]] = {"base": {}, "best": {}, "optimiser": {}}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        parts.setdefault(kind, {})[rest] = value
    try:
        base.load_state_dict(parts["base"])
        if optimiser is not None:
            whole = optimiser.state_dict()
            for name, value in parts["optimiser"].items():
                number, _, rest = name.partition(".")
                whole["state"].setdefault(int(number), {})[rest] = value
            optimiser.load_state_dict(whole)
    except (RuntimeError, ValueError) as error:
        raise InvalidFileError(f"the tensors do not fit the network ({error}); fit again") from error
    return parts["best"]

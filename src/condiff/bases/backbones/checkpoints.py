"""Backbones in training as folders: tensors in safetensors, the rest in JSON with checksums; never a pickle.

``backbone.json`` names the files that belong together and is written last, so a training that was stopped at any moment
leaves a folder that is whole: the one of its last finished epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from condiff.bases.backbones.base import Backbone
from condiff.bases.backbones.registry import backbone
from condiff.errors import InvalidFileError
from condiff.files import atomic_path, read_sealed, refusing, sha256, write_sealed

FORMAT = "condiff-backbone"
SCHEMA = 1
_DESCRIPTION = "backbone.json"


@dataclass
class Record:
    """What is known of a training besides its tensors.

    Attributes
    ----------
    backbone
        Name, channels and size, from which the network is made again.
    facts
        Settings and data: a training goes on only where they are the same.
    epochs
        Finished epochs: a dict each with ``epoch``, ``loss`` and, where it was measured, ``accuracy`` on the validation
        classes.
    best_epoch, best_accuracy
        The epoch whose weights are kept; None before the first measurement.
    files
        Checksums of the files with the kept weights (``best-*``) and with the state to go on from (``state-*``).
    """

    backbone: dict[str, Any]
    facts: dict[str, Any]
    epochs: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int | None = None
    best_accuracy: float | None = None
    files: dict[str, str] = field(default_factory=dict)

    def file(self, kind: str) -> str | None:
        """The name of the ``best`` or ``state`` file."""
        return next((name for name in self.files if name.startswith(f"{kind}-")), None)


def describe(network: Backbone) -> dict[str, Any]:
    """What :func:`load_backbone` needs to make a network again."""
    return {"name": network.name, "in_channels": network.in_channels, "size": network.size}


def save_checkpoint(folder: Path, record: Record, state: dict[str, Tensor], best: dict[str, Tensor] | None) -> None:
    """Write the state after an epoch and, with ``best``, the weights to keep; then let go of what they replace."""
    epoch = len(record.epochs)
    for kind, tensors in (("state", state), ("best", best)):
        if tensors is None:
            continue
        previous = record.file(kind)
        if previous is not None:
            del record.files[previous]
        name = f"{kind}-{epoch:04d}.safetensors"
        with atomic_path(folder / name) as temporary:
            save_file({key: value.detach().contiguous() for key, value in tensors.items()}, temporary)
        record.files[name] = sha256(folder / name)
    write_sealed(folder / _DESCRIPTION, {"format": FORMAT, "schema": SCHEMA, **vars(record)})
    for path in [*folder.glob("state-*.safetensors"), *folder.glob("best-*.safetensors")]:
        if path.name not in record.files:
            path.unlink()


def load_record(folder: Path) -> Record:
    """The record of a folder that :func:`save_checkpoint` wrote; a changed or foreign one is refused."""
    content = read_sealed(folder / _DESCRIPTION, FORMAT, SCHEMA, what="backbone", mend="train the backbone again")
    del content["format"], content["schema"]
    with refusing(folder / _DESCRIPTION, "the record of a training", "train the backbone again"):
        record = Record(**content)
        parts = record.backbone, record.facts, record.files
        if not all(isinstance(part, dict) for part in parts) or not isinstance(record.epochs, list):
            raise TypeError("a part is missing")
        if any(Path(name).name != name for name in record.files):
            raise ValueError("a file is outside of the folder")
    return record


def load_tensors(folder: Path, record: Record, kind: str) -> dict[str, Tensor]:
    """The tensors of the ``best`` or ``state`` file, checked."""
    name = record.file(kind)
    if name is None:
        raise InvalidFileError(f"{folder} has no {kind} weights yet: let the training reach its first validation")
    path = folder / name
    if not path.is_file() or sha256(path) != record.files[name]:
        raise InvalidFileError(f"{path} is missing, truncated or changed; train the backbone again")
    with refusing(path, "a file of weights", "train the backbone again"):
        return load_file(path)


def load_backbone(folder: Path | str) -> Backbone:
    """The backbone of a training with the weights of its best epoch, ready to embed images."""
    folder = Path(folder)
    record = load_record(folder)
    with refusing(folder, "a backbone that its weights fit", "train it again"):
        tensors = load_tensors(folder, record, "best")
        # Made without memory first: a record may ask for a network of any size.
        with torch.device("meta"):
            shapes = {name: value.shape for name, value in backbone(**record.backbone).state_dict().items()}
        if {name: value.shape for name, value in tensors.items()} != shapes:
            raise ValueError("weights of other shapes")
        network = backbone(**record.backbone)
        network.load_state_dict(tensors)
    return network.eval()

"""TabPFN, first edition (Hollmann, Müller, Eggensperger and Hutter, ICLR 2023): a transformer that was taught to learn.

Neither its code nor its weights are part of condiff. The code is the package ``tabpfn`` of version 0.1.11, installed
without what it depends on; the weights are one file of the archive of version 0.1, put into the cache or into the
folder of ``CONDIFF_DATA``. docs/alternatives.md has the commands.
"""

from __future__ import annotations

import importlib.util
import typing
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from condiff.errors import MissingDependencyError
from condiff.files import cache_folder
from condiff.reproduce.baselines.tables.method import Array, TableMethod, TableProblem
from condiff.reproduce.datasets.ordinary_tables import Task
from condiff.reproduce.datasets.sources import data_folder

WEIGHTS = Path("tabpfn/prior_diff_real_checkpoint_n_0_epoch_42.cpkt")
_MOST_FEATURES, _MOST_CLASSES = 100, 10


@dataclass(frozen=True)
class TabPFN(TableMethod):
    """The published network with the authors' preprocessing; at most 100 features and 10 classes.

    Parameters
    ----------
    configurations
        Orders of features and classes to average over: the authors' default.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("classes",)
    general: ClassVar[bool] = False
    configurations: int = 3

    @classmethod
    def missing(cls) -> str | None:
        if importlib.util.find_spec("tabpfn") is None:
            return "it needs tabpfn: pip install --no-deps tabpfn==0.1.11"
        where = cache_folder() / WEIGHTS.parent
        return None if _weights() else f"its weights are not there: put {WEIGHTS.name} into {where}"

    def refuses(self, n_features: int, n_classes: int) -> bool:
        return n_features > _MOST_FEATURES or n_classes > _MOST_CLASSES

    def answers(self, problem: TableProblem, seed: int) -> Array:
        model, config = _network()
        package: Any = import_module("tabpfn.scripts.transformer_prediction_interface")
        # Checkpoints save memory for gradients, of which there are none.
        package.checkpoint = lambda call, *arguments: call(*arguments)
        others = np.setdiff1d(np.arange(len(problem.x)), problem.known)
        rows = np.concatenate([problem.known, others])
        labels = np.concatenate([problem.labels, np.zeros(len(others))])
        found = package.transformer_predict(
            model,
            torch.from_numpy(problem.x[rows]).float()[:, None],
            torch.from_numpy(labels).float()[:, None],
            len(problem.known),
            inference_mode=True,
            N_ensemble_configurations=self.configurations,
            feature_shift_decoder=True,
            seed=seed % 2**31,
            **package.get_params_from_config(config),
        )
        out = np.empty((len(rows), problem.n_classes))
        out[problem.known] = np.eye(problem.n_classes)[problem.labels]  # it does not answer for them
        out[others] = found.squeeze(0).detach().numpy()
        return out


def _weights() -> Path | None:
    folders = [folder for folder in (data_folder(), cache_folder()) if folder is not None]
    return next((folder / WEIGHTS for folder in folders if (folder / WEIGHTS).is_file()), None)


@lru_cache(maxsize=1)
def _network() -> tuple[torch.nn.Module, dict[str, Any]]:
    """The network of the file, which is read as data and never executed."""
    path = _weights()
    if path is None:
        raise MissingDependencyError(f"TabPFN cannot run: {TabPFN.missing()}")
    # What the package imports from there, newer versions of torch no longer have.
    vars(import_module("torch.nn.modules.transformer")).setdefault("Optional", typing.Optional)
    encoders, transformer = import_module("tabpfn.encoders"), import_module("tabpfn.transformer")
    state, _, config = torch.load(path, map_location="cpu", weights_only=True)
    width, classes = config["emsize"], config["max_num_classes"]
    encoder = partial(encoders.Linear, replace_nan_by_zero=True)(config["num_features"], width)
    model: torch.nn.Module = transformer.TransformerModel(
        encoder,
        classes,
        width,
        config["nhead"],
        width * config["nhid_factor"],
        config["nlayers"],
        y_encoder=encoders.Linear(1, width),
        efficient_eval_masking=config["efficient_eval_masking"],
    )
    model.criterion = torch.nn.CrossEntropyLoss(reduction="none", weight=torch.ones(classes))
    model.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    return model.eval(), config

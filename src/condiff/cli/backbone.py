"""``condiff backbone``: train a network from images to features, and embed image sets with it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from condiff.cli.output import batches_shown, console, note, print_json

app = typer.Typer(
    name="backbone",
    help="Train networks that turn images into features, and embed image sets with them.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

_Dataset = Annotated[
    str, typer.Argument(metavar="DATASET", help="cub, omniglot, or a folder of images with split_{train,val,test}.csv.")
]
_Threads = Annotated[int | None, typer.Option(min=1, help="Threads of torch; torch decides by default.")]


# Seconds between progress lines within a long epoch.
_PAUSE = 60.0


@app.command("train")
def train_command(
    dataset: _Dataset,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where the checkpoints go; a training found there is resumed.")
    ],
    backbone: Annotated[str, typer.Option(help="conv4, resnet18 or wrn28_10.")] = "resnet18",
    epochs: Annotated[int, typer.Option(min=1, help="Epochs; the rate falls at half and three quarters.")] = 100,
    size: Annotated[int | None, typer.Option(min=16, help="Side of the images; 84, or 28 for omniglot.")] = None,
    batch_size: Annotated[int, typer.Option(min=2, help="Images in a batch.")] = 64,
    learning_rate: Annotated[
        float | None, typer.Option(help="Of SGD with momentum; 0.1, or 0.03 for conv4 on images of 84 pixels.")
    ] = None,
    validate_every: Annotated[int, typer.Option(min=1, help="Epochs between measurements.")] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    threads: _Threads = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Train a backbone on the base classes of an image set.

    Cross-entropy with labels smoothed by 0.1, on random crops. The weights of the epoch with the best nearest-prototype
    accuracy on the validation classes are kept. Stop it at any time: the same command resumes after the last finished
    epoch and ends with the same bytes.

    Example: [bold]condiff backbone train omniglot --backbone conv4 --epochs 20 --out omniglot-conv4[/bold]
    """
    from condiff.reproduce.pretraining.train import train_backbone

    _set_threads(threads)
    ends = [time.perf_counter()]
    last = ends[0]

    def stepped(epoch: int, steps: int, loss: float) -> None:
        nonlocal last
        if time.perf_counter() - last > _PAUSE:
            last = time.perf_counter()
            note(f"epoch {epoch + 1} of {epochs}: {steps} steps, the last with a loss of {loss:.4f}")

    def report(entry: dict[str, Any]) -> None:
        ends.append(time.perf_counter())
        measured = f", validation accuracy {100 * entry['accuracy']:.2f} %" if "accuracy" in entry else ""
        loss, seconds = f"loss {entry['loss']:.4f}", f"{ends[-1] - ends[-2]:.0f} s"
        note(f"epoch {entry['epoch'] + 1} of {epochs}: {loss}{measured}, {seconds}")

    with batches_shown("images decoded") as shown:
        record = train_backbone(
            dataset,
            backbone,
            out,
            epochs=epochs,
            size=size,
            batch_size=batch_size,
            learning_rate=learning_rate,
            validate_every=validate_every,
            seed=seed,
            on_batch=shown,
            on_step=stepped,
            on_epoch=report,
        )
    best = {"epoch": record.best_epoch, "accuracy": record.best_accuracy}
    if json:
        print_json([{"folder": str(out), "backbone": record.backbone, "best": best, "epochs": record.epochs}])
    else:
        accuracy = 100 * (record.best_accuracy or 0.0)
        console.print(f"kept epoch {(record.best_epoch or 0) + 1}: validation accuracy {accuracy:.2f} %", markup=False)
        console.print(f"embed images with: condiff backbone embed {dataset} --backbone {out} --out FILE", markup=False)


@app.command("embed")
def embed_command(
    dataset: _Dataset,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the features: .npz.")],
    backbone: Annotated[
        str, typer.Option(help="efficientnet_lite0, or a folder that condiff backbone train wrote.")
    ] = "efficientnet_lite0",
    part: Annotated[str, typer.Option(help="novel, validation or base.")] = "novel",
    threads: _Threads = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON list and nothing else.")] = False,
) -> None:
    """Write the features of one part of an image set, with the mean over its base classes.

    Both are kept in the cache, under a key of weights, images and sizes, and computed only once.

    Example: [bold]condiff backbone embed cub --out cub-novel.npz[/bold]
    """
    from condiff.errors import InvalidInputError
    from condiff.readers.images import check_part
    from condiff.reproduce.datasets.features import save_features
    from condiff.reproduce.embedding import dataset_features

    if out.suffix != ".npz":
        raise InvalidInputError(f"--out must end in .npz, but is {out}")
    wanted = check_part(part)
    _set_threads(threads)
    with batches_shown("images embedded") as shown:
        features = dataset_features(dataset, backbone, wanted, on_batch=shown)
    save_features(out, features)
    images, width = features.features.shape
    if json:
        found = {"name": features.name, "images": images, "features": width, "classes": len(features.classes)}
        print_json([{**found, "fingerprint": features.fingerprint, "out": str(out)}])
    else:
        console.print(f"{features.name}: {images} images of {len(features.classes)} classes, {width} features")
        console.print(f"written to {out}", markup=False)


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)

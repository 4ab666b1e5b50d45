"""Images as features: each image through a backbone once, kept in the cache.

A cached array's name carries a key of the weights, of how pixels are prepared, and of the images, so whatever changes
gets an array of its own.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from condiff.bases.backbones import BACKBONES, Backbone, backbone
from condiff.bases.backbones.checkpoints import load_backbone
from condiff.encoders.embedding import Progress, Vectors, cached_vectors, on_sphere, progress
from condiff.errors import InvalidInputError, did_you_mean
from condiff.files import atomic_path, cache_folder, sha256
from condiff.readers.images import Frame, decode, import_pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Images in a batch. A constant, because the last digits of features depend on it.
BATCH = 64
#: Images that are written to the cache at a time: whole batches, or the last digits would depend on it.
BLOCK = 16 * BATCH


def open_backbone(name: str) -> Backbone:
    """A trained backbone: ``efficientnet_lite0``, or a folder that ``condiff backbone train`` wrote."""
    if Path(name).is_dir():
        return load_backbone(Path(name))
    if name == "efficientnet_lite0":
        return backbone(name)
    if name in BACKBONES:
        raise InvalidInputError(
            f"{name} is not trained yet: train it with `condiff backbone train DATASET --backbone {name} --out FOLDER` "
            "and name that folder"
        )
    raise InvalidInputError(
        f"unknown backbone {name!r}{did_you_mean(name, BACKBONES)}: give efficientnet_lite0 or a folder that "
        "`condiff backbone train` wrote"
    )


class ImageEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn image files into features on the unit sphere, by a network that was trained on other images.

    Features are centred by their mean over the images of the fit, then brought to length one: what a graph of
    neighbours likes best. They are cached, so that the same files are quick the next time.

    Parameters
    ----------
    folder : str or Path, default="."
        What file names are relative to.
    backbone : str, default="efficientnet_lite0"
        That, or a folder that ``condiff backbone train`` wrote.
    on_batch : callable, optional
        Called with the images done and all of them.

    Attributes
    ----------
    mean_ : ndarray
        Subtracted from the features.
    key_ : str
        Digits of the backbone's weights; another one of the same name is refused.
    """

    def __init__(
        self, folder: str | Path = ".", backbone: str = "efficientnet_lite0", on_batch: Progress | None = None
    ) -> None:
        self.folder = folder
        self.backbone = backbone
        self.on_batch = on_batch

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Learn the mean of some files."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Sequence[str], y: Any = None) -> NDArray[np.float64]:
        """Learn the mean of some files, and give their features."""
        features = self._features(X)
        self.key_ = self._key
        # In double precision: single sums over thousands of rows lose digits.
        self.mean_ = features.mean(axis=0, dtype=np.float64)
        return on_sphere(features - self.mean_)

    def transform(self, X: Sequence[str]) -> NDArray[np.float64]:
        """The features of files, (files, features)."""
        check_is_fitted(self)
        features = self._features(X)
        if self._key != self.key_:
            raise InvalidInputError(f"the backbone {self.backbone} is not the one of the fit: fit again")
        return on_sphere(features - self.mean_)

    @classmethod
    def restored(cls, folder: str | Path, backbone: str, key: str, mean: Any) -> Self:
        """The encoder that was fitted with these attributes, for another folder."""
        encoder = cls(folder, backbone)
        encoder.key_, encoder.mean_ = key, np.asarray(mean)
        return encoder

    @property
    def origin(self) -> str:
        """What the backbone was trained on."""
        return "trained on ImageNet" if self.backbone == "efficientnet_lite0" else "trained by condiff backbone"

    def _features(self, files: Sequence[str]) -> NDArray[np.float32]:
        network = open_backbone(self.backbone)
        self._key = backbone_key(network)
        grey = network.in_channels == 1
        # Characters are drawn dark on light; a backbone of grey images was trained on light ones on dark.
        frame = Frame(network.size, network.size, grey=grey, invert=grey)
        folder = Path(self.folder)
        digests = [bytes.fromhex(sha256(folder / file))[:16] for file in files]

        def compute(missing: list[int]) -> Iterator[tuple[Sequence[int], Vectors]]:
            with progress("images embedded") as shown:
                for start in range(0, len(missing), BATCH):
                    places = missing[start : start + BATCH]
                    contents = [(folder / files[place]).read_bytes() for place in places]
                    squares = np.stack(
                        [decode(c, frame, str(folder / files[p])) for c, p in zip(contents, places, strict=True)]
                    )
                    yield places, _embed_block(network, squares.__getitem__, range(len(places)), len(places), None)
                    (self.on_batch or shown)(start + len(places), len(missing))

        return cached_vectors(f"images-{network.name}-{self._key}", digests, compute)


def thumbnail(path: Path, side: int = 56) -> str:
    """A small square of an image, as an address of data that a page can show."""
    pixels = decode(path.read_bytes(), Frame(side, side), str(path))
    content = io.BytesIO()
    import_pillow().Image.fromarray(pixels).save(content, "JPEG", quality=70)
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def embed(
    network: Backbone, crops: Callable[[slice], NDArray[np.uint8]], count: int, on_batch: Progress | None = None
) -> NDArray[np.float32]:
    """Features of ``count`` images, of which ``crops`` gives a range as bytes of shape (n, h, w, channels)."""
    return _embed_block(network, crops, range(count), count, on_batch)


def cached_features(
    network: Backbone,
    crops: Callable[[slice], NDArray[np.uint8]],
    count: int,
    *,
    name: str,
    images_key: str,
    on_batch: Progress | None = None,
) -> NDArray[np.float32]:
    """What :func:`embed` gives, from the cache if it is there.

    Parameters
    ----------
    network, crops, count, on_batch
        As there.
    name
        Begins the array's name in the cache.
    images_key
        Changes whenever what ``crops`` gives does.
    """
    key = hashlib.sha256(f"{backbone_key(network)} {images_key} {BATCH}".encode()).hexdigest()[:16]
    path = cache_folder() / "features" / f"{name}-{network.name}-{key}.npy"
    found = _read_rows(path, count, network.out_features)
    if found is not None:
        return found
    # Block by block, so that a long embedding that was stopped resumes where it was.
    folder, blocks = path.with_suffix(".blocks"), []
    for start in range(0, count, BLOCK):
        span, block_path = range(start, min(start + BLOCK, count)), folder / f"{start:08d}.npy"
        block = _read_rows(block_path, len(span), network.out_features)
        if block is None:
            block = _embed_block(network, crops, span, count, on_batch)
            _write_rows(block_path, block)
        blocks.append(block)
    rows = np.concatenate(blocks)
    _write_rows(path, rows)
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def backbone_key(network: Backbone) -> str:
    """16 hexadecimal digits of a backbone's weights and of how it prepares pixels."""
    facts = [network.name, network.in_channels, network.size, network.normalisation]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for name, value in network.state_dict().items():
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _embed_block(
    network: Backbone, crops: Callable[[slice], NDArray[np.uint8]], span: range, count: int, on_batch: Progress | None
) -> NDArray[np.float32]:
    was_training = network.training
    network.eval()
    # The layout that convolutions are fastest in on a CPU.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    rows = []
    with torch.inference_mode():
        for start in span[::BATCH]:
            stop = min(start + BATCH, span.stop)
            images = network.prepare(torch.from_numpy(crops(slice(start, stop))))
            rows.append(network(images.contiguous(memory_format=torch.channels_last)).numpy())
            if on_batch is not None:
                on_batch(stop, count)
    network.train(was_training)
    return np.concatenate(rows)


def _read_rows(path: Path, count: int, width: int) -> NDArray[np.float32] | None:
    """An array of the cache, or None where it is not there or damaged: it is then made anew."""
    try:
        rows: NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return rows if rows.shape == (count, width) and rows.dtype == np.float32 and np.isfinite(rows).all() else None


def _write_rows(path: Path, rows: NDArray[np.float32]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, rows, allow_pickle=False)

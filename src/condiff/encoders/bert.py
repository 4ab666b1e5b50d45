"""The forward pass of BERT encoders, which most small sentence models are, written out: nothing is padded.

Texts of a batch lie behind each other in one matrix of tokens, so that every product is one of real tokens; only the
attention looks at each text alone, at those of equal length together. The numbers are those of the model's own library
up to rounding. Where the processor multiplies numbers of sixteen bits (bfloat16), products are of those: half the
time, and vectors whose cosine to the exact ones is 0.9999 and more; sums, norms and what layers add to stay exact.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from condiff.encoders.embedding import Vectors, windows

# A matrix and a vector: the weights and the bias of a linear map, or those of a norm.
Pair = tuple[Tensor, Tensor]
# Tokens of one pass.
_TOKENS = 2048


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for products of sixteen-bit numbers; without them they are slower."""
    asked = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(ask is not None and bool(ask()) for ask in asked)


@dataclass(frozen=True, eq=False)
class _Layer:
    joint: Pair  # queries, keys and values in one product
    mixed: Pair
    first: Pair
    wide: Pair
    narrow: Pair
    second: Pair


class Bert:
    """A BERT encoder and its tokens.

    Attributes
    ----------
    most
        Tokens that it reads at a time, without the two that mark the ends.
    """

    def __init__(self, folder: Path, tuned: Mapping[str, Tensor] | None = None) -> None:
        """Read a folder; whatever is not as expected there is an error of some kind: see :func:`bert_of`.

        Where its weights have been tuned, these take the place of the folder's.
        """
        from safetensors.torch import load_file
        from tokenizers import Tokenizer

        config, pools = _read(folder / "config.json"), _pooling(folder)
        _expect(config.get("model_type") == "bert", "another architecture")
        _expect(config.get("hidden_act", "gelu") == "gelu", "another activation")
        _expect(config.get("position_embedding_type", "absolute") == "absolute", "relative positions")
        _expect(not config.get("is_decoder"), "a decoder")
        self._pools, self._heads = pools, int(config["num_attention_heads"])
        self._kind = torch.bfloat16 if multiplies_bfloat16() else torch.float32
        self._slack = float(config.get("layer_norm_eps", 1e-12))
        read_from = load_file(folder / "model.safetensors") if tuned is None else tuned
        weights = {name: value.float() for name, value in read_from.items()}
        self._words = weights["embeddings.word_embeddings.weight"]
        width, longest = self._words.shape[1], int(config["max_position_embeddings"])
        _expect(width % self._heads == 0, "heads of unequal width")
        places = weights["embeddings.position_embeddings.weight"]
        _expect(places.shape == (longest, width), "positions of another shape")
        # All tokens are of the first kind.
        self._places = places + weights["embeddings.token_type_embeddings.weight"][0]
        self._norm = self._pair(weights, "embeddings.LayerNorm", (width,), norm=True)
        wide, read = int(config["intermediate_size"]), self._pair
        self._layers = []
        for number in range(int(config["num_hidden_layers"])):
            at = f"encoder.layer.{number}."
            parts = [read(weights, f"{at}attention.self.{name}", (width, width)) for name in ("query", "key", "value")]
            self._layers.append(
                _Layer(
                    (torch.cat([matrix for matrix, _ in parts]), torch.cat([bias for _, bias in parts])),
                    read(weights, f"{at}attention.output.dense", (width, width)),
                    read(weights, f"{at}attention.output.LayerNorm", (width,), norm=True),
                    read(weights, f"{at}intermediate.dense", (wide, width)),
                    read(weights, f"{at}output.dense", (width, wide)),
                    read(weights, f"{at}output.LayerNorm", (width,), norm=True),
                )
            )
        _expect(f"encoder.layer.{len(self._layers)}.output.dense.weight" not in weights, "more layers than it says")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        _expect(self._tokenizer.get_vocab_size() <= len(self._words), "more tokens than vectors")
        self._start, self._end = self._tokenizer.encode("").ids
        self.most = _longest(folder, longest) - 2
        _expect(self.most > 0, "no room for tokens")

    def _pair(self, weights: dict[str, Tensor], name: str, shape: tuple[int, ...], *, norm: bool = False) -> Pair:
        matrix, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        _expect(matrix.shape == shape and bias.shape == shape[:1], f"{name} of another shape")
        return (matrix, bias) if norm else (matrix.to(self._kind), bias.to(self._kind))

    def pieces(self, texts: Sequence[str]) -> Iterator[list[tuple[list[int], int]]]:
        """The tokens of each text in pieces that are read whole, and how many they are."""
        for found in self._tokenizer.encode_batch(list(texts), add_special_tokens=False):
            parts = [found.ids[start:stop] for start, stop in windows(len(found.ids), self.most)]
            yield [(part, len(part)) for part in parts]

    def vectors(self, pieces: Sequence[tuple[list[int], int]]) -> Vectors:
        """One vector for each piece."""
        out = np.empty((len(pieces), self._words.shape[1]), dtype=np.float32)
        for batch in _batches([tokens for _, tokens in pieces]):
            # Texts of equal length are one block of the attention.
            blocks = [list(each) for _, each in groupby(batch, key=lambda place: pieces[place][1])]
            with torch.inference_mode():
                found = self._passed(
                    [torch.tensor([[self._start, *pieces[place][0], self._end] for place in each]) for each in blocks]
                )
            out[batch] = found.numpy()
        return out

    def _passed(self, blocks: Sequence[Tensor]) -> Tensor:
        """The pooled outputs of blocks of token numbers, each (texts, tokens)."""
        width, sizes = self._words.shape[1], [block.numel() for block in blocks]
        places = torch.cat([torch.arange(block.shape[1]).repeat(len(block)) for block in blocks])
        words = self._words[torch.cat([block.reshape(-1) for block in blocks])]
        state = layer_norm(words + self._places[places], (width,), *self._norm, self._slack)
        for layer in self._layers:
            joint = linear(state.to(self._kind), *layer.joint).split(sizes)
            mixed = torch.cat([self._attended(part, block) for part, block in zip(joint, blocks, strict=True)])
            state = layer_norm(state + linear(mixed, *layer.mixed), (width,), *layer.first, self._slack)
            hidden = gelu(linear(state.to(self._kind), *layer.wide))
            state = layer_norm(state + linear(hidden, *layer.narrow), (width,), *layer.second, self._slack)
        parts = [part.view(*block.shape, width) for part, block in zip(state.split(sizes), blocks, strict=True)]
        return torch.cat([part.mean(1) if self._pools == "mean" else part[:, 0] for part in parts])

    def _attended(self, joint: Tensor, block: Tensor) -> Tensor:
        texts, tokens = block.shape
        queries, keys, values = joint.view(texts, tokens, 3, self._heads, -1).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(queries, keys, values).transpose(1, 2).reshape(texts * tokens, -1)


def bert_of(folder: Path) -> Bert | None:
    """The encoder of a folder; None where it is of another kind, or damaged, for its own library to say how."""
    try:
        return Bert(folder)
    except Exception:  # whatever a file of others makes of it
        return None


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Places of pieces of like lengths, short ones first, so many tokens at a time."""
    batch: list[int] = []
    tokens = 0
    for place in np.argsort(lengths, kind="stable").tolist():
        if batch and tokens + lengths[place] > _TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += lengths[place]
    if batch:
        yield batch


def _pooling(folder: Path) -> str:
    """How a text's tokens become one vector."""
    if not (folder / "modules.json").is_file():
        return "mean"  # what sentence-transformers makes of a plain network
    modules = _read(folder / "modules.json")
    kinds = [str(each["type"]).rsplit(".", 1)[-1] for each in modules]
    _expect(kinds in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]), "other modules")
    _expect(modules[0]["path"] == "", "a network elsewhere")
    settings = folder / "config_sentence_transformers.json"
    _expect(not (settings.is_file() and _read(settings).get("default_prompt_name")), "a prompt")
    pooling = _read(folder / modules[1]["path"] / "config.json")
    chosen = {name for name, value in pooling.items() if name.startswith("pooling_mode") and value is True}
    _expect(chosen in ({"pooling_mode_mean_tokens"}, {"pooling_mode_cls_token"}), "another pooling")
    return "mean" if "pooling_mode_mean_tokens" in chosen else "first"


def _longest(folder: Path, places: int) -> int:
    """Tokens that are read at a time."""
    own = folder / "sentence_bert_config.json"
    settings = _read(own) if own.is_file() else {}
    _expect(not settings.get("do_lower_case"), "letters to be lowered")
    if settings.get("max_seq_length"):
        return min(int(settings["max_seq_length"]), places)
    known = folder / "tokenizer_config.json"
    return min(places, int(_read(known).get("model_max_length", places)) if known.is_file() else places)


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)

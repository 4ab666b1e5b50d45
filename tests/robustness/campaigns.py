"""What is tried: each campaign makes a case of a number, and either handles it or raises what it should not have."""

from __future__ import annotations

import base64
import contextlib
import functools
import gzip
import hashlib
import io
import json
import shutil
import sqlite3
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import scipy.sparse as sp
from tests.robustness import mutations as change

from condiff.errors import CondiffError

#: How long a message of ours may be, in characters.
LONGEST = 1000


class Finding(Exception):
    """Something that must not happen, and is no exception by itself."""


class Campaign:
    """Numbered cases; a case returns how it ended, or raises."""

    name: str
    #: Which of the counts that are wanted it belongs to.
    group: str

    def prepare(self, folder: Path) -> None:
        """Make what all cases start from."""

    def run(self, number: int, folder: Path) -> str:
        """One case, in an empty folder of its own: ``read``, ``refused``, ``killed``, or an exception."""
        raise NotImplementedError

    def random(self, number: int) -> Random:
        """The random numbers of a case, the same at any time and place."""
        return Random(f"{self.name}-{number}")


def refused(error: Exception) -> str:
    """Check that an error is one of ours: one line, not too long."""
    if not isinstance(error, CondiffError):
        raise error
    said = str(error)
    if "\n" in said or len(said) > LONGEST:
        raise Finding(f"a message of {len(said)} characters or several lines: {said[:200]!r}")
    return "refused"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Numbers may overflow over garbage; nobody needs to hear of it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


# ---- models -----------------------------------------------------------------------------------------------------


def made_models(folder: Path) -> dict[str, Any]:
    """Small fitted models of every kind, saved; by name, the rows to ask each for."""
    import pandas as pd
    from sklearn.datasets import make_blobs

    from condiff import COINClassifier, COINRegressor, PanelForecaster
    from condiff.encoders import TableEncoder
    from condiff.encoders.encoding import EncodedTable

    X, y = make_blobs(40, centers=2, n_features=4, cluster_std=3.0, random_state=0)
    labels = np.where(np.arange(40) < 24, y, -1)
    ring = np.roll(np.eye(40), 1, axis=1) + np.roll(np.eye(40), -1, axis=1)
    fast: dict[str, Any] = {"epochs": 3, "n_inits": 1}
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y"), "c": pd.date_range("2024", periods=40)})
    frame.loc[::7, "a"] = np.nan
    notes = [
        f"the {['cat', 'dog', 'fox', 'owl'][i % 4]} is {['big', 'small', 'old'][i % 3]} and {i}" for i in range(40)
    ]
    written = frame.assign(note=notes)
    encoder = TableEncoder(text=["note"], embedding="tfidf").fit(written)
    words = np.array([None if label < 0 else ["no", "yes"][label] for label in labels], dtype=object)
    values = np.where(labels < 0, np.nan, X[:, 0] * 3 + 1)
    days = 50 + 20 * np.sin((np.arange(20)[:, None] + np.arange(5)) / 3)
    small = np.roll(np.eye(5), 1, axis=1) + np.roll(np.eye(5), -1, axis=1)
    with quiet():
        models = {
            "network": (COINClassifier(**fast, base="residual").fit(X, labels), X[:6] * 1.01),
            "blend": (COINClassifier(**fast, base="blend", layers=4).fit(X, labels), X[:6] * 1.01),
            "leaves": (COINClassifier(**fast, base="blend", graph="leaves", layers=4).fit(X, labels), X[:6] * 1.01),
            "mixed": (
                COINClassifier(**fast, base="blend", graph={"knn": 1, "leaves": 1, "answers": 1}, layers=4).fit(
                    X, labels
                ),
                X[:6] * 1.01,
            ),
            "auto": (COINClassifier(**fast).fit(X, words), X[:6] * 1.01),
            "table": (COINClassifier(**fast).fit(frame, words), frame[:6]),
            "text": (COINClassifier(**fast).fit(EncodedTable(written, encoder), words), written[:6]),
            "values": (COINRegressor(**fast).fit(X, values), X[:6] * 1.01),
            "sparse": (COINClassifier(**fast).fit(sp.csr_array(np.where(X < 1, 0, X)), labels), sp.csr_array(X[:6])),
            "graph": (COINClassifier(**fast).fit(X, labels, adjacency=ring), X[:6] * 1.01),
            "solver": (COINRegressor(**fast, base="residual", solver="chebyshev").fit(X, values), X[:6] * 1.01),
            "forecast": (PanelForecaster(lags=4, epochs=2).fit(days, small), None),
        }
        for name, (model, _) in models.items():
            model.save(folder / name, {"id_columns": [], "ids": [1, 2], "target": "y"})
    return {name: rows for name, (_, rows) in models.items()}


class Models(Campaign):
    """Saved models with damage of every kind, the checksums put right or not; what loads must also answer."""

    name, group = "model", "model files"

    def prepare(self, folder: Path) -> None:
        self.rows = made_models(folder)
        self.files = {name: {path.name: path.read_bytes() for path in (folder / name).iterdir()} for name in self.rows}

    def run(self, number: int, folder: Path) -> str:
        from condiff import load

        random = self.random(number)
        name = random.choice(list(self.rows))
        files = dict(self.files[name])
        self._damage(random, files)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        with quiet():
            try:
                model = load(folder)
            except Exception as error:
                return refused(error)
            # What was loaded answers, whatever its numbers are.
            if self.rows[name] is None:
                model.predict()
                return "read"
            try:
                model.predict(self.rows[name])
                if number % 5 == 0:
                    sets = getattr(model, "predict_set", getattr(model, "predict_interval", None))
                    sets(self.rows[name], 0.5)
            except CondiffError as error:
                # An encoder that reads other columns now refuses the rows, as it should.
                return refused(error)
            except ValueError as error:
                # scikit-learn's words for rows that do not fit the model's features or that became infinite.
                if "feature" not in str(error) and "infinity" not in str(error) and "NaN" not in str(error):
                    raise
                return "refused"
        return "read"

    def _damage(self, random: Random, files: dict[str, bytes]) -> None:
        from safetensors.numpy import load, save

        how = random.randrange(8)
        if how == 0:
            file = random.choice(list(files))
            files[file] = change.bytes_of(random, files[file])
            return
        description = json.loads(files["model.json"])
        if how == 1:
            files["arrays.safetensors"] = change.bytes_of(random, files["arrays.safetensors"])
        elif how <= 4:
            description = change.json_of(random, description)
        else:
            arrays = load(files["arrays.safetensors"])
            for _ in range(random.choice((1, 1, 2))):
                name = random.choice(sorted(arrays))  # safetensors gives them in any order
                arrays[name] = change.array_of(random, arrays[name])
                if random.random() < 0.5:
                    _reshape(description, name, list(arrays[name].shape))
            files["arrays.safetensors"] = save(arrays)
        files["model.json"] = sealed(description, files)


def _reshape(content: Any, name: str, shape: list[int]) -> None:
    """Let the description of an array agree with what it has become."""
    if isinstance(content, dict):
        if content.get("$array") == name:
            content["shape"] = shape
        for value in content.values():
            _reshape(value, name, shape)
    elif isinstance(content, list):
        for value in content:
            _reshape(value, name, shape)


def sealed(description: Any, files: dict[str, bytes]) -> bytes:
    """A description whose checksums are right, as somebody with time on their hands could write it."""
    if not isinstance(description, dict):
        return json.dumps(description).encode()
    description.pop("checksum", None)
    if isinstance(description.get("files"), dict):
        description["files"]["arrays.safetensors"] = hashlib.sha256(files["arrays.safetensors"]).hexdigest()
    try:
        sums = json.dumps(description, sort_keys=True)
        return json.dumps({**description, "checksum": hashlib.sha256(sums.encode()).hexdigest()}).encode()
    except RecursionError:
        return b"[" * 5000
    except TypeError:  # keys that cannot be sorted
        return b"{}"


# ---- data ---------------------------------------------------------------------------------------------------------


def _saved(write: Callable[[Path], Any], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


# A sheet of nine rows in the old binary format, which nothing that is installed writes: packed.
_OLD_SHEET = (
    "c-rllO-vI}5P;|He=C$0!3ZXVkcf&LMEtuzl|(s-$UzP9ue8-vNNZ{@cu*8MnwWUfcp>591@+=j^q@BnCKx@Kn3%MB^kkw52Vk9<eO<e{hc;27W~"
    "bTNdGp?UZ@TYie_k)din9+|OYoEQg9<Bl2#gA!z#~*HL;>q<o6Pdr!ov>apOTP;18L~+wEmSzV@Ts&0tN1CFHi$~#N#-ehoM|H-M)%4z&RuY<<N&"
    "(z#a5NpoOz)WSwNami0Yu`Hb~m_FQM(hi!{u6c*w`U3=s#KBjbVT?B~xh-2Qfrw5whCC%c?H-ytxhkf}>V&d<tXw&Lo4shHC)7f-BF;Rpj9KbpFX"
    "14=;Ew9w)?SX%F{Q}Ux==GaE{+o&hFa`E$p5QaMxh|{D02h|v1guB10S}y+nG{we&Ze<_GE<nu(|9JE!ixMhv<GsjMY4O)K6GIshi#LI0(rKR>Ls"
    ";<)J{^nNbL^OX3mR0>RJ5tyeR5Wr?7LfW4tt?xV<mk{qpAE*l_$5d!~59cWw(C>7RfNS11C5BV6O$EU2c7Bet@>%G3>Px3X@+361B@;bv(ZnC3Ru"
    "xV97f>1BBv-&A35MtkP-;m2(=pW<84o*yh-Y?^-;pM?(WIfe1`n}%-DEpFc;c@i(5h1^0uux|NfJF%3g%-xpvz6Mx^Fq<*fPKmCLa7&83R!&L9k}"
    "6rkhb5RrSLc!v=3HYiBBKSfbZV>^SRxj26d#Vl97A%P5j!F|3Uf@i#2lHE>cdi*6_PBKS)(#qby<{?>gJ^Ra5UzGB}Ze<Ny*XN|K^k`bJBfSI<wY"
    "Dmd>m(8LfMA(%qa4ACAGCI>|AZb4GFu&vi09Ihj5zlUenWWisoWj5a-EXSz9AJ{*fV5y`Qbla(CHlauA<)UPzcLmG6v(fyDx1QJLffdmprAc0gR!"
    "g;@t4}-vuE%cyd%I`YMc&r4UN&Z_IfgJt{_+q*rA3O_?hsm1e&pOaWnI)=>DSs~{If}jKVH_XmDUb1*=P$m-iOT;|bzt=OEumWbU#TU}KivO!Jm&"
    "IX"
)


def _open_document(rows: list[list[str]]) -> bytes:
    """A sheet as OpenDocument has it, with the parts that a reader needs."""
    cells = "".join(
        "<table:table-row>"
        + "".join(
            f'<table:table-cell office:value-type="string"><text:p>{cell}</text:p></table:table-cell>' for cell in row
        )
        + "</table:table-row>"
        for row in rows
    )
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr(
            "content.xml",
            f'<?xml version="1.0"?><office:document-content {names}><office:body><office:spreadsheet>'
            f'<table:table table:name="t">{cells}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )
    return stream.getvalue()


def _columns(table: Any) -> None:
    """Read everything that a command would."""
    for name in list(table.columns)[:50]:
        table.column(name).words()
        table.labels(name)
    for _ in table.batches(list(table.columns)[:50]):
        pass
    table.id_column()


class Data(Campaign):
    """Files of every kind that is read."""

    name, group = "data", "data files"

    def prepare(self, folder: Path) -> None:
        import networkx as nx
        import pandas as pd
        import pyarrow as pa
        import pyarrow.feather as feather
        import pyarrow.parquet as pq
        import safetensors.torch
        import scipy.io
        import torch
        from PIL import Image

        self.folder = folder
        text = "id,age,city,seen,price,kind\n" + "".join(
            f'r{i},{20 + i},{"Oslo" if i % 3 else "Bodø"},2024-01-{1 + i % 28:02d},"{i},5",{"cat" if i % 2 else ""}\n'
            for i in range(30)
        )
        frame = pd.read_csv(io.StringIO(text))
        frame["lists"] = [[1.0, 2.0, float(i)] for i in range(30)]
        records = frame.drop(columns="lists").to_json(orient="records")
        arrays = {"X": np.random.default_rng(0).normal(size=(20, 3)), "y": np.arange(20), "names": np.array(["a"] * 20)}
        csr = sp.csr_array(np.eye(20))
        parts = {part: getattr(csr, part) for part in ("data", "indices", "indptr", "shape")}
        graph = {f"adj_{k}": v for k, v in parts.items()} | {f"attr_{k}": v for k, v in parts.items()}
        graph["labels"] = np.arange(20) % 3
        image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (40, 60, 3), dtype=np.uint8))
        frames = [image.convert("P"), image.rotate(90).convert("P")]
        table = pa.Table.from_pandas(frame)
        packed = frame.copy()
        packed["city"] = packed["city"].astype("category")
        graph_text = "id,label,f1,f2\n" + "".join(f"n{i},{i % 2},{i},{i * i}\n" for i in range(10))
        days = "day,a,b,c\n" + "".join(f"2024-01-{i:02d},{i},{i * 2},\n" for i in range(1, 20))

        def images(form: str, **options: Any) -> bytes:
            stream = io.BytesIO()
            image.save(stream, form, **options)
            return stream.getvalue()

        stream = io.BytesIO()
        frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
        sixteen = io.BytesIO()
        Image.fromarray(np.arange(2400, dtype=np.uint16).reshape(40, 60)).save(sixteen, "TIFF")
        any_bytes = change.bytes_of
        text_bytes = functools.partial(_either, change.bytes_of, change.text_of)
        ring = np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1)
        links = {"edge_index": np.array(np.nonzero(ring)), "x": np.eye(12), "y": np.arange(12) % 2}
        tensors = {key: torch.from_numpy(np.ascontiguousarray(value)) for key, value in links.items()}
        sparse = {**tensors, "x": tensors["x"].to_sparse(), "adj_t": torch.from_numpy(ring).to_sparse_csr()}
        words = {"edges": links["edge_index"].T.astype(float), "y": np.array(["a", ""] * 6), "num_nodes": np.array(12)}
        json_text = functools.partial(_json_text)
        #: Name, a good file, how it is damaged, how it is read.
        self.kinds: list[tuple[str, bytes, Callable[[Random, bytes], bytes], Callable[[Path], Any]]] = [
            ("t.csv", text.encode(), change.text_of, _table),
            ("t.csv.gz", gzip.compress(text.encode()), change.gzip_of, _table),
            ("t.json", records.encode(), json_text, _table),
            ("t.jsonl", b"\n".join(json.dumps(r).encode() for r in json.loads(records)), any_bytes, _table),
            ("t.parquet", _saved(lambda p: pq.write_table(table, p), "x"), any_bytes, _table),
            ("u.parquet", _saved(lambda p: packed.to_parquet(p, compression="zstd"), "x"), any_bytes, _table),
            ("t.feather", _saved(lambda p: feather.write_feather(table, p), "x"), any_bytes, _table),
            ("t.xlsx", _saved(lambda p: frame.drop(columns="lists").to_excel(p, index=False), "x.xlsx"),
             change.xml_of, _table),
            ("t.ods", _open_document([["id", "age"], ["r1", "20"], ["r2", "30"]]), change.xml_of, _table),
            ("t.xls", zlib.decompress(base64.b85decode(_OLD_SHEET)), any_bytes, _table),
            ("t.npz", _saved(lambda p: np.savez(p, **arrays), "x.npz"), change.npz_of, _table),
            ("u.npz", _saved(lambda p: np.savez_compressed(p, **arrays), "x.npz"), any_bytes, _table),
            ("t.npy", _saved(lambda p: np.save(p, arrays["X"]), "x.npy"), any_bytes, _table),
            ("graph.npz", _saved(lambda p: np.savez(p, **graph), "x.npz"), change.npz_of, _npz_graph),
            ("edges.npz", _saved(lambda p: np.savez(p, **links), "x.npz"), change.npz_of, _any_graph),
            ("graph.mtx", _saved(lambda p: scipy.io.mmwrite(p, sp.coo_array(ring)), "x.mtx"), text_bytes, _any_graph),
            ("graph.graphml", _saved(lambda p: nx.write_graphml(nx.path_graph(9), p), "x"), any_bytes, _any_graph),
            ("graph.gml", _saved(lambda p: nx.write_gml(nx.path_graph(9), p), "x"), text_bytes, _any_graph),
            ("graph.json", json.dumps(nx.node_link_data(nx.path_graph(9))).encode(), text_bytes, _any_graph),
            ("matrix.npz", _saved(lambda p: sp.save_npz(p, sp.csr_array(ring)), "x.npz"), change.npz_of, _any_graph),
            ("graph.pt", _saved(lambda p: torch.save(tensors, p), "x"), _torch_of, _any_graph),
            ("graph.safetensors", safetensors.torch.save(tensors), any_bytes, _any_graph),
            ("sparse.pt", _saved(lambda p: torch.save(sparse, p), "x"), _torch_of, _any_graph),
            ("words.npz", _saved(lambda p: np.savez(p, **words), "x.npz"), change.npz_of, _any_graph),
            ("pairs.json", b'{"edges": [[0, 1], [2, 1]], "labels": ["a", null, "b"]}', json_text, _any_graph),
            ("graph.txt", b"a b 1\nb c 0.5\nc d 2\n", text_bytes, _any_graph),
            ("columns.csv", b'Source,Type,Target,Weight\n"n, 0",u,n1,1\nn1,u,n2,0.5\n', text_bytes, _any_graph),
            ("graph.adjlist", b"# GMT\n0 1 2\n1 2\n3\n", text_bytes, _any_graph),
            ("nodes.csv", graph_text.encode(), change.text_of, _graph_folder),
            ("edges.csv", b"source,target,weight\nn0,n1,1\nn1,n2,0.5\n", change.text_of, _graph_folder),
            ("days.csv", days.encode(), change.text_of, _series),
            ("i.png", images("PNG"), change.png_of, _image),
            ("i.jpg", images("JPEG"), any_bytes, _image),
            ("i.gif", stream.getvalue(), any_bytes, _image),
            ("i.tif", sixteen.getvalue(), any_bytes, _image),
            ("i.webp", images("WEBP"), any_bytes, _image),
            ("i.bmp", images("BMP"), any_bytes, _image),
            ("labels.csv", b"file,label\na.png,1\nb.png,2\n", change.text_of, _labels),
            ("features.npz", _features(), change.npz_of, _load_features),
            ("splits.json", _splits(), json_text, _read_splits),
            ("runs.sqlite", _store(), any_bytes, _read_store),
            ("edited.sqlite", _store(), _sql, _read_store),
            ("shards.json", _shards(folder), json_text, functools.partial(_read_shards, folder=folder)),
            ("fit.json", _fit_record(folder), json_text, functools.partial(_read_fit, folder=folder)),
            ("backbone.json", _backbone(folder), _backbone_json, functools.partial(_read_backbone, folder=folder)),
            ("table.npz", _gene_table(), change.npz_of, _read_gene_table),
        ]  # fmt: skip
        (folder / "nodes.csv").write_text(graph_text)
        (folder / "edges.csv").write_text("source,target,weight\nn0,n1,1\nn1,n2,0.5\n")

    def run(self, number: int, folder: Path) -> str:
        random = self.random(number)
        name, content, damage, read = self.kinds[number % len(self.kinds)]
        path = folder / name
        path.write_bytes(damage(random, content))
        if read is _graph_folder:
            for other in ("nodes.csv", "edges.csv"):
                if other != name:
                    shutil.copy(self.folder / other, folder / other)
        with quiet():
            try:
                read(path)
            except Exception as error:
                return refused(error)
        return "read"


def _json_text(random: Random, content: bytes) -> bytes:
    if random.random() < 0.3:
        return change.bytes_of(random, content)
    try:
        return json.dumps(change.json_of(random, json.loads(content))).encode()
    except RecursionError:
        return b"[" * 100_000


def _table(path: Path) -> None:
    from condiff.readers.tables import read_table

    table = read_table(path)
    _columns(table)
    if table.matrix is None:
        from condiff.encoders import TableEncoder

        TableEncoder().fit(table).transform(table)


def _npz_graph(path: Path) -> None:
    from condiff.readers.npz_graph import load_npz_graph

    load_npz_graph(path)


def _any_graph(path: Path) -> None:
    from condiff.readers.graph_file import read_graph

    read_graph(path)


def _either(one: Any, other: Any, random: Random, content: bytes) -> bytes:
    return bytes(random.choice((one, other))(random, content))


def _torch_of(random: Random, content: bytes) -> bytes:
    """Tensors with damage to the archive, or to the pickle and the numbers in it."""
    if random.random() < 0.4:
        return change.bytes_of(random, content)
    members = change.unzipped(content)
    name = random.choice(list(members))
    return change.zipped(random, change.member_of(random, members, name, lambda data: change.bytes_of(random, data)))


def _graph_folder(path: Path) -> None:
    from condiff.readers.graph_folder import load_graph_folder

    load_graph_folder(path.parent)


def _series(path: Path) -> None:
    from condiff.readers.series import read_series

    edges = path.with_name("borders.csv")
    edges.write_text("source,target\na,b\nb,c\n")
    read_series(path, edges)


def _image(path: Path) -> None:
    from condiff.readers.images import Frame, decode

    decode(path.read_bytes(), Frame(32, 28), path.name)


def _labels(path: Path) -> None:
    from condiff.readers.image_folder import read_labels

    read_labels(path).codes()


def _features() -> bytes:
    from condiff.reproduce.datasets.features import class_features, save_features

    rows = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
    made = class_features("made", rows, np.arange(12) % 3, ["a", "b", "c"], np.zeros(4, np.float32))
    return _saved(lambda path: save_features(path, made), "x.npz")


def _load_features(path: Path) -> None:
    from condiff.reproduce.datasets.features import load_features

    load_features(path)


_LABELS = np.arange(40) % 2


def _splits() -> bytes:
    from condiff.reproduce.splits import random_split, write_splits

    made = {seed: random_split(_LABELS, seed, train_per_class=3, validation_per_class=3) for seed in range(3)}
    return _saved(lambda path: write_splits(path, made, "made", _LABELS), "x.json")


def _read_splits(path: Path) -> None:
    from condiff.reproduce.splits import read_splits

    read_splits(path, _LABELS)


def runs(number: int) -> list[tuple[Any, Any]]:
    """Keys and runs, as a sweep stores them."""
    from condiff.reproduce.runs import Key

    keys = [Key("node", "made", "GCN", {"hidden": 16}, split, 0, "data/split") for split in range(number)]
    return [(key, key.run({"accuracy": 80.0}, epochs=1, seconds=0.5, memory_mb=1.0)) for key in keys]


def _store() -> bytes:
    from condiff.reproduce.store import Store

    def write(path: Path) -> None:
        with Store(path) as store:
            for key, run in runs(20):
                store.add(key, run, {"torch": "2"})

    return _saved(write, "x.sqlite")


def _sql(random: Random, content: bytes) -> bytes:
    """A store whose rows were edited with SQLite itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        path.write_bytes(content)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            column = random.choice(
                ["settings", "metrics", "condition", "split", "seconds", "task", "identity", "epochs"]
            )
            value = random.choice([*change.WORDS[:-10], 3, 1.5, b"\xff", "[1]", "{", '{"a": "b"}', "[" * 5000, 2**62])
            with contextlib.suppress(sqlite3.Error, UnicodeEncodeError):
                connection.execute(f"UPDATE OR IGNORE runs SET {column} = ?", (value,))
                connection.execute(random.choice(["SELECT 1", "PRAGMA user_version = 1", "PRAGMA user_version = 9"]))
                connection.commit()
        return path.read_bytes()


def _read_store(path: Path) -> None:
    from condiff.reproduce.store import Store

    with Store.snapshot(path) as store:
        store.runs()
        store.makers()
    with Store(path) as store:
        store.check_same_data([key for key, _ in runs(2)])
        store.find([key for key, _ in runs(2)])


def _shards(folder: Path) -> bytes:
    from condiff.distributed import Labels, write_shards
    from condiff.graph import Graph

    ring = np.roll(np.eye(20), 1, axis=1) + np.roll(np.eye(20), -1, axis=1)
    known = Labels(np.arange(20) % 2, [0, 1], [2, 3])
    write_shards(folder / "shards", Graph.of(ring), sp.csr_array(np.eye(20)), known, ranks=1)
    return (folder / "shards" / "shards.json").read_bytes()


def _read_shards(path: Path, folder: Path) -> None:
    from condiff.distributed.group import Ranks
    from condiff.distributed.shards import Shard

    random = Random(path.read_bytes())
    shutil.copytree(folder / "shards" / "part-0000", path.parent / "part-0000")
    if random.random() < 0.7:  # the parts, beside a description that is whole
        shutil.copy(folder / "shards" / "shards.json", path)
        part = random.choice(sorted((path.parent / "part-0000").iterdir()))
        array = change.array_of(random, np.load(part))
        np.save(part, array) if random.random() < 0.8 else part.write_bytes(change.bytes_of(random, part.read_bytes()))
    shard = Shard.load(path.parent, Ranks())
    shard.operator(shard.features.block(0, shard.n_nodes))


def _fit_record(folder: Path) -> bytes:
    import torch

    from condiff.distributed import checkpoint

    (folder / "fit").mkdir(exist_ok=True)
    record = checkpoint.Record({"nodes": 3}, [0.5, 0.25], 0.25, 0.5, 1)
    checkpoint.save(folder / "fit", record, {"base.w": torch.ones(3), "best.w": torch.ones(3)})
    return (folder / "fit" / "fit.json").read_bytes()


def _read_fit(path: Path, folder: Path) -> None:
    from condiff.distributed import checkpoint

    for tensors in (folder / "fit").glob("*.safetensors"):
        shutil.copy(tensors, path.parent)
    checkpoint._read(path.parent)


def _backbone(folder: Path) -> bytes:
    import torch

    from condiff.bases.backbones.checkpoints import Record, describe, save_checkpoint
    from condiff.bases.backbones.registry import backbone

    network = backbone("conv4")
    record = Record(describe(network), {"data": "x"}, [{"epoch": 1, "loss": 0.5}], 1, 0.5)
    (folder / "backbone").mkdir(exist_ok=True)
    save_checkpoint(folder / "backbone", record, {"x": torch.ones(1)}, network.state_dict())
    return (folder / "backbone" / "backbone.json").read_bytes()


def _backbone_json(random: Random, content: bytes) -> bytes:
    if random.random() < 0.3:
        return change.bytes_of(random, content)
    return sealed(change.json_of(random, json.loads(content)), {"arrays.safetensors": b""})


def _read_backbone(path: Path, folder: Path) -> None:
    from condiff.bases.backbones.checkpoints import load_backbone

    for tensors in (folder / "backbone").glob("*.safetensors"):
        (path.parent / tensors.name).symlink_to(tensors)
    load_backbone(path.parent)


def _gene_table() -> bytes:
    from condiff.reproduce.datasets.gene_table import GeneTable, PublishedSplit, save_gene_table

    genes = sp.csr_array((np.random.default_rng(0).random((6, 12)) < 0.3).astype(float))
    split = PublishedSplit(np.array([0, 1]), np.array([2, 3]), np.array([4, 5]))
    made = GeneTable(genes, np.arange(6) % 2, tuple("abcdef"), tuple("wxyz"), ("m", "d", "a"), (split,))
    return _saved(lambda path: save_gene_table(made, path), "x.npz")


def _read_gene_table(path: Path) -> None:
    from condiff.reproduce.datasets.gene_table import load_gene_table

    load_gene_table(path)

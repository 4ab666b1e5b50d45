from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

from condiff import COINClassifier, COINRegressor
from condiff.errors import InvalidInputError
from condiff.pages.explorer import explorer_page
from condiff.pages.scene import Scene, example_scene, scene_of_model, shown_names, table_scene
from condiff.uncertainty import Inspection


def decoded(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=kind)


def test_points_are_called_by_their_texts() -> None:
    assert shown_names(None, None) is None
    assert shown_names([1, 2], None) == ["1", "2"]
    assert shown_names([1, 2], ["a text", ""]) == ["a text", "row 2"]
    assert shown_names(["t7", "t8"], ["a text", ""]) == ["t7: a text", "t8"]


def test_its_u_is_that_of_the_model() -> None:
    X, y = load_iris(return_X_y=True)
    labels = np.where(np.arange(150) % 30 == 7, y, -1)
    model = COINClassifier(base="residual", layers=25, folds=0).fit(X, labels)
    scene = scene_of_model(model, "iris", truth=y, layout="pca")
    np.testing.assert_allclose(scene.u(scene.layers, scene.strength), model.record_.output, atol=1e-5)
    np.testing.assert_allclose(scene.u(0, 1.0), model.record_.base, atol=1e-6)
    rows = Inspection(model).row
    assert scene.truth is not None
    np.testing.assert_array_equal(scene.truth, y[rows])
    np.testing.assert_array_equal(scene.labels, labels[rows])
    assert scene.positions.shape == (len(rows), 2)


def test_held_points_pull_their_neighbours(moons: Scene) -> None:
    free = moons.u(moons.layers, moons.strength)
    held = moons.u(moons.layers, moons.strength, {0: 1, 3: 0})
    np.testing.assert_array_equal(held[[0, 3]], [[0, 1], [1, 0]])
    near = moons.weights.indices[moons.weights.indptr[0] : moons.weights.indptr[1]]
    near = near[(near != 0) & (near != 3)]
    assert (moons.u(moons.layers, moons.strength, {0: 1})[near, 1] > free[near, 1]).all()


def test_examples_leave_something_to_put_right(moons: Scene) -> None:
    assert moons.truth is not None
    before = (moons.u(0, 1.0).argmax(axis=1) == moons.truth).mean()
    after = (moons.u(moons.layers, moons.strength).argmax(axis=1) == moons.truth).mean()
    assert before < after
    circles = example_scene("circles", 100)
    assert circles.classes == ("outer", "inner")


def test_what_the_page_gets(moons: Scene) -> None:
    data = moons.to_dict()
    n = moons.n_points
    np.testing.assert_array_equal(decoded(data["base"], "<f4").reshape(n, 1), moons.base)
    np.testing.assert_array_equal(decoded(data["indptr"], "<u4"), moons.weights.indptr)
    np.testing.assert_array_equal(decoded(data["indices"], "<u2"), moons.weights.indices)
    np.testing.assert_array_equal(decoded(data["weights"], "<f4"), moons.weights.data)
    np.testing.assert_array_equal(decoded(data["labels"], "<i2"), moons.labels)
    assert data["positivity"] < data["stability"]


def test_the_page_escapes_names_and_is_the_same_twice(moons: Scene) -> None:
    page = explorer_page(moons, "condiff explore '<b>'")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.replace("&lt;b&gt;", "")
    assert page == explorer_page(moons, "condiff explore '<b>'")


def test_a_table_of_the_users(tmp_path: Path) -> None:
    X, y = make_blobs(90, centers=3, random_state=0)
    lines = ["id,x,y,kind"]
    lines += [
        f"p{i},{a:.4f},{b:.4f},{'abc'[k] if i < 30 else ''}" for i, ((a, b), k) in enumerate(zip(X, y, strict=True))
    ]
    path = tmp_path / "points.csv"
    path.write_text("\n".join(lines) + "\n")
    scene = table_scene(path, "kind")
    assert scene.classes == ("a", "b", "c")
    assert scene.truth is None
    assert scene.names is not None
    assert sorted(name.partition(": x ")[0] for name in scene.names) == sorted(f"p{i}" for i in range(90))
    # Two columns are the plane, up to their standardisation.
    order = [int(name.partition(":")[0][1:]) for name in scene.names]
    assert scene.rows is not None
    assert order == list(scene.rows)
    assert abs(np.corrcoef(scene.positions[:, 0], X[order, 0])[0, 1]) > 0.999


def test_an_embedding_of_the_users(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    places = np.random.default_rng(0).random((150, 2))
    path = tmp_path / "iris.npz"
    labels = np.where(np.arange(150) % 10 == 0, y, -1)
    np.savez(path, X=X, kind=labels, embedding=places)
    scene = table_scene(path, "kind")
    assert set(map(tuple, scene.positions.tolist())) <= set(map(tuple, places.astype(np.float32).tolist()))
    np.savez(path, X=X, kind=labels, embedding=places[:, :1])
    with pytest.raises(InvalidInputError, match=r"'embedding' of .* must hold two finite numbers"):
        table_scene(path, "kind")


def test_tsne_puts_many_columns_into_the_plane() -> None:
    X, y = make_blobs(40, n_features=5, centers=2, random_state=0)
    model = COINClassifier(layers=3, folds=0).fit(X, y)
    one, two = (scene_of_model(model, "blobs", layout="tsne").positions for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert np.isfinite(one).all()


def test_what_it_cannot_show() -> None:
    X = np.linspace(0, 1, 50)[:, None]
    with pytest.raises(InvalidInputError, match="shows classes"):
        scene_of_model(COINRegressor(folds=0).fit(X, X[:, 0]), "values")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="20 classes apart, not 25"):
        scene_of_model(COINClassifier(folds=0, layers=1, epochs=1).fit(X, np.arange(50) // 2), "many")

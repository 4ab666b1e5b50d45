"""What compiled functions keep on disk: used again, but never after a change, and no need to have any."""

import importlib.util
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("numba")
from numba.core import config

from condiff import kernels
from condiff.kernels import compilation


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where numba keeps what the tests compile."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(config, "CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def double(tmp_path, folder):
    """A function that makes compiled copies of ``double``, as processes would that start one after another."""
    file = tmp_path / "doubling.py"
    file.write_text("def double(x):\n    return 2 * x\n")

    def make():
        spec = importlib.util.spec_from_file_location("doubling", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return compilation.compiled("number")(module.double)

    return make


def hits(function):
    assert function(2) == 4
    return sum(function.stats.cache_hits.values())


def test_what_was_compiled_is_used_again(double):
    assert [hits(double()), hits(double())] == [0, 1]


def test_a_change_of_any_kernel_makes_it_stale(double, monkeypatch):
    hits(double())
    monkeypatch.setattr(compilation, "_hash_of_sources", lambda: "after a change")
    assert hits(double()) == 0


def test_the_hash_sees_every_file_of_the_package(tmp_path, monkeypatch):
    copy = Path(shutil.copytree(Path(kernels.__file__).parent, tmp_path / "kernels"))
    monkeypatch.setattr(compilation.resources, "files", lambda package: copy)
    hashes = {compilation._hash_of_sources.__wrapped__()}
    files = sorted(copy.glob("*.py"))
    for file in files:
        file.write_text(file.read_text() + "# changed\n")
        hashes.add(compilation._hash_of_sources.__wrapped__())
    assert len(hashes) == len(files) + 1


def test_without_a_folder_that_can_be_written_functions_work(double, tmp_path, monkeypatch):
    nowhere = tmp_path / "a file"
    nowhere.touch()
    (tmp_path / "__pycache__").touch()
    monkeypatch.setattr(config, "CACHE_DIR", str(nowhere / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere))
    monkeypatch.setenv("HOME", str(nowhere))
    assert [hits(double()), hits(double())] == [0, 0]


def test_a_folder_that_goes_away_is_no_error(double, folder):
    function = double()
    shutil.rmtree(folder)
    assert hits(function) == 0


@pytest.mark.parametrize("content", [b"", b"damaged"])
def test_damaged_files_are_replaced(double, folder, content):
    hits(double())
    for file in folder.rglob("*.nb?"):
        file.write_bytes(content)
    assert [hits(double()), hits(double())] == [0, 1]


def test_entries_are_compiled_for_their_types(double):
    function = double()
    compilation.compile_entries(SimpleNamespace(double=function, plain=len), "float32")
    assert [str(types) for (types,) in function.signatures] == ["float32"]

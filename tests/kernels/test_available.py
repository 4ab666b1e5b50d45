"""Whether compiled loops can run."""

import importlib.util
import sys

import pytest

from condiff import kernels


def test_says_whether_numba_is_installed():
    assert kernels.available() == (importlib.util.find_spec("numba") is not None)


@pytest.mark.parametrize("failure", [ImportError, OSError])
def test_a_broken_installation_counts_as_none(failure, monkeypatch):
    class Broken:
        def find_spec(self, name, path=None, target=None):
            if name == "numba":
                raise failure("cannot be loaded")

    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    kernels.available.cache_clear()
    try:
        assert not kernels.available()
    finally:
        kernels.available.cache_clear()

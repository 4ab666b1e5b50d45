from __future__ import annotations

import pytest
import torch

from condiff.pages.canvas import save
from condiff.reproduce.bench.speed import growth as module
from condiff.reproduce.bench.speed.growth import Size, bound_seconds, exponent, growth, roofline
from condiff.reproduce.figures.bench import draw_growth


def test_exponents_of_powers() -> None:
    rows = [{"axis": "nodes", "value": n, "seconds": 3.0 * n**1.5, "memory_mb": 7.0} for n in (1, 10, 100)]
    assert exponent(rows, "nodes", "seconds") == pytest.approx(1.5)
    assert exponent(rows, "nodes", "memory_mb") == pytest.approx(0.0, abs=1e-9)


def test_the_bound_is_arithmetic_or_traffic_whichever_is_more() -> None:
    fast_memory = {"multiply_adds_a_second": 1e9, "bytes_a_second": 1e15}
    fast_arithmetic = {"multiply_adds_a_second": 1e15, "bytes_a_second": 1e9}
    size = Size()
    products = size.nodes * size.features * (2 * 18 + 3 * 7)
    assert bound_seconds(size, fast_memory) == pytest.approx(20 * products / 1e9)
    traffic = 4 * (6 * 1400**2 + 2 * 2500 * 1400)
    assert bound_seconds(size, fast_arithmetic) == pytest.approx(20 * traffic / 1e9)


def test_a_small_sweep_and_its_picture(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(module, "Size", lambda **sizes: Size(**({"nodes": 400, "edges": 800, "features": 64} | sizes)))
    monkeypatch.setattr(module, "AXES", {"nodes": (400, 500), "layers": (2, 4)})
    rows = list(growth(1))
    assert [(row["axis"], row["value"]) for row in rows] == [
        ("nodes", 400),
        ("nodes", 500),
        ("layers", 2),
        ("layers", 4),
    ]
    assert all(row["seconds"] > 0 and row["bound_seconds"] > 0 for row in rows)
    save(draw_growth(rows), tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000
    figure = draw_growth(rows)
    assert [axes.get_xlabel() for axes in figure.axes] == ["", "", "nodes", "layers"]


def test_the_machine_is_measured() -> None:
    assert torch.get_num_threads() >= 1
    found = roofline()
    assert found["multiply_adds_a_second"] > 1e8 and found["bytes_a_second"] > 1e7

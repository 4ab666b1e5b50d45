import json

import pytest

from condiff.cli.ablate import _strengths
from condiff.errors import InvalidInputError


def test_the_ablation_of_a_graph_of_ones_own(condiff, village, tmp_path):
    done = condiff(
        "ablate", village, "--layers", "4,8", "--strength", "0.1,0.2,0.4", "--splits", 3,
        "--out", tmp_path, "--train-per-class", 3, "--validation-per-class", 4,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "a broad optimum" in done.out
    claims = json.loads((tmp_path / "claims.json").read_text())
    # 4 * 0.2 = 8 * 0.1 and 4 * 0.4 = 8 * 0.2.
    assert [claim["total"] for claim in claims[1:]] == [0.8, 1.6]
    assert (tmp_path / "strength.png").read_bytes().startswith(b"\x89PNG")
    assert len(json.loads((tmp_path / "summary.json").read_text())) == 6


def test_a_range_has_both_ends():
    assert _strengths("0.05:0.60:0.05") == [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6]
    assert _strengths("0.1,0.3") == [0.1, 0.3]


@pytest.mark.parametrize("text", ["", "a", "0:1", "0.1:0.2:0", "0,1", "0.2:0.1:0.05", "nan"])
def test_a_bad_range_is_refused(text):
    with pytest.raises(InvalidInputError, match="--strength takes"):
        _strengths(text)


def test_bad_layers_are_one_line(condiff, village, tmp_path):
    condiff("ablate", village, "--layers", "20;40", "--out", tmp_path / "out").assert_failed("--layers takes")
    assert not (tmp_path / "out").exists()

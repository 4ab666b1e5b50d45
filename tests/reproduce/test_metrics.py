import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.metrics import metric
from condiff.reproduce.published import _rows

# Resources, and what is shown beside a measured accuracy but is of another protocol.
NOT_JUDGED = {
    *("seconds_per_epoch_rtx3090", "seconds_to_converge_rtx3090", "gpu_memory_mb"),
    "accuracy_reported_by_authors",
}


def test_values_are_written_as_the_paper_does() -> None:
    accuracy, mse = metric("accuracy"), metric("mse")
    assert accuracy.spread_text(82.23, 1.16) == "82.2 ± 1.2"
    assert accuracy.spread_text(82.23, None) == "82.2"
    assert accuracy.spread_text(None, None) == "-"
    assert mse.spread_text(0.71684, 0.0187) == "0.7168 ± 0.0187"


@pytest.mark.parametrize(("difference", "text"), [(0.26, "+0.3"), (-1.44, "-1.4"), (-0.04, "+0.0"), (None, "-")])
def test_differences_bear_their_sign(difference: float | None, text: str) -> None:
    assert metric("accuracy").difference_text(difference) == text


@pytest.mark.parametrize(
    ("difference", "missed"), [(1.04, False), (1.06, True), (-1.06, True), (0.0, False), (None, False)]
)
def test_a_miss_is_judged_by_what_is_printed(difference: float | None, missed: bool) -> None:
    assert metric("accuracy").misses(difference) is missed


def test_all_published_scores_can_be_judged() -> None:
    for name in {row["metric"] for row in _rows()} - NOT_JUDGED:
        assert metric(name).higher_is_better == (name != "mse")


def test_every_task_has_the_decimals_that_the_paper_prints() -> None:
    for row in _rows():
        if row["metric"] not in NOT_JUDGED:
            # As text: the paper's 67.90 has two decimals.
            assert metric(row["metric"], row["task"]).decimals == len(row["value"].partition(".")[2]), row


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'accuracy'"):
        metric("acuracy")

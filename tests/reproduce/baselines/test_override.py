import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.additions import AdditionsCOIN
from condiff.reproduce.baselines.node.gcn import GCN
from condiff.reproduce.baselines.override import override


def test_a_setting_changes_and_the_others_stay():
    changed = override(GCN(), {"hidden": "64"})
    assert changed == GCN(hidden=64)
    assert changed.settings() != GCN().settings()


def test_a_setting_of_the_training():
    changed = override(GCN(), {"training.weight_decay": "0.01"})
    assert changed.training.weight_decay == 0.01
    assert changed.training.learning_rate == GCN().training.learning_rate


def test_whole_numbers_do_for_fractions_and_lists_for_tuples():
    assert override(GCN(), {"training.learning_rate": "1"}).training.learning_rate == 1.0
    assert override(GCN(), {"training.milestones": "[5, 9]"}).training.milestones == (5, 9)
    assert override(GCN(), {"training.optimiser": "sgd"}).training.optimiser == "sgd"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("hiden", "3", r"no setting 'hiden' \(did you mean 'hidden'\?\)"),
        ("training.epoch", "3", "did you mean 'epochs'"),
        ("hidden", "many", "same kind"),
        ("hidden", "1.5", "same kind"),
        ("hidden", "true", "same kind"),
        ("hidden.more", "1", "plain value"),
        ("training", "1", "training.weight_decay"),
        ("training.weight_decay", "-1", "weight_decay must be"),
    ],
)
def test_what_cannot_be_is_one_clear_line(name, text, message):
    with pytest.raises(InvalidInputError, match=message):
        override(GCN(), {name: text})


def test_changes_are_made_together() -> None:
    """A consistency is refused where no nodes are dropped, which the next change sees to."""
    changed = override(AdditionsCOIN(node_dropout=0.0), {"consistency": "1", "node_dropout": "0.5"})
    assert (changed.consistency, changed.node_dropout) == (1.0, 0.5)
    changed = override(GCN(), {"training.patience": "5", "hidden": "32", "training.learning_rate": "0.1"})
    assert (changed.training.patience, changed.hidden, changed.training.learning_rate) == (5, 32, 0.1)

import json

import pytest
import torch
from torch import nn

from condiff.distributed import Ranks, checkpoint
from condiff.distributed.checkpoint import Record
from condiff.errors import InvalidFileError, InvalidInputError


def trained(steps, seed=0):
    torch.manual_seed(seed)
    network = nn.Linear(3, 2)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        network(torch.ones(4, 3)).square().sum().backward()
        optimiser.step()
    return network, optimiser


def save(folder, steps=3):
    network, optimiser = trained(steps)
    record = Record({"layers": 2}, losses=[0.5] * steps, best_loss=0.4, best_score=0.9, best_epoch=1)
    best = {name: value.clone() for name, value in network.state_dict().items()}
    checkpoint.save(folder, record, checkpoint.pack(network, best, optimiser))
    return network, optimiser, record


def test_a_network_and_its_optimiser_go_on_as_if_nothing_had_happened(tmp_path):
    save(tmp_path)
    record, tensors = checkpoint.load_shared(tmp_path, Ranks())
    assert (record.losses, record.best_score) == ([0.5] * 3, 0.9)
    network, optimiser = trained(0, seed=1)
    best = checkpoint.unpack(tensors, network, optimiser)
    expected, expected_optimiser = trained(3)
    assert best.keys() == expected.state_dict().keys()
    for one, other in ((network, optimiser), (expected, expected_optimiser)):
        other.zero_grad()
        one(torch.ones(4, 3)).square().sum().backward()
        other.step()
    assert torch.equal(network.weight, expected.weight)


def test_only_the_last_checkpoint_stays_and_the_same_one_has_the_same_bytes(tmp_path):
    save(tmp_path / "a", 2)
    save(tmp_path / "a", 3)
    save(tmp_path / "b", 3)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["epoch-000003.safetensors", "fit.json"]
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_a_crash_before_the_record_leaves_the_checkpoint_before(tmp_path):
    save(tmp_path, 2)
    (tmp_path / "epoch-000003.safetensors").write_bytes(b"half")
    record, _ = checkpoint.load_shared(tmp_path, Ranks())
    assert len(record.losses) == 2


def test_nothing_there_or_only_leftovers_is_a_fresh_start(tmp_path):
    assert checkpoint.load_shared(tmp_path / "missing", Ranks()) is None
    (tmp_path / "epoch-000001.safetensors").write_bytes(b"half")
    (tmp_path / ".fit.json.abc").write_text("")
    assert checkpoint.load_shared(tmp_path, Ranks()) is None
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(InvalidInputError, match="is not a sharded fit"):
        checkpoint.load_shared(tmp_path, Ranks())


def test_damage_is_found(tmp_path):
    save(tmp_path)
    path = tmp_path / "fit.json"
    content = json.loads(path.read_text())
    tensors = tmp_path / content["tensors"]
    whole = tensors.read_bytes()
    tensors.write_bytes(whole[:-8])
    with pytest.raises(InvalidInputError, match="cut off or changed"):
        checkpoint.load_shared(tmp_path, Ranks())
    tensors.unlink()
    with pytest.raises(InvalidInputError, match=r"remove .* and fit again"):
        checkpoint.load_shared(tmp_path, Ranks())
    for bad in ("{", json.dumps({**content, "format": "x"}), json.dumps({**content, "colour": 1})):
        path.write_text(bad)
        with pytest.raises(InvalidInputError, match=r"fit\.json"):
            checkpoint.load_shared(tmp_path, Ranks())


def test_tensors_of_another_network_are_refused(tmp_path):
    save(tmp_path)
    _, tensors = checkpoint.load_shared(tmp_path, Ranks())
    with pytest.raises(InvalidFileError, match="do not fit the network"):
        checkpoint.unpack(tensors, nn.Linear(5, 2))


def test_facts_must_be_the_same(tmp_path):
    record = Record({"layers": 2, "seed": 0})
    checkpoint.check_same(record, {"seed": 0, "layers": 2}, tmp_path)
    with pytest.raises(InvalidInputError, match=r"another layers \(2, now 3\)"):
        checkpoint.check_same(record, {"seed": 0, "layers": 3}, tmp_path)

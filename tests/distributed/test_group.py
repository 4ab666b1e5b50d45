import time

import pytest
import torch
from tests.distributed.ranks import Job, run

from condiff.distributed import RankLostError, Ranks, joined
from condiff.errors import InvalidInputError


def speak(ranks):
    summed = ranks.add_up(torch.tensor([1.0, 10.0]) * (ranks.rank + 1))
    rows = ranks.side_by_side(torch.tensor([ranks.rank, 7]))
    told = [ranks.broadcast(content if ranks.first else None) for content in (b"news", b"", None)]
    try:
        ranks.agree("the cupboard is bare" if ranks.first else None)
    except InvalidInputError as error:
        return summed.tolist(), rows.tolist(), told, str(error)


def fall_silent(ranks, given_up):
    if ranks.rank == 1:
        for _ in range(6000):
            if given_up.exists():
                raise KeyError("too late")
            time.sleep(0.01)
        raise TimeoutError
    try:
        ranks.add_up(torch.ones(1))
    finally:
        given_up.touch()


def test_ranks_hear_each_other():
    for summed, rows, told, problem in run(3, speak):
        assert summed == [6.0, 60.0]
        assert rows == [[0, 7], [1, 7], [2, 7]]
        assert told == [b"news", b"", None]
        assert problem == "the cupboard is bare"


def test_a_silent_rank_is_given_up_while_it_is_still_there(tmp_path):
    waiting, silent = Job(2, fall_silent, tmp_path / "given up", timeout=2).results()
    assert isinstance(waiting, RankLostError)
    assert "another rank of the job ended or does not answer" in str(waiting)
    assert isinstance(silent, KeyError)


def test_a_process_that_nobody_launched_is_alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined() as ranks:
        assert (ranks.rank, ranks.size, ranks.first) == (0, 1, True)
        assert ranks.broadcast(b"x") == b"x"
        assert ranks.side_by_side(torch.ones(2)).shape == (1, 2)
        assert ranks.swap(torch.empty(0, 3), [0], [0]).shape == (0, 3)
        ranks.agree(None)
    with pytest.raises(InvalidInputError, match="timeout"), joined(0):
        pass


def test_traffic_starts_at_nothing_for_each_job():
    assert Ranks().traffic.rows == 0
    assert Ranks().traffic is not Ranks().traffic

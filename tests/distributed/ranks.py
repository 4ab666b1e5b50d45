"""Jobs of several ranks on loopback, as real processes; they start from one server that has imported everything."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from tests import jitter  # noqa: F401  in the ranks' processes as in this one

from condiff.distributed import Ranks

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["condiff.distributed.train", "torch._dynamo"])


class Job:
    """Processes that run ``function(ranks, *arguments)``, one for each rank."""

    def __init__(self, size: int, function: Callable[..., Any], *arguments: Any, timeout: float = 60.0) -> None:
        port, work = _free_port(), pickle.dumps((function, arguments))
        self.pipes, self.processes = [], []
        for rank in range(size):
            ours, theirs = _CONTEXT.Pipe(duplex=False)
            process = _CONTEXT.Process(target=_work, args=(theirs, rank, size, port, timeout, work))
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def results(self) -> list[Any]:
        """What each rank returned; the exception where it raised, None where it was killed."""
        found = []
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            try:
                found.append(pickle.loads(pipe.recv_bytes()))
            except EOFError:
                found.append(None)
            process.join(30)
            assert not process.is_alive()
        return found


def run(size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The results of all ranks, none of which may fail."""
    results = Job(size, function, *arguments).results()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _work(pipe: Any, rank: int, size: int, port: int, timeout: float, work: bytes) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    try:
        function, arguments = pickle.loads(work)
        dist.init_process_group("gloo", rank=rank, world_size=size, timeout=timedelta(seconds=timeout))
        result = function(Ranks(rank, size), *arguments)
        dist.barrier()
        dist.destroy_process_group()
    except Exception as error:
        error.add_note(f"rank {rank}:\n{traceback.format_exc()}")
        result = error
    # As bytes: tensors would be handed over in memory that ends with this process.
    pipe.send_bytes(pickle.dumps(result))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

"""The processes of one fit: who they are, and the few ways in which they communicate.

All of it goes over ``torch.distributed`` with gloo, so a job is what ``torchrun`` starts. A process that was not
launched by it is a group of one, in which nothing has to be sent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from condiff.errors import CondiffError, InvalidInputError

#: Seconds after which a rank that does not answer counts as lost.
TIMEOUT = 300.0


class RankLostError(CondiffError, RuntimeError):
    """Another process of the job ended or does not answer."""


@dataclass
class Traffic:
    """What one rank sent to others, counted where it is sent.

    Attributes
    ----------
    exchanges
        Exchanges of border rows, forwards and backwards.
    messages
        Messages with rows in them: at most one per exchange to each other rank.
    rows, payload
        Border rows sent and their bytes, without the headers of the transport.
    seconds
        Time in exchanges, waiting for slower ranks included.
    """

    exchanges: int = 0
    messages: int = 0
    rows: int = 0
    payload: int = 0
    seconds: float = 0.0


@dataclass
class Ranks:
    """This process and the others of its job.

    Attributes
    ----------
    rank, size
        The number of this process, from 0, and how many there are.
    traffic
        What was exchanged so far.
    """

    rank: int = 0
    size: int = 1
    traffic: Traffic = field(default_factory=Traffic)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and speaks for all."""
        return self.rank == 0

    def swap(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Send ``send[r]`` of the rows, in order, to each rank r, and return the rows that came from each in turn."""
        came = rows.new_empty(sum(receive), rows.shape[1])
        if self.size == 1:
            return came
        began = time.perf_counter()
        with _others_alive():
            dist.all_to_all_single(came, rows.contiguous(), list(receive), list(send))
        self.traffic.seconds += time.perf_counter() - began
        self.traffic.exchanges += 1
        self.traffic.messages += sum(count > 0 for count in send)
        self.traffic.rows += len(rows)
        self.traffic.payload += rows.numel() * rows.element_size()
        return came

    def add_up(self, values: Tensor) -> Tensor:
        """Replace a tensor by its sum over all ranks, in place; every rank ends with the same bits."""
        if self.size > 1:
            with _others_alive():
                dist.all_reduce(values)
        return values

    def side_by_side(self, row: Tensor) -> Tensor:
        """The rows of all ranks, one below the other, on every rank."""
        rows = [torch.empty_like(row) for _ in range(self.size)]
        if self.size == 1:
            return row[None].clone()
        with _others_alive():
            dist.all_gather(rows, row.contiguous())
        return torch.stack(rows)

    def broadcast(self, content: bytes | None) -> bytes | None:
        """What the first rank has, on every rank; the others' own argument is not read."""
        if self.size == 1:
            return content
        length = torch.tensor([-1 if content is None or not self.first else len(content)])
        with _others_alive():
            dist.broadcast(length, 0)
            if int(length) <= 0:
                return None if int(length) < 0 else b""
            mine = bytearray(content) if self.first and content is not None else bytearray(int(length))
            buffer = torch.frombuffer(mine, dtype=torch.uint8)
            dist.broadcast(buffer, 0)
        return bytes(mine)

    def agree(self, problem: str | None) -> None:
        """Raise the first rank's problem everywhere, so that none waits for a rank that has given up."""
        message = self.broadcast(None if problem is None else problem.encode())
        if message is not None:
            raise InvalidInputError(message.decode())


@contextmanager
def joined(timeout: float = TIMEOUT) -> Iterator[Ranks]:
    """Join the job that ``torchrun`` started, for the length of a block; without one, be alone.

    Parameters
    ----------
    timeout
        Seconds after which a silent rank counts as lost. It must exceed the longest work between two exchanges.
    """
    if timeout <= 0:
        raise InvalidInputError(f"timeout must be positive, not {timeout}")
    if dist.is_initialized():
        yield Ranks(dist.get_rank(), dist.get_world_size())
        return
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    with _others_alive():
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
        with _others_alive():
            dist.barrier()  # none leaves while another may still wait for it
    finally:
        dist.destroy_process_group()


@contextmanager
def _others_alive() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # what gloo raises for a closed connection and for a timeout alike
        cause = " ".join(str(error).split())
        raise RankLostError(f"another rank of the job ended or does not answer ({cause[:200]})") from error

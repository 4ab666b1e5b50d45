from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from condiff.kernels.threads import one_thread, one_torch_thread


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_torch_works_alone_inside_and_is_itself_again_outside():
    with one_torch_thread():
        assert torch.get_num_threads() == 1
        with one_torch_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_an_error_gives_the_threads_back():
    with pytest.raises(ValueError, match="inside"), one_torch_thread():
        raise ValueError("inside")
    assert torch.get_num_threads() == 2


def test_fits_that_overlap_leave_the_number_as_it_was():
    both = Barrier(2)

    def overlap(_: int) -> None:
        both.wait()
        with one_torch_thread():
            both.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(overlap, range(2)))
    assert torch.get_num_threads() == 2


def _blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_works_alone_inside_as_well():
    with threadpool_limits(2):
        before = _blas_threads()
        with one_thread():
            assert set(_blas_threads()) == {1} and torch.get_num_threads() == 1
        assert _blas_threads() == before and torch.get_num_threads() == 2


def test_overlapping_fits_give_blas_its_threads_back():
    first_in, both_in, first_out = Barrier(2), Barrier(2), Barrier(2)

    def first() -> None:
        with one_thread():
            first_in.wait()
            both_in.wait()
        first_out.wait()

    def second() -> None:
        first_in.wait()
        with one_thread():
            both_in.wait()
            first_out.wait()

    with threadpool_limits(2):
        before = _blas_threads()
        with ThreadPoolExecutor(2) as pool:
            for each in [pool.submit(first), pool.submit(second)]:
                each.result()
        assert _blas_threads() == before
    assert torch.get_num_threads() == 2

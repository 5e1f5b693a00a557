"""What compiles ahead runs, leaves nothing to compile, and refuses a processor that this machine is not."""

import pytest

from fencepost.compiled import counts
from fencepost.errors import FencepostError
from fencepost.warming import JOBS, warm


@pytest.mark.parametrize("name", JOBS)
def test_a_job_runs_and_a_second_time_it_compiles_nothing(name: str) -> None:
    JOBS[name]()
    before = counts["compiled"]
    JOBS[name]()
    assert counts["compiled"] == before


@pytest.mark.slow
def test_warm_runs_jobs_in_processes_of_their_own_and_counts_what_they_had() -> None:
    JOBS["tables"]()
    before = counts["compiled"]
    done = warm(["tables", "tables"])
    assert done.compiled == 0
    assert done.kept > 10
    assert counts["compiled"] == before


def test_another_processor_is_refused() -> None:
    with pytest.raises(FencepostError, match=r"processor pentium.*expected one of .*whose code this machine can run"):
        warm([], "pentium")

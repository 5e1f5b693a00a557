"""Settings of a monitor, and of the operators on Spark, that have one of two values."""

from fencepost.errors import FencepostError


def check_first(first: str) -> None:
    """Refuse a way of starting that there is not."""
    if first not in ("enter", "silent"):
        raise FencepostError(
            f"first={first!r}", "'enter' or 'silent'", "Use 'silent' to start on traffic that already runs."
        )


def check_report(report: str) -> None:
    """Refuse a way of reporting bands that there is not."""
    if report not in ("pairs", "rules"):
        raise FencepostError(
            f"report={report!r}", "'pairs' or 'rules'", "Use 'rules' to learn only which rules a row affects."
        )

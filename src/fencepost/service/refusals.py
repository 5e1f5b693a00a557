"""Refusals that a caller of the service can act on; each knows its HTTP status."""

from pathlib import Path
from typing import ClassVar

from fencepost._memory import AnswerTooLargeError
from fencepost.errors import FencepostError, UnreachableError


class RefusalError(FencepostError):
    """What the service refuses; 422 unless a class below says otherwise."""

    status: ClassVar[int] = 422


class MissingError(RefusalError):
    """Something that is asked for and is not there."""

    status = 404


class GoneError(RefusalError):
    """Something that was there and is not kept any more."""

    status = 410


class TakenError(RefusalError):
    """Something that is to be made and is there."""

    status = 409


class StaleError(RefusalError):
    """A version that is no longer the one that the caller knows."""

    status = 412


class TooLargeError(RefusalError):
    """More than one call may have."""

    status = 413


class StrangerError(RefusalError):
    """A caller without a valid token."""

    status = 401


class ForbiddenError(RefusalError):
    """A caller whose token does not allow this."""

    status = 403


class BehindError(RefusalError):
    """More rows than the engine can take now."""

    status = 503


class DiskFullError(RefusalError):
    """No room for what came; nothing of it was taken."""

    status = 507

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            f"the disk of {path} is full",
            "room for what came",
            "Make room, or let fewer days be kept, and send it again; nothing was lost.",
        )


def status_of(error: FencepostError) -> int:
    """The HTTP status of a refusal; those of other parts are about what was sent."""
    if isinstance(error, RefusalError):
        return error.status
    if isinstance(error, AnswerTooLargeError):
        return TooLargeError.status
    if isinstance(error, UnreachableError):  # the book, which may answer later
        return BehindError.status
    if "is on a full disk" in error.got or error.got.startswith("the disk of "):
        return DiskFullError.status
    return RefusalError.status

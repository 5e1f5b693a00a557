"""What fencepost raises when it refuses something."""


class FencepostError(Exception):
    """A refusal that a person can act on: what was got, what was expected, what to do next.

    Args:
        got: the offending thing, named with its id and value.
        expected: what would have been accepted.
        remedy: the next step, a full sentence.

    >>> raise FencepostError("interval 7 with lo=5, hi=5", "lo < hi", "Remove it or widen it.")
    Traceback (most recent call last):
    ...
    fencepost.errors.FencepostError: got interval 7 with lo=5, hi=5; expected lo < hi. Remove it or widen it.
    """

    def __init__(self, got: str, expected: str, remedy: str) -> None:
        super().__init__(got, expected, remedy)
        self.got = got
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        return f"got {self.got}; expected {self.expected}. {self.remedy}"

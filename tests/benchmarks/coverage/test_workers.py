"""A crash is a line of the report."""

from benchmarks.coverage.workers import in_processes


def test_process_that_dies_or_raises_is_replaced() -> None:
    """Of five tasks one aborts its process and one raises: both are lost with their reason, the others have results."""
    names = ["1 + 1", "__import__('os').abort()", "2 + 2", "1 / 0", "3 + 3"]
    done: list[str] = []
    found = in_processes(names, eval, lambda name, reason: f"lost: {reason}", workers=1, on_done=done.append)
    assert done == names
    assert list(found.values()) == [
        2,
        "lost: the process died with -6",
        4,
        "lost: ZeroDivisionError: division by zero",
        6,
    ]


def test_process_that_hangs_is_given_up() -> None:
    """A task that never ends is lost after the time it has."""
    names = ["__import__('threading').Event().wait()"]
    found = in_processes(names, eval, lambda name, reason: reason, workers=2, timeout_s=1.0)
    assert found == {names[0]: "no answer for 1 s"}

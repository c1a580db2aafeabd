"""`alcove demo --keep`: the console stays up until somebody ends it, and then nothing is left."""

import re
import signal
import stat
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

STAYING = """
from pathlib import Path
from alcove.platform.cli.demo.staying import ConsoleDoor, stay_up
stay_up(ConsoleDoor("http://127.0.0.1:1", Path("console.token")))
"""


def read_until(process: "subprocess.Popen[str]", word: str, patience_s: float) -> str:
    """What a process says up to a line with this word."""
    assert process.stdout is not None
    watchdog = threading.Timer(patience_s, process.kill)
    watchdog.start()
    said = ""
    try:
        for line in process.stdout:
            said += line
            if word in line:
                return said
    finally:
        watchdog.cancel()
    pytest.fail(f"it ended without {word!r}:\n{said}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_stays_up_says_where_the_console_is_and_ends_at_a_signal(number: signal.Signals) -> None:
    """Ctrl-C and what a service manager sends: both end it as asked, with the exit code of success."""
    with subprocess.Popen([sys.executable, "-c", STAYING], stdout=subprocess.PIPE, text=True) as process:
        said = read_until(process, "Ctrl-C", 120)
        assert "http://127.0.0.1:1" in said
        assert "console.token" in said
        process.send_signal(number)
        assert process.wait(120) == 0


@pytest.mark.thorough
@pytest.mark.timeout(1500)
def test_the_console_of_a_kept_demo_answers_until_ctrl_c_and_nothing_is_left(tmp_path: Path) -> None:
    """A real run: the page is there, the token is its owner's alone, and SIGINT ends all processes cleanly."""
    alcove = Path(sys.executable).parent / "alcove"
    folder = tmp_path / "kept"
    options = [
        "--mechanism",
        "randomized-response",
        "--devices",
        "2",
        "--fleet",
        "0",
        "--keep",
        "--folder",
        str(folder),
    ]
    with subprocess.Popen([alcove, "demo", *options], stdout=subprocess.PIPE, text=True) as process:
        said = read_until(process, "Ctrl-C", 1200).replace("\n", " ")
        found = re.search(r"http://[\d.]+:\d+(?=;)", said)
        assert found, said
        with urllib.request.urlopen(found[0] + "/healthz", timeout=60) as answer:
            assert answer.status == 200
        token = folder / "console.token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(found[0] + "/healthz", timeout=60)

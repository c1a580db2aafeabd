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
from alcove.platform.cli.demo.clock import BEHIND_S
from alcove.platform.cli.demo.environment import Places
from alcove.platform.cli.demo.staying import open_door
from alcove.platform.services.auth.local import list_local_tokens
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.testing_seams import ManualClock

STAYING = """
import time
from pathlib import Path
from alcove.platform.cli.demo.staying import ConsoleDoor, stay_up
stay_up(ConsoleDoor("http://127.0.0.1:1", Path("console.token"), int(time.time()) + 5400))
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
        assert re.search(r"expires in 1 h (30|2\d) min", " ".join(said.split()))
        process.send_signal(number)
        assert process.wait(120) == 0


@pytest.mark.parametrize("behind_s", [0, BEHIND_S])
def test_the_token_of_a_kept_demo_expires_half_a_day_after_its_start(tmp_path: Path, behind_s: int) -> None:
    """By the system's clock, whatever the demo's says; it is its owner's alone, and the words say what is left."""
    now_s = SYSTEM_CLOCK.now_s()
    clock = ManualClock(now_s - behind_s)
    places = Places(tmp_path)
    places.server.mkdir()
    door = open_door("http://127.0.0.1:1", places, clock)
    (record,) = list_local_tokens(places.server)
    assert door.expires_at_s == record.expires_at_s
    assert 12 * 3600 <= record.expires_at_s - now_s <= 12 * 3600 + 300
    assert (record.role, record.name) == ("operator", "console of the demo")
    assert places.console_token.read_text().startswith("alc_")
    assert stat.S_IMODE(places.console_token.stat().st_mode) == 0o600
    clock.time_s = record.expires_at_s - 3725
    assert door.expiry_words == "The token expires in 1 h 02 min."
    clock.time_s = record.expires_at_s + 1
    assert door.expiry_words == "The token expires in 0 h 00 min."


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

"""Somebody reads a device's disk, as its user, to learn what was asked and what was answered."""

import base64
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.sdk import Client
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, NOW, Device

TYPED = "Zwiebelkuchen um acht"
ANSWERED = "quixotism"


def spellings(text: str) -> Iterator[bytes]:
    """Return how a text might lie in a file."""
    for plain in (text, text.lower(), text.upper(), text[::-1]):
        for encoding in ("utf-8", "utf-16-le", "utf-32-le"):
            data = plain.encode(encoding)
            yield data
            yield data.hex().encode()
            for shift in range(3):
                yield base64.b64encode(b"x" * shift + data)[4:-4]


def files_with(folder: Path, text: str) -> list[str]:
    """Return the files below a folder in which a text lies, programs aside."""
    wanted = [spelling for spelling in spellings(text) if len(spelling) > 6]
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "program.alc" and any(one in path.read_bytes() for one in wanted)
    ]


@pytest.fixture
def used(device: Device, unsynced: None) -> Client:
    """A device in an experiment that was asked, judged, synced, reported and restarted."""
    device.world.push("3.0.0", fake_program(ANSWERED))
    device.world.set_policy("3.0.0", arms=("3.0.0", "3.0.0"), epsilon="1")
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(1)))
    for _ in range(3):
        client.sync()
        handle = client.feature(FEATURE)
        for accepted in (True, False, True):
            answer = handle.predict(TYPED)
            assert answer.value is not None
            assert answer.value["label"][0][0] == ANSWERED
            handle.record_outcome(accepted, answer)
        handle.predict(b"\xff" + TYPED.encode())
        client.report()
        handle.record_outcome(accepted=True)
        device.clock.pass_s(4000)
        client.close()
        client = device.client()
    return client


def test_nothing_that_was_typed_or_answered_lies_on_the_disk(used: Client, device: Device) -> None:
    """Searched in every file, in a hundred spellings."""
    assert device.clock.time_s > NOW
    assert files_with(device.folder, TYPED) == []
    assert files_with(device.folder, ANSWERED) == []


@pytest.mark.parametrize("index", range(len(list(spellings(TYPED)))))
def test_search_would_find_each_spelling(tmp_path: Path, index: int) -> None:
    """A test for the tests: each of them, written by a leaky build, is found."""
    spelling = list(spellings(TYPED))[index]
    (tmp_path / "log").write_bytes(b"..." + spelling + b"...")
    assert files_with(tmp_path, TYPED) == ["log"]


def test_other_users_of_the_device_read_nothing_that_is_private(used: Client, device: Device) -> None:
    """Folders and files are this user's alone; what is public (the signed tree, programs) lies within them."""
    assert stat.S_IMODE(device.folder.stat().st_mode) == 0o700
    private = [path for path in device.folder.rglob("*") if path.is_file() and path.suffix != ".alc"]
    inside = ("metadata", "versions")
    for path in private:
        if path.relative_to(device.folder).parts[0] not in inside:
            assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path

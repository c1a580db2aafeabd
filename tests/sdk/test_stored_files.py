"""Every file that a device writes is a row of "What a device remembers" in docs/privacy.md."""

import re
from pathlib import Path

import pytest
from alcove.sdk.storage import PARTIAL, Files
from alcove.sdk.testing import SeededEntropy

from tests.sdk.aggregators import WINDOW_S, enroll, make_aggregation
from tests.sdk.conftest import FEATURE, Device
from tests.sdk.test_crash import reported_device
from tests.sdk.test_sync import Refusing
from tests.sdk.test_tokens import POLICY, attest, make_token_parties


def rows(repository: Path) -> set[str]:
    """What the first column of the table names."""
    text = (repository / "docs/privacy.md").read_text(encoding="utf-8")
    table = text.partition("## What a device remembers")[2].partition("\n## ")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return set(re.findall(r"`([^`]+)`", " ".join(first)))


def is_in(rows: set[str], path: str) -> bool:
    """Whether a row names this file, or a folder that it is in."""
    return path in rows or any(row.endswith("/") and path.startswith(row) for row in rows)


@pytest.fixture
def state_files(device: Device) -> set[str]:
    """Every file that was there at some step of a life with all that a policy can ask for."""
    seen: set[str] = set()
    unfinished = re.compile(rf"(\.[0-9a-f]+)?({re.escape(PARTIAL)})?$")  # of a name: process or chance, mark

    def look(_step: str, _path: Path) -> None:
        found = [path for path in device.folder.rglob("*") if path.is_file()]
        seen.update(unfinished.sub("", path.relative_to(device.folder).as_posix()) for path in found)

    files = Files(look)
    device.world.set_policy("1.0.0", rollout=("2.0.0", 5000))
    device.client(files=files).sync()
    seed = reported_device(device.world, device)
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), pre_edges=(0.5,))
    client = device.client(files=files, entropy=SeededEntropy(seed))
    client.sync()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)
    client.report()
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), aggregation=make_aggregation())
    client.sync()
    enrolled = enroll(device, make_token_parties(device), policy=POLICY, attestation=attest, files=files)
    device.clock.time_s += WINDOW_S - device.clock.time_s % WINDOW_S - 1  # by then a token was asked for
    enrolled.report()
    client.set_reports(False)
    device.world.set_policy("2.0.0")
    device.client(files=files, engine=Refusing()).sync()
    look("end", device.folder)
    return seen


def test_every_file_that_a_device_writes_is_documented(repository: Path, state_files: set[str]) -> None:
    """No file without its row; and enough was written that this says something."""
    documented = rows(repository)
    empty = {path for path in state_files if path.endswith("lock")} | {"alcove.folder"}
    assert not {path for path in state_files - empty if not is_in(documented, path)}
    untouched = {row for row in documented if not any(path == row or path.startswith(row) for path in state_files)}
    # Questions are noted of versions above 8 MB alone, values of experiments with a dimension (`test_dimensions.py`),
    # tokens of tasks with an issuer (`test_tokens.py`).
    names = ("outbox.json", "questions.jsonl", "strata.json", "tokens.json")
    rare = {"downloads/", *(f"reports/{name}" for name in names)}
    assert untouched <= rare, "a row that nothing writes"


def test_a_file_without_a_row_would_be_found(repository: Path) -> None:
    """The control."""
    assert not is_in(rows(repository), "reports/something-new.json")

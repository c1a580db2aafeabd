"""An aggregator's HPKE keys: made once, told to devices when every process has them, opened for two days more."""

from pathlib import Path

import pytest
from alcove.platform.aggregator.keys import ADVERTISE_AFTER_S, CACHE_S, READ_AGAIN_S, KeyRing, read_keys, rotate_key
from alcove.platform.domain.errors import AggregatorFileError

NOW_S = 1_800_000_000


def _current(ring: KeyRing) -> int:
    (config,) = ring.configs.configs
    assert config.config_id in ring.private
    return config.config_id


def test_first_key_is_made_and_advertised_at_once(tmp_path: Path) -> None:
    """Reading again finds the same; nobody else may read the file."""
    first = read_keys(tmp_path / "keys", NOW_S)
    assert len(first.private) == 1
    assert read_keys(tmp_path / "keys", NOW_S + 1) == first
    (path,) = (tmp_path / "keys").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600


def test_new_key_is_advertised_when_every_process_has_read_it(tmp_path: Path) -> None:
    """Whichever process tells of a key at whatever second, one that reads its folder once a minute can open it."""
    old = _current(read_keys(tmp_path, NOW_S))
    rotated_s = NOW_S + 86_400
    new = rotate_key(tmp_path, rotated_s)
    opened_by_the_other = read_keys(tmp_path, rotated_s).private.keys() - {new}  # it has read a moment before
    for second in range(3 * ADVERTISE_AFTER_S):
        if second % READ_AGAIN_S == READ_AGAIN_S - 1:
            opened_by_the_other = set(read_keys(tmp_path, rotated_s + second).private)
        current = _current(read_keys(tmp_path, rotated_s + second))
        assert current in opened_by_the_other, second
    assert (old, new) == (_current(read_keys(tmp_path, rotated_s + ADVERTISE_AFTER_S - 1)), current)


def test_old_key_is_opened_for_two_days_and_then_gone(tmp_path: Path) -> None:
    """A device may keep the list for a day, and its report may wait for another; then the file goes with a rotation."""
    old = _current(read_keys(tmp_path, NOW_S))
    new = rotate_key(tmp_path, NOW_S + 1000)
    assert read_keys(tmp_path, NOW_S + 1000 + 2 * CACHE_S - 1).private.keys() == {old, new}
    assert read_keys(tmp_path, NOW_S + 1000 + 2 * CACHE_S).private.keys() == {new}
    assert len(list(tmp_path.iterdir())) == 2
    newest = rotate_key(tmp_path, NOW_S + 1000 + 2 * CACHE_S)
    assert {path.name for path in tmp_path.iterdir()} == {f"hpke-{each:03}.json" for each in (new, newest)}


def test_clock_that_goes_back_leaves_all_keys_to_be_opened(tmp_path: Path) -> None:
    """Devices are told of one that is there; a rotation at that time still makes the newest."""
    old = _current(read_keys(tmp_path, NOW_S))
    new = rotate_key(tmp_path, NOW_S + 1000)
    ring = read_keys(tmp_path, NOW_S - 10**8)
    assert (set(ring.private), _current(ring)) == ({old, new}, old)
    newest = rotate_key(tmp_path, NOW_S - 10**8)
    assert _current(read_keys(tmp_path, NOW_S + 10**6)) == newest


@pytest.mark.parametrize("content", ["", "{}", '{"config_id": 7, "created_at_s": 1, "private_key": "AA=="}', "[]"])
def test_file_that_is_no_key_is_refused_and_not_replaced(tmp_path: Path, content: str) -> None:
    """What was sealed to a key that is damaged could never be opened under a new one."""
    path = tmp_path / "hpke-007.json"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(AggregatorFileError, match="backup"):
        read_keys(tmp_path, NOW_S)
    with pytest.raises(AggregatorFileError):
        rotate_key(tmp_path, NOW_S)
    assert path.read_text() == content

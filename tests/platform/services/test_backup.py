"""A server whose data folder was restored from an older backup does not start, and says what to do."""

import shutil
from pathlib import Path

import pytest
from alcove.platform.testing import ServerWorld

FEATURE = "text_00"


@pytest.mark.thorough
def test_server_with_a_restored_data_folder_does_not_start_and_says_why(tmp_path: Path) -> None:
    """It names what its tree says, what it has published, and what to do; with the newer files it starts again."""
    world = ServerWorld(tmp_path / "world")
    served = world.start("--only", "grpc")
    with world.client(served, "team:text") as team:
        world.publish(team, FEATURE, "1.0.0")
    assert served.stop() == 0
    shutil.copytree(world.data_dir, tmp_path / "backup")
    served = world.start("--only", "grpc")
    with world.client(served, "team:text") as team:
        world.publish(team, FEATURE, "2.0.0")
    assert served.stop() == 0
    shutil.copytree(world.data_dir / "tree", tmp_path / "mirror")
    shutil.rmtree(world.data_dir)
    shutil.copytree(tmp_path / "backup", world.data_dir)
    with pytest.raises(RuntimeError, match=r"restored from an old copy; bring the newer files back from a mirror"):
        world.start("--only", "grpc")
    shutil.copytree(tmp_path / "mirror", world.data_dir / "tree", dirs_exist_ok=True)
    served = world.start("--only", "grpc")
    try:
        with world.client(served, "team:text") as team:
            assert [version.version for version in team.versions(FEATURE)] == ["1.0.0", "2.0.0"]
    finally:
        assert served.stop() == 0

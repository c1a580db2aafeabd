"""The tutorial notebook runs from top to bottom against a real server, and ships without outputs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.testing import ServerWorld

NOTEBOOK = "docs/tutorials/notebook.ipynb"


def read(repository: Path) -> dict[str, Any]:
    """The notebook."""
    found: dict[str, Any] = json.loads((repository / NOTEBOOK).read_text(encoding="utf-8"))
    return found


def test_the_notebook_ships_without_outputs(repository: Path) -> None:
    """Nobody's results, paths or counts are in it; its format is nbformat 4.5, each cell with an id of its own."""
    notebook = read(repository)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])


@pytest.mark.thorough
def test_the_notebook_runs_cell_by_cell(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder as the tutorial for automation leaves it; the larger version wins, and each figure is drawn."""
    pytest.importorskip("matplotlib")
    world = ServerWorld(tmp_path / "world", teams={"language": ("language_id",)})
    served = world.start()
    (tmp_path / "server").symlink_to(world.data_dir)
    (tmp_path / "operator.token").write_text(world.token("operator"))
    with world.client(served, "team:language") as team:
        for version in ("1.0.0", "4.1.0"):
            world.publish(team, "language_id", version)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("ALCOVE_SERVER", served.grpc_address)
    monkeypatch.setenv("ALCOVE_DEVICES", served.http_url.removeprefix("http://"))
    namespace: dict[str, Any] = {}
    try:
        for cell in read(repository)["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), f"{NOTEBOOK}:{cell['id']}", "exec"), namespace)
    finally:
        if "client" in namespace:
            namespace["client"].close()
        assert served.stop() == 0
    assert capsys.readouterr().out.startswith("winner - ")
    assert namespace["results"].results.report_count == 600
    assert "larger wins" in namespace["results"].plot().get_suptitle()
    assert "no reports yet" in [text.get_text() for text in namespace["rollout"].plot().axes[0].texts]
    assert os.environ["MPLBACKEND"] == "Agg"

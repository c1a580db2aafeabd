"""The documentation site builds without a warning, has its generated reference, and loads nothing from another host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough  # the site takes half a minute to build


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a broken link or anchor is an error."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "tools/view.py"], cwd=repository, check=True, capture_output=True)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=repository, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_reference_has_every_public_name_method_and_function(repository: Path, site: Path) -> None:
    """Names of the SDK, methods of the services, functions of alcove.h, and commands."""
    header = (repository / "runtime/native/include/alcove.h").read_text("utf-8")
    protos = "\n".join(path.read_text("utf-8") for path in (repository / "proto").rglob("*.proto"))
    expected = {
        "python": ['id="alcove.sdk.Client"', 'id="alcove.runtime.export"', 'id="alcove.registry.policy.resolve"'],
        "c": sorted(set(re.findall(r"\b(alcove_\w+)\(", header))),
        "grpc": re.findall(r"^  rpc (\w+)\(", protos, re.MULTILINE),
        "commands": ["alcove rollout create", "alcove model export", "--token-file"],
    }
    for page, names in expected.items():
        text = (site / f"reference/{page}.html").read_text("utf-8")
        assert names
        assert not [name for name in names if name not in text], page


def test_links_out_of_the_documents_stay_in_the_site_or_become_text(site: Path) -> None:
    """README links to the pages of docs/, and a page that names a source file does not link to nothing."""
    assert 'href="../tutorials/app.html"' in (site / "project/index.html").read_text("utf-8")
    assert "alcove.h</a>" not in (site / "reference/index.html").read_text("utf-8")


def test_no_page_loads_from_another_host(site: Path) -> None:
    """Scripts, styles, fonts and pictures are files of the site."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        text = page.read_text("utf-8")
        loaded = re.findall(r"<(?:script|img)\b[^>]*\bsrc=\"?([^\s\">]+)|<link\b[^>]*\bhref=\"?([^\s\">]+)", text)
        assert loaded
        assert not [address for pair in loaded for address in pair if address.startswith(("http:", "https:", "//"))], (
            page
        )

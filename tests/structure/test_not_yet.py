"""What docs/architecture.md says is missing is still missing: each line of "Not yet" is tried."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from alcove.runtime import export
from alcove.runtime.errors import ExportError

ROOT = Path(__file__).resolve().parents[2]


def read(*patterns: str) -> str:
    """The text of all files that match."""
    return "\n".join(
        path.read_text(encoding="utf-8")
        for pattern in patterns
        for path in sorted(ROOT.glob(pattern))
        if path.is_file()
    )


def has_no_attestor_of_a_platform() -> bool:
    """The one class that verifies evidence is for tests."""
    found = re.findall(r"^class (\w*Attestor)\b", read("platform/**/*.py"), re.MULTILINE)
    return sorted(found) == ["Attestor", "SoftwareAttestor"]


def has_no_rpc_for_min_versions_and_reinstatements() -> bool:
    """No method of any service sets a minimum version or reinstates one."""
    return not re.search(r"rpc \w*(Floor|Lift|MinVersion|Reinstate)\w*", read("proto/**/*.proto"))


def has_a_note_for_each_server() -> bool:
    """The note of what was published is a file of the server's folder, not a row."""
    return "published.json" in read("registry/*.py") and "published.json" not in read("platform/store/**/*.py")


def has_no_time_on_arm() -> bool:
    """No figure is of an ARM machine."""
    return not re.search(r"aarch64|arm64|cortex|graviton", read("docs/performance.md"), re.IGNORECASE)


class Packed(torch.nn.Module):
    """A recurrent layer over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.GRU(4, 4, batch_first=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return as many steps as the longest sequence has."""
        x_packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        padded: torch.Tensor = torch.nn.utils.rnn.pad_packed_sequence(self.layer(x_packed)[0])[0]
        return padded


class Gamma(torch.nn.Module):
    """The incomplete gamma function."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return it."""
        made: torch.Tensor = torch.special.gammainc(x, x)
        return made


def has_no_packed_sequences() -> bool:
    """The exporter refuses both."""
    with pytest.raises(ExportError, match="total_length"):
        export(Packed().eval(), (torch.ones(2, 3, 4), torch.tensor([3, 2])))
    with pytest.raises(ExportError, match="igamma"):
        export(Gamma().eval(), (torch.ones(2, 3),))
    return True


class Copy(torch.nn.Module):
    """A module of one operator."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return twice the input."""
        return x * 2


CLAIMS: dict[str, Callable[[], bool]] = {
    "Attestors of platforms": has_no_attestor_of_a_platform,
    "Minimum versions and reinstatements over gRPC": has_no_rpc_for_min_versions_and_reinstatements,
    "One note of what was published for several servers": has_a_note_for_each_server,
    "Speed on ARM": has_no_time_on_arm,
    "Operators": has_no_packed_sequences,
}


def test_each_line_of_not_yet_is_tried(repository: Path) -> None:
    """The section and the table name the same things: nothing is claimed missing without a try."""
    section = (repository / "docs/architecture.md").read_text(encoding="utf-8").split("## Not yet")[1].split("\n## ")[0]
    assert re.findall(r"^- \*\*(.+?)\*\*", section, re.MULTILINE) == list(CLAIMS)
    assert len(re.findall(r"^- ", section, re.MULTILINE)) == len(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_is_said_to_be_missing_is_missing(claim: str) -> None:
    """Where this fails something was built: take the line out of docs/architecture.md, and its try out of here."""
    assert CLAIMS[claim]()

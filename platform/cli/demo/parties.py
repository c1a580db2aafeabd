"""Says what each party of the demo held and could learn, from what the run counted and read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alcove.platform.cli.demo.result import Party

if TYPE_CHECKING:
    from alcove.platform.cli.demo.result import BatchOutcome


def describe_parties(batch: BatchOutcome, epsilon: str) -> list[Party]:
    """Return a line for each party, of one batch.

    Args:
        batch: as the demo has followed it; it read the databases of all parties.
        epsilon: of the release.
    """
    shares = f"{batch.acknowledged:,} reports, its half of each; no number of its sums is shorter than"
    return [
        Party("a device", "what its person wrote, its answers, its cell", "nothing: a report gets no answer"),
        Party(
            "leader",
            f"{shares} {batch.least_share_bits} bits, where counts have 14",
            "when a device reported, and its address; no cell",
        ),
        Party(
            "helper",
            f"the other halves of the same reports (one checksum of their ids); likewise {batch.least_share_bits} bits",
            "how many reports there are; no cell",
        ),
        Party(
            "leader and helper together",
            "both halves: the demo added them up, and got the true counts",
            "every report: they must not be one party",
        ),
        Party(
            "issuer of tokens",
            f"{batch.tokens_issued:,} rows: an installation has its token for a task and a window",
            f"who takes part; its rows tell {batch.tokens_recognized} of the {batch.tokens_spent:,} tokens spent",
        ),
        Party(
            "server",
            f"{batch.cells} sums of {batch.released:,} reports; of one device {batch.single_reports_at_server} reports",
            f"counts that are off by up to {batch.largest_noise} (ε = {epsilon} for all that it learns of a window)",
        ),
    ]

"""What was planned about an experiment, and what decides it?"""

from dataclasses import dataclass

from alcove.platform.core.rollout_records import GuardrailRecord

__all__ = ["ExperimentPlan"]


@dataclass(frozen=True)
class ExperimentPlan:
    """How an experiment is decided and how large it has to be; 0 where nothing was said or nothing is known.

    Attributes:
        primary: what decides, as `platform.stats.PrimaryKind` spells it.
        quantile: of a latency that decides; None for the others.
        guardrails: what the winner must not make worse.
        mde: smallest difference that shall be found: a share, or milliseconds.
        base_rate: expected accepted share of the control, in (0, 1); 0: a half, the worst case.
        expected_devices: devices that will take part, in all arms together.
        devices_needed: devices, in all arms together, that find `mde` in one window; 0: none do, or no `mde`.
        days_needed: days in which `expected_devices` find it; 0: they don't within what they may spend in 30 days.
        detectable: smallest difference that `expected_devices` find within what they may spend in 30 days.
        planned_reports: reports at which the intervals are tightest; 0: the server's default.
    """

    primary: str = "accepted"
    quantile: float | None = None
    guardrails: tuple[GuardrailRecord, ...] = ()
    mde: float = 0.0
    base_rate: float = 0.0
    expected_devices: int = 0
    devices_needed: int = 0
    days_needed: int = 0
    detectable: float = 0.0
    planned_reports: int = 0

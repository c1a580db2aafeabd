"""Provides pure codecs and rules for private reports: Prio3, HPKE, DAP, noise, tokens, randomizers, ledger."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.privacy.budget import BudgetLimits, Cap
    from alcove.privacy.entropy import Entropy, OsEntropy
    from alcove.privacy.errors import (
        AlcovePrivacyError,
        AlreadyReportedError,
        BudgetExceededError,
        DapMessageError,
        HpkeError,
        LedgerError,
        LedgerStorageError,
        MessageError,
        ObliviousKeyError,
        ObliviousMessageError,
        ParameterError,
        ReportFormatError,
        TokenError,
        TokenIssuanceError,
        TokenKeyError,
        TokenMessageError,
        TokenVerificationError,
        VdafDecodeError,
        VdafError,
        VdafVerificationError,
    )
    from alcove.privacy.ledger import Debit, Ledger, LogFile, Spending
    from alcove.privacy.randomized_response import RandomizedResponse
    from alcove.privacy.report import Report, SubsetReport, parse_report, report_from_bytes, report_to_bytes
    from alcove.privacy.subset_selection import SubsetSelection, best_subset_size

__all__ = [
    "AlcovePrivacyError",
    "AlreadyReportedError",
    "BudgetExceededError",
    "BudgetLimits",
    "Cap",
    "DapMessageError",
    "Debit",
    "Entropy",
    "HpkeError",
    "Ledger",
    "LedgerError",
    "LedgerStorageError",
    "LogFile",
    "MessageError",
    "ObliviousKeyError",
    "ObliviousMessageError",
    "OsEntropy",
    "ParameterError",
    "RandomizedResponse",
    "Report",
    "ReportFormatError",
    "Spending",
    "SubsetReport",
    "SubsetSelection",
    "TokenError",
    "TokenIssuanceError",
    "TokenKeyError",
    "TokenMessageError",
    "TokenVerificationError",
    "VdafDecodeError",
    "VdafError",
    "VdafVerificationError",
    "best_subset_size",
    "parse_report",
    "report_from_bytes",
    "report_to_bytes",
]

# Loaded on first use: an app that reports nothing loads none of it.
_HOMES = {
    "budget": ("BudgetLimits", "Cap"),
    "entropy": ("Entropy", "OsEntropy"),
    "errors": (
        "AlcovePrivacyError",
        "AlreadyReportedError",
        "BudgetExceededError",
        "DapMessageError",
        "HpkeError",
        "LedgerError",
        "LedgerStorageError",
        "MessageError",
        "ObliviousKeyError",
        "ObliviousMessageError",
        "ParameterError",
        "ReportFormatError",
        "TokenError",
        "TokenIssuanceError",
        "TokenKeyError",
        "TokenMessageError",
        "TokenVerificationError",
        "VdafDecodeError",
        "VdafError",
        "VdafVerificationError",
    ),
    "ledger": ("Debit", "Ledger", "LogFile", "Spending"),
    "randomized_response": ("RandomizedResponse",),
    "report": ("Report", "SubsetReport", "parse_report", "report_from_bytes", "report_to_bytes"),
    "subset_selection": ("SubsetSelection", "best_subset_size"),
}


def __getattr__(name: str) -> object:
    """Return a public name from the module that defines it."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

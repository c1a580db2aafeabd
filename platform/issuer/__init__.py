"""Provides the issuer of anonymous tokens: it enrolls installations, and gives each one token for a task and window.

The issuer knows which installation takes part in which task and window. It cannot tell which report is whose: it signs
what it does not see (`alcove.privacy.tokens`).
"""

from alcove.platform.issuer.attestation import (
    Attestor,
    SoftwareAttestor,
    make_software_evidence,
    read_attestation_key,
)
from alcove.platform.issuer.issuer import TokenIssuer

__all__ = ["Attestor", "SoftwareAttestor", "TokenIssuer", "make_software_evidence", "read_attestation_key"]

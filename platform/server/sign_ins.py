"""Has the ways in which people sign in to the console without a token, as the settings open them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.platform.domain.errors import InvalidFieldError, ProviderSettingsError
from alcove.platform.domain.principal import Role
from alcove.platform.server.console_certificates import ConsoleCertificates
from alcove.platform.server.identity import CertificateList
from alcove.platform.server.provider import Provider, ProviderSettings
from alcove.registry.keys import check_private_file
from alcove.runtime.clock import Clock

if TYPE_CHECKING:
    from alcove.platform.server.settings import Settings

__all__ = ["CALLBACK", "SignIns", "open_sign_ins", "read_claim_roles"]

CALLBACK = "/sign-in/oidc/callback"  # of the console
SIGNED_OUT = "/sign-in"  # of the console, after a sign-out at the provider
MAX_SECRET_LENGTH = 1024  # characters of a client's secret


@dataclass(frozen=True)
class SignIns:
    """Ways to sign in.

    Attributes:
        certificates: by which people sign in; None: this way is off.
        provider: of OpenID Connect; None: this way is off.
        claim_roles: file of roles by claim, read again at each sign-in; None: accesses alone count.
    """

    certificates: ConsoleCertificates | None = None
    provider: Provider | None = None
    claim_roles: Path | None = None


def open_sign_ins(
    settings: "Settings", console_url: str, certificates: CertificateList | None, clock: Clock
) -> SignIns:
    """Return the ways that the settings open.

    Args:
        settings: of the server.
        console_url: address of the console, without a path.
        certificates: roles of client certificates.
        clock: says what has expired.

    Raises:
        ProviderSettingsError: a file of the provider is none, or the libraries are not there.
        KeyFileError: others may read the client's secret.
        TlsFilesError, OSError: the client CA cannot be read.
    """
    by_certificate = None
    if settings.console_certificates and settings.client_ca is not None and certificates is not None:
        by_certificate = ConsoleCertificates(settings.client_ca, certificates)
    if settings.oidc_issuer is None or settings.oidc_client_id is None:
        return SignIns(by_certificate)
    if settings.oidc_roles is not None:
        read_claim_roles(settings.oidc_roles)
    provider = Provider(
        ProviderSettings(
            settings.oidc_issuer,
            settings.oidc_client_id,
            "" if settings.oidc_client_secret_file is None else _read_secret(settings.oidc_client_secret_file),
            f"{console_url}{CALLBACK}",
            settings.oidc_role_claim,
            f"{console_url}{SIGNED_OUT}",
        ),
        clock,
    )
    return SignIns(by_certificate, provider, settings.oidc_roles)


def read_claim_roles(path: Path | None) -> Mapping[str, Role]:
    """Return the roles of a file {"alcove-operators": "operator", …}, in its order; none without a file.

    Raises:
        ProviderSettingsError: it cannot be read, is no such list, or gives a role that there is not.
    """
    if path is None:
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not all(isinstance(role, str) for role in content.values()):
            raise ProviderSettingsError(str(path), 'expected {"claim": "role", …}')
        return {claim: Role.parse(role) for claim, role in content.items()}
    except (OSError, ValueError, InvalidFieldError) as error:
        raise ProviderSettingsError(str(path), str(error)) from None


def _read_secret(path: Path) -> str:
    check_private_file(path)
    secret = path.read_text(encoding="utf-8").strip()
    if not 1 <= len(secret) <= MAX_SECRET_LENGTH or not secret.isprintable():
        raise ProviderSettingsError(str(path), f"expected one line of 1 to {MAX_SECRET_LENGTH} characters")
    return secret

"""Defines the settings of the process that answers devices."""

import json
from pathlib import Path
from typing import Annotated, Final, Self

from alcove.platform.listening.settings import ListenerSettings
from alcove.platform.store.database import database_of
from alcove.registry.policy.aggregation import TokenIssuerUrl
from pydantic import AfterValidator, Field, SecretStr, model_validator

__all__ = ["BlobsUrl", "IngressSettings"]

_STORES: Final = ("s3://", "gs://", "az://", "file://")


def _validate_blobs(text: str) -> str:
    if not text.startswith(_STORES):
        msg = f"a URL that begins with {', '.join(_STORES[:-1])} or {_STORES[-1]}"
        raise ValueError(msg)
    return text


BlobsUrl = Annotated[str, AfterValidator(_validate_blobs)]
"""URL of a store of blobs."""


class IngressSettings(ListenerSettings):
    """Folders, addresses and limits of the devices' process.  It needs no key that signs what devices run.

    Attributes:
        data_dir: database and signed tree.
        database_url: a PostgreSQL database as libpq reads it, in the place of the file in `data_dir`.
        blobs: URL of the store of programs and cards, in the place of the tree's own folder.
        http_port: for devices; 0: any free port.
        reports_per_second: reports accepted a second, from all devices together.
        bodies_per_second: bodies of reports read a second, good or bad.
        token_issuer: the address at which this server issues tokens, as tasks name it; its path is a path of this
            process. None: it issues none.
        software_attestation: file with the public key (PEM, Ed25519) of the software attestor, which believes all that
            this key signs: for tests and demonstrations. None: there is no attestor.
        tokens_per_second: requests of enrollment and issuance answered a second, from all devices together.
    """

    data_dir: Path
    database_url: SecretStr | None = None
    blobs: BlobsUrl | None = None
    http_port: Annotated[int, Field(ge=0, le=65535)] = 7480
    reports_per_second: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    bodies_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 5000
    token_issuer: TokenIssuerUrl | None = None
    software_attestation: Path | None = None
    tokens_per_second: Annotated[int, Field(ge=1, le=1_000_000)] = 200

    @model_validator(mode="after")
    def _validate_issuer(self) -> Self:
        if (self.token_issuer is None) != (self.software_attestation is None):
            msg = "an issuer of tokens has an attestor (software_attestation), and an attestor an issuer (token_issuer)"
            raise ValueError(msg)
        return self

    @property
    def database(self) -> Path | str:
        """URL of the database; it may hold a password."""
        return database_of(self.data_dir, None if self.database_url is None else self.database_url.get_secret_value())

    @property
    def tree(self) -> Path:
        """The static tree that devices read."""
        return self.data_dir / "tree"

    def to_json(self) -> str:
        """Return all of it in one line, the database's URL included: for a pipe, never for a log."""
        plain = self.model_dump(mode="json")
        plain["database_url"] = None if self.database_url is None else self.database_url.get_secret_value()
        return json.dumps(plain)

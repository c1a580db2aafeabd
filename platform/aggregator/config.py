"""Defines what an aggregator is configured with: who the parties are, their secrets, and its own rules.

One file of JSON, mode 0600, made by `alcove aggregator create`. The HPKE keys are not in it: each aggregator makes its
own, so nobody who wrote the file can read a report.
"""

import base64
import json
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

from alcove.platform.domain.errors import AggregatorFileError
from alcove.privacy import hpke
from alcove.privacy.dap.messages import HpkeConfig, Role
from alcove.privacy.dap.reports import make_config
from alcove.privacy.dap.rules import MIN_BATCH_SIZE, MIN_WINDOW_S, TaskRules
from alcove.privacy.dap.task import VERIFY_KEY_BYTES
from alcove.registry.keys import check_private_file
from alcove.registry.policy import Aggregation
from alcove.runtime.files import read_bounded
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

__all__ = ["AggregatorConfig", "CollectorKey", "Seat", "Token", "read_config", "read_private_json"]

MAX_CONFIG_BYTES: Final = 65_536


class Seat(StrEnum):
    """Which of the two aggregators a process is."""

    LEADER = "leader"
    HELPER = "helper"

    @property
    def role(self) -> Role:
        """The role of the seat in messages."""
        return Role.LEADER if self is Seat.LEADER else Role.HELPER


def _check_secret(text: SecretStr) -> SecretStr:
    if len(base64.b64decode(text.get_secret_value(), validate=True)) != VERIFY_KEY_BYTES:
        message = f"a secret is {VERIFY_KEY_BYTES} bytes in base64"
        raise ValueError(message)
    return text


Secret = Annotated[SecretStr, AfterValidator(_check_secret)]
Token = Annotated[SecretStr, Field(min_length=32, max_length=256)]


class CollectorKey(BaseModel):
    """The collector's public HPKE key.

    Attributes:
        config_id: of its configuration.
        public_key: base64 of X25519's 32 bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    config_id: Annotated[int, Field(ge=0, le=255)]
    public_key: str

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if len(base64.b64decode(self.public_key, validate=True)) != hpke.KEY_BYTES:
            message = f"public_key is {hpke.KEY_BYTES} bytes in base64"
            raise ValueError(message)
        return self

    @property
    def config(self) -> HpkeConfig:
        """The configuration in the form of messages."""
        return make_config(self.config_id, base64.b64decode(self.public_key))


class AggregatorConfig(Aggregation):
    """What one aggregator is configured with: the two of them as tasks name them, its seat, its secrets, its rules.

    Attributes:
        seat: which one it is.
        verify_secret: from which both derive the tasks' verification keys; no client, collector or stranger has it.
        leader_token: by which the helper knows the leader.
        collector_token: by which the leader knows the collector; the helper has none.
        collector: to whom sums are released.
        min_window_s: shortest window, in seconds.
        max_epsilon: largest privacy loss of one window.
    """

    seat: Seat
    verify_secret: Secret
    leader_token: Token
    collector_token: Token | None = None
    collector: CollectorKey
    min_batch_size: Annotated[int, Field(ge=MIN_BATCH_SIZE)] = MIN_BATCH_SIZE
    min_window_s: Annotated[int, Field(ge=MIN_WINDOW_S)] = MIN_WINDOW_S
    max_epsilon: Annotated[str, Field(pattern=r"^[1-9][0-9]{0,2}(/[1-9][0-9]{0,2})?$")] = "2"

    @model_validator(mode="after")
    def _validate_seat(self) -> Self:
        if (self.seat is Seat.LEADER) != (self.collector_token is not None):
            raise ValueError("the leader has a collector_token, the helper has none")
        return self

    def to_json(self) -> str:
        """Return all of it, the secrets included: for a file that only its owner reads, never for a log."""
        plain = self.model_dump(mode="json", exclude_none=True)
        for name in ("verify_secret", "leader_token", "collector_token"):
            secret = getattr(self, name)
            if secret is not None:
                plain[name] = secret.get_secret_value()
        return json.dumps(plain, indent=2)

    @property
    def rules(self) -> TaskRules:
        """Bounds on the tasks that it takes part in."""
        return TaskRules(self.min_batch_size, self.min_window_s, Fraction(self.max_epsilon))

    @property
    def secret(self) -> bytes:
        """The verification secret's bytes."""
        return base64.b64decode(self.verify_secret.get_secret_value())


def read_config(path: Path) -> AggregatorConfig:
    """Return an aggregator's configuration.

    Raises:
        KeyFileError, AggregatorFileError: as `read_private_json`.
    """
    return read_private_json(path, AggregatorConfig)


_Model = TypeVar("_Model", bound=BaseModel)


def read_private_json(path: Path, kind: type[_Model]) -> _Model:
    """Return what a file of secrets holds.

    Raises:
        KeyFileError: it is absent, or others may read it.
        AggregatorFileError: it is something else; the error names the field, never a value.
    """
    check_private_file(path)
    try:
        return kind.model_validate_json(read_bounded(path, MAX_CONFIG_BYTES) or b"")
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the file"
        raise AggregatorFileError(path, f"{place}: {fault['msg'].removeprefix('Value error, ')}") from None

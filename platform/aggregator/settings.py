"""Defines the settings of an aggregator's process."""

from pathlib import Path
from typing import Annotated

from alcove.platform.aggregator.provisioning import AGGREGATOR_FILE
from alcove.platform.aggregator.store.database import DATABASE_FILE
from alcove.platform.listening.settings import ListenerSettings
from pydantic import Field, SecretStr

__all__ = ["AggregatorSettings"]


class AggregatorSettings(ListenerSettings):
    """Folders, addresses and limits of an aggregator.

    Attributes:
        data_dir: database, HPKE keys and, unless named elsewhere, the configuration; for this aggregator alone.
        config: the configuration (`AggregatorConfig`), mode 0600; None: aggregator.json in `data_dir`.
        database_url: a PostgreSQL database as libpq reads it, in the place of the file in `data_dir`.
        port: for devices and partners; 0: any free port; None: that of the aggregator's own URL where nothing stands
            between (`http://`, which is this machine), else the usual one of the seat.
    """

    data_dir: Path
    config: Path | None = None
    database_url: SecretStr | None = None
    port: Annotated[int, Field(ge=0, le=65535)] | None = None

    @property
    def config_path(self) -> Path:
        """Where the configuration is."""
        return self.config or self.data_dir / AGGREGATOR_FILE

    @property
    def keys_folder(self) -> Path:
        """Where the HPKE keys are."""
        return self.data_dir / "keys"

    @property
    def gateway_keys_folder(self) -> Path:
        """Where the keys are that encapsulated requests are sealed to."""
        return self.data_dir / "gateway_keys"

    @property
    def database(self) -> Path | str:
        """Where the rows are; it may hold a password."""
        return self.data_dir / DATABASE_FILE if self.database_url is None else self.database_url.get_secret_value()

"""Reads the server's two aggregators from a file."""

from pathlib import Path

from alcove.platform.domain.errors import AggregatorFileError
from alcove.registry.policy import Aggregation
from pydantic import ValidationError

__all__ = ["read_aggregators"]


def read_aggregators(path: Path) -> Aggregation:
    """Return the aggregators that a JSON file names: {"leader_url": …, "helper_url": …, "min_batch_size": …}.

    Raises:
        AggregatorFileError: it cannot be read, or a field is missing, unknown or out of its bounds.
    """
    try:
        return Aggregation.model_validate_json(path.read_bytes())
    except OSError as error:
        raise AggregatorFileError(path, error.strerror or str(error)) from None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"])) or "the file"
        raise AggregatorFileError(path, f"{where}: {fault['msg'].removeprefix('Value error, ')}") from None

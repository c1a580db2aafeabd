"""Reads settings from a command line: one option for each field of the model."""

import argparse
import sys
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

__all__ = ["settings_from"]

_Settings = TypeVar("_Settings", bound=BaseModel)


def settings_from(
    arguments: Sequence[str] | None, kind: type[_Settings], *, prog: str, description: str | None
) -> _Settings | None:
    """Return the settings that the options say, or None after telling on standard error which one is wrong."""
    parser = argparse.ArgumentParser(
        prog=prog, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, field in kind.model_fields.items():
        parser.add_argument(f"--{name.replace('_', '-')}", dest=name, required=field.is_required())
    given = {name: value for name, value in vars(parser.parse_args(arguments)).items() if value is not None}
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        sys.stderr.write(f"--{'.'.join(map(str, fault['loc'])).replace('_', '-')}: {fault['msg']}\n")
        return None

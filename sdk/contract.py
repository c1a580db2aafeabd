"""Defines what a caller gets for the outputs of a program: a feature's typed value, or plain lists.

A feature with a contract in `alcove.features` decodes them to its own typed value.  Any other feature is generic: its
value is a mapping from the names in its signature to plain lists, numbers as Python numbers, labels as text.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from alcove.sdk.engine import Runnable

T_co = TypeVar("T_co", covariant=True)


class Contract(Protocol[T_co]):
    """A typed feature: `alcove.features.language_id.LanguageId`, or an app's own."""

    @property
    def name(self) -> str:
        """Return the feature's name."""
        ...

    def decode(self, outputs: list[Any]) -> T_co:
        """Return the value of one run's outputs; raises for outputs that are not this feature's."""
        ...


def known_contracts() -> Mapping[str, Contract[Any]]:
    """Return the contracts that alcove brings, by feature."""
    from alcove.features import catalogue  # noqa: PLC0415 - its features load pydantic

    contracts: Mapping[str, Contract[Any]] = catalogue()
    return contracts


def default_baseline(contract: object) -> Path | None:
    """Return the program that a contract brings along, if it does."""
    path = getattr(contract, "default_program", None)
    return Path(path) if path is not None else None


def decoder_of(contract: Contract[Any] | None) -> Callable[[Runnable, list[Any]], Any]:
    """Return what makes a value of a program's outputs: the contract, or for None their names and nested lists."""
    if contract is None:
        return _generic_value
    return lambda _, outputs: contract.decode(outputs)


def _generic_value(model: Runnable, outputs: list[Any]) -> dict[str, Any]:
    return {port.name: output.tolist() for port, output in zip(model.outputs, outputs, strict=True)}

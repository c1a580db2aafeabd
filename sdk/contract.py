"""Defines what a caller gets for the outputs of a program: a feature's typed value, or plain lists.

A feature with a contract in `alcove.features` decodes them to its own typed value.  Any other feature is generic: its
value is a mapping from the names in its signature to plain lists, numbers as Python numbers, labels as text.

A contract with a `signature`, such as `alcove model stub` writes, is answered by programs of that signature alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, TypeVar

from alcove.registry.compatibility import differences
from alcove.sdk.engine import Runnable
from alcove.sdk.ports import Port, ports_of

if TYPE_CHECKING:
    from alcove.features import Framing

P = ParamSpec("P")
F_contra = TypeVar("F_contra", contravariant=True)
V_co = TypeVar("V_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Signature:
    """What an app calls a feature with and reads of it, in order.

    Attributes:
        inputs: what it takes.
        outputs: what it gives.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def mismatch(self, model: Runnable) -> str:
        """Return what this app would trip over in a program, for people; "" where nothing.

        Source: `alcove.registry.compatibility`, by which versions are validated and installed.
        """
        return "; ".join(differences(self, Signature(ports_of(model.inputs), ports_of(model.outputs))))


class Contract(Protocol[T_co]):
    """A typed feature: `alcove.features.language_id.LanguageId`, or an app's own."""

    @property
    def name(self) -> str:
        """Return the feature's name."""
        ...

    def decode(self, outputs: list[Any]) -> T_co:
        """Return the value of one run's outputs; raises for outputs that are not this feature's."""
        ...


class TypedContract(Protocol[P, T_co]):
    """A contract whose inputs have types too; `alcove model stub` writes one."""

    signature: ClassVar[Signature]

    @property
    def name(self) -> str:
        """Return the feature's name."""
        ...

    def encode(self, *args: P.args, **kwargs: P.kwargs) -> tuple[Any, ...]:
        """Return the program's inputs."""
        ...

    def decode(self, outputs: list[Any]) -> T_co:
        """Return the value of one run's outputs; raises for outputs that are not this feature's."""
        ...


class StreamingContract(Protocol[F_contra, V_co, T_co]):
    """A contract with a framing: `handle.stream()` takes and gives what that does, `predict` what the contract does."""

    @property
    def name(self) -> str:
        """Return the feature's name."""
        ...

    def decode(self, outputs: list[Any]) -> T_co:
        """Return the value of one run's outputs; raises for outputs that are not this feature's."""
        ...

    def framing(self) -> "Framing[F_contra, V_co]":
        """Return the framing of a new stream."""
        ...


def signature_of(contract: object) -> Signature | None:
    """Return the signature that a contract asks for; None: any."""
    signature = getattr(contract, "signature", None)
    return signature if isinstance(signature, Signature) else None


def known_contracts() -> Mapping[str, Contract[Any]]:
    """Return the contracts that alcove brings, by feature."""
    from alcove.features import catalogue  # noqa: PLC0415 - its features load numpy

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

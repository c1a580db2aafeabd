"""Describes what this device can do, and chooses the variant of a version that is for it.

Of the variants whose requirements the device meets, the one that needs the most is taken: most memory, then most cores,
then the latest instruction set, then the first by name.  A version should have one variant without requirements, for
all others.

The answer never depends on a user, an arm or a past choice: devices alike fetch alike.  Which variant a device fetches
tells what it has, so memory and cores are compared in steps: a device is as one with the step below.
"""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from alcove.registry.policy.attributes import memory_step
from alcove.sdk.errors import NoVariantError

if TYPE_CHECKING:
    from alcove.registry.manifest import Manifest, Requirements, Variant


CORE_STEPS: Final = (1, 2, 4, 6, 8, 12, 16, 32, 64, 128)
"""Numbers of cores between which devices are not distinguished."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What a device has.

    Attributes:
        isas: instruction sets that it runs, the earliest first.
        memory_bytes: of the machine, or what this process is held to.
        cores: that this process may use.
    """

    isas: tuple[str, ...]
    memory_bytes: int
    cores: int

    def coarse(self) -> "Capability":
        """Return what variants are chosen by: memory and cores down to their steps."""
        mebibytes = memory_step(self.memory_bytes >> 20)
        cores = max((step for step in CORE_STEPS if step <= self.cores), default=self.cores)
        return replace(self, memory_bytes=mebibytes << 20, cores=cores)

    def meets(self, requirements: "Requirements | None") -> bool:
        """Tell whether a variant with these requirements runs well here."""
        if requirements is None:
            return True
        has_isa = not requirements.isa or requirements.isa in self.isas
        return has_isa and requirements.memory_bytes <= self.memory_bytes and requirements.cores <= self.cores

    def order(self, variant: "Variant") -> tuple[int, int, int, str]:
        """Return what variants are chosen by, the least first."""
        requirements = variant.requirements
        if requirements is None:
            return 0, 0, 0, variant.name
        isa = self.isas.index(requirements.isa) + 1 if requirements.isa else 0
        return -requirements.memory_bytes, -requirements.cores, -isa, variant.name


def this_machine(isas: tuple[str, ...]) -> Capability:
    """Return what the machine says of itself.

    Args:
        isas: that the runtime found.
    """
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Capability(isas, memory_bytes, cores)


def choose_variant(manifest: "Manifest", capability: Capability) -> "Variant":
    """Return the variant of a version that is for this device.

    Raises:
        NoVariantError: none is.
    """
    capability = capability.coarse()
    fitting = [each for each in manifest.variants if capability.meets(each.requirements)]
    if not fitting:
        subject = {"feature": manifest.feature, "version": manifest.version}
        raise NoVariantError(**subject, variants=[_describe(each) for each in manifest.variants])
    return min(fitting, key=capability.order)


def _describe(variant: "Variant") -> str:
    return variant.name if variant.requirements is None else f"{variant.name} ({variant.requirements})"

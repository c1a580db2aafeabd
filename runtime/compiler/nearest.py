"""What is the nearest supported form of a torch operator that has no rule?"""

import difflib
from collections.abc import Mapping
from typing import Final

from alcove.runtime.compiler.rules import RULES

NEAREST: Final[Mapping[str, str]] = {
    "bernoulli": "draw random numbers outside the program and pass them in",
    "cond": "compute both sides and choose with torch.where",
    "masked_select": "the size of the result depends on data: keep the whole tensor and weight it by the mask",
    "mode": "median, or the argmax of a count of each value: (x.unsqueeze(-1) == values).sum(0)",
    "native_dropout": "call module.eval() before export",
    "nonzero": "the size of the result depends on data: keep the mask, or take topk of it",
    "rand": "draw random numbers outside the program and pass them in",
    "randint": "draw random numbers outside the program and pass them in",
    "randn": "draw random numbers outside the program and pass them in",
    "randperm": "draw random numbers outside the program and pass them in",
    "unique": "the size of the result depends on data: sort, and compare neighbours",
    "unique_dim": "the size of the result depends on data: sort, and compare neighbours",
    "while_loop": "a number of steps that is known at export: write the loop in Python",
}
"""By torch's name without namespace and overload."""


def nearest_form(target: str) -> str:
    """Return the nearest supported form of a torch operator, such as "aten.nonzero.default"."""
    name = _plain(target)
    if name in NEAREST:
        return NEAREST[name]
    if name.startswith("linalg"):
        return "solvers and factorisations are computed at export, of constants: no program has them for its inputs"
    known = sorted({_plain(other) for other in RULES})
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.7)
    if near:
        return f"no rule for it; near it are {' and '.join(near)}"
    return f"no rule for it; python -m alcove.runtime.coverage lists the {len(known)} operators that have one"


def _plain(target: str) -> str:
    name = target.split(".")[1] if target.count(".") else target
    return name.strip("_").removesuffix("_copy")

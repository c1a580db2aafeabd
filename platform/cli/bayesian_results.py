"""Prints the Bayesian view of an experiment: what the reports make likely, beside the decision."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from alcove.platform.cli.arm_names import name_arms
from alcove.platform.cli.metric_units import spell_value
from alcove.platform.cli.output import print_table, say

if TYPE_CHECKING:
    from alcove.platform.client import BayesianView, Experiment, Posterior

__all__ = ["show_bayesian"]


def show_bayesian(experiment: "Experiment", view: "BayesianView") -> None:
    """Print posteriors, chances and losses of each arm, and of its difference to the control."""
    if view.obstacle:
        say(f"no Bayesian view: {name_arms(view.obstacle, experiment.arms)}")
        return
    if not view.arms:  # a server that does not send it
        return
    in_unit = partial(spell_value, experiment.primary)
    names = [arm.name for arm in experiment.arms]
    rows = [
        [names[each.arm], _text(each.value, in_unit), f"{each.chance_best:.1%}", in_unit(each.expected_loss)]
        for each in view.arms
    ]
    rows += [
        [
            f"{names[each.arm]} - {names[each.versus]}",
            _text(each.difference, in_unit),
            f"{each.chance_better:.1%}",
            in_unit(each.expected_loss),
        ]
        for each in view.differences
    ]
    what = "which decides nothing" if experiment.bandit is None else "by which shares move"
    say(f"Bayesian view, {what}; prior: {view.prior}:")
    print_table(["arm", "posterior, 95 %", "chance to be best", "expected loss"], rows)


def _text(posterior: "Posterior", in_unit: Callable[[float], str]) -> str:
    return f"{in_unit(posterior.mean)} [{in_unit(posterior.low)}, {in_unit(posterior.high)}]"

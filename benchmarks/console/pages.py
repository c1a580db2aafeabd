"""Lists the pages of the console once: for what measures them, takes their pictures, and looks at them in a browser."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["PAGES", "ShownPage"]


@dataclass(frozen=True)
class ShownPage:
    """A page.

    Attributes:
        name: of its row and its pictures.
        address: with {names} of what a server has: feature, version, older, rollout, experiment, app.
        title: what it is, for the index of pictures; "": it gets no picture.
        role: whose token sees it.
    """

    name: str
    address: str
    title: str = ""
    role: str = "operator"

    def at(self, things: Mapping[str, str]) -> str:
        """Return its address on a server that has these things.

        Raises:
            KeyError: it needs another one.
        """
        return self.address.format_map(things)


PAGES: Final = (
    ShownPage("home", "/", "What needs somebody now"),
    ShownPage("features", "/features", "Features"),
    ShownPage("feature", "/features/{feature}", "A feature and its versions"),
    ShownPage("version", "/features/{feature}/versions/{version}", "A version"),
    ShownPage("program", "/features/{feature}/versions/{version}/programs/f32", "Graph and memory plan of a program"),
    ShownPage("compare", "/features/{feature}/versions/{older}/compare?with={version}", "Two versions"),
    ShownPage("rollouts", "/rollouts", "Rollouts"),
    ShownPage("rollout", "/rollouts/{rollout}", "A rollout"),
    ShownPage("new-rollout", "/rollouts/new", "A new rollout"),
    ShownPage("experiments", "/experiments", "Experiments"),
    ShownPage("experiment", "/experiments/{experiment}", "An experiment"),
    ShownPage("report", "/experiments/{experiment}/report", "The report of an experiment"),
    ShownPage("new-experiment", "/experiments/new", "A new experiment"),
    ShownPage("planner", "/planner", "How many devices an experiment needs"),
    ShownPage("devices", "/devices", "What a device would run, and why"),
    ShownPage("audience", "/audience"),
    ShownPage("policies", "/policies", "Policies"),
    ShownPage("policy", "/policies/{app}", "The policy of an app"),
    ShownPage("privacy", "/privacy", "Privacy"),
    ShownPage("privacy-of-app", "/privacy/{app}", "Privacy of an app"),
    ShownPage("trust", "/trust", "Keys and trust"),
    ShownPage("audit", "/audit", "The audit log"),
    ShownPage("health", "/health", "Health"),
    ShownPage("sessions", "/sessions", "Sessions"),
)
"""In the order of the navigation.  What a server does not have yet answers 404 and is left out, which is said."""

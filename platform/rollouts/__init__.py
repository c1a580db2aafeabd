"""How does a version reach the devices of an app, step by step?"""

from alcove.platform.rollouts.engine import RolloutEngine

__all__ = ["RolloutEngine"]

"""Describes an app at one moment as a value, and what follows from an action as the next such value."""

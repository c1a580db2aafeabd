"""Measures what the versions shipped since a day did, by the devices that kept the versions of that day."""

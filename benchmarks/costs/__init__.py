"""What do the forms cost between which the exporter chooses?  Measured, and fitted."""

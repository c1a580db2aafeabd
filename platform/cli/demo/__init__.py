"""`alcove demo`: shows the main job, end to end, on real text.

`scenario` runs the steps; `environment` holds what surrounds them (keys, server process, devices' processes), `clock`
the time in which they are; `catalog` is what the team publishes; `device` is one device in a process of its own;
`fleet` is many devices in this process, `actors` the simulated users; `telemetry` is the way of their reports, by
`aggregators`, `private_batch` and `private_reports`, or by `reporting`; `small_difference` and `guarded` are a step
each; `result` is what the demo found, `parties` who learned what; `display` shows it; `command` is the command;
`testing` is the server of a running experiment.
"""

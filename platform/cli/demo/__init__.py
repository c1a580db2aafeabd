"""`alcove demo`: shows the main job, end to end, on real text.

`story` tells the steps; `environment` holds what surrounds them (keys, server process, devices' processes); `catalog`
is what the team publishes; `device` is one device in a process of its own; `fleet` is many devices in this process;
`people` are the simulated users; `result` is what the demo found; `display` shows it; `command` is the command;
`testing` is the world at a standstill.
"""

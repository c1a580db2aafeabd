"""Profiles a program: where its time goes, and how near that is to what the machine allows.

profile_program(bytes, inputs) -> Profile     timestamps around each operator, beside its work and the machine's rates
trace_json(profile, name) -> str              the same for Perfetto
"""

from alcove.runtime.profile.machine import Machine, calibrate
from alcove.runtime.profile.measure import OpProfile, Profile, profile_program
from alcove.runtime.profile.trace import trace_json
from alcove.runtime.profile.work import Work, work_of

__all__ = [
    "Machine",
    "OpProfile",
    "Profile",
    "Work",
    "calibrate",
    "profile_program",
    "trace_json",
    "work_of",
]

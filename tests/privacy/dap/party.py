"""Plays the parties of a task in memory, for tests: keys, a task, reports of it, and the issuer of their tokens."""

import functools
import hashlib
from dataclasses import dataclass, field
from fractions import Fraction

from alcove.platform.issuer.arithmetic import GmpArithmetic
from alcove.privacy import hpke
from alcove.privacy.dap.messages import HpkeConfig, Report, ReportShare, Role
from alcove.privacy.dap.report_tokens import ReportToken, request_report_token
from alcove.privacy.dap.reports import Recipients, make_config, make_report, open_input_share
from alcove.privacy.dap.task import DapTask, TaskInfo, make_histogram_task
from alcove.privacy.entropy import Entropy
from alcove.privacy.prio3 import Report as VdafReport
from alcove.privacy.tokens import Issuer, finish_token
from cryptography.hazmat.primitives.asymmetric import rsa

SECRET = bytes(range(32))
ISSUER_URL = "https://issuer.example/tokens"
TIME = 20_000


class CountingEntropy:
    """Gives bytes that differ at each call and are the same in each run."""

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._calls = 0

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next bytes."""
        self._calls += 1
        return hashlib.shake_128(f"{self._name} {self._calls}".encode()).digest(size_bytes)


def make_task(cells: int = 8, **changes: object) -> DapTask:
    """Return a task of a histogram; `changes` replace its terms."""
    terms = {
        "leader_url": "https://leader.example/dap",
        "helper_url": "https://helper.example",
        "window_s": 86_400,
        "min_batch_size": 100,
        "cells": cells,
        "info": TaskInfo(Fraction(1), bytes(32)),
    }
    return make_histogram_task(**(terms | changes))  # type: ignore[arg-type]


def make_token_task(cells: int = 8, **changes: object) -> DapTask:
    """Return a task whose reports carry tokens."""
    return make_task(cells, **({"info": TaskInfo(Fraction(1), bytes(32), ISSUER_URL)} | changes))


@functools.cache
def make_issuer(name: str = "") -> Issuer:
    """Return an issuer with one key; another name has another one."""
    return Issuer(rsa.generate_private_key(65537, 2048), CountingEntropy(name), GmpArithmetic())


def make_token(task: DapTask, time: int, entropy: Entropy, issuer: Issuer | None = None) -> ReportToken:
    """Return a token for a report, issued by `make_issuer()` unless another is given."""
    issuer = issuer or make_issuer()
    pending, secret = request_report_token(task, time, issuer.key, entropy, GmpArithmetic())
    return ReportToken(finish_token(pending, issuer.issue(pending.request), issuer.key), secret)


@dataclass(frozen=True)
class Parties:
    """Keys of both aggregators and of the collector."""

    leader_key: bytes = field(default_factory=hpke.generate_private_key)
    helper_key: bytes = field(default_factory=hpke.generate_private_key)
    collector_key: bytes = field(default_factory=hpke.generate_private_key)

    @property
    def recipients(self) -> Recipients:
        """What a device is told of them."""
        configs = (make_config(1, hpke.derive_public_key(key)) for key in (self.leader_key, self.helper_key))
        return Recipients(*configs)

    @property
    def collector(self) -> HpkeConfig:
        """What the aggregators are told of the collector."""
        return make_config(9, hpke.derive_public_key(self.collector_key))

    def report(self, task: DapTask, measurement: int, name: str = "", time: int = TIME) -> Report:
        """Return a report, with a token where the task has an issuer; the same name gives the same shares."""
        entropy = CountingEntropy(name)
        token = None if task.info.token_issuer is None else make_token(task, time, CountingEntropy(f"token {name}"))
        return make_report(
            task,
            measurement,
            time,
            self.recipients,
            entropy,
            extensions=() if token is None else token.extensions,
            helper_extensions=() if token is None else token.helper_extensions,
        )

    def open(self, task: DapTask, role: Role, report: Report) -> VdafReport:
        """Return what an aggregator's VDAF gets of a report."""
        sealed = report.leader_input_share if role is Role.LEADER else report.helper_input_share
        share = ReportShare(report.metadata, report.public_share, sealed)
        key = self.leader_key if role is Role.LEADER else self.helper_key
        opened = open_input_share(task, role, {1: key}, share)
        return VdafReport(report.metadata.report_id, report.public_share, opened.payload)

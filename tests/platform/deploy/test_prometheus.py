"""deploy/prometheus and deploy/grafana in a real Prometheus that scrapes a real server, on loopback."""

import contextlib
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from alcove.platform.testing import ServerWorld

from tools.test_packages import find_tool

WAIT_S = 180.0
TARGETS = '"alcove-grpc:9464", "alcove-ingress:9464"'
ABSENT = "alcove_alert_deliveries_total"  # has its first figure once an alert is sent, and this server sends none
pytestmark = [pytest.mark.needs("prometheus"), pytest.mark.thorough]


class Prometheus:
    """A running one."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **given: str) -> Any:
        """Return the data of an answer of its interface (https://prometheus.io/docs/prometheus/latest/querying/api/)."""
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(given)}"
        with urllib.request.urlopen(asked, timeout=WAIT_S) as answer:
            found = json.loads(answer.read())
        assert found["status"] == "success"
        assert not found.get("warnings"), found["warnings"]
        return found["data"]

    def wait(self, is_done: Callable[[Any], bool], path: str, **given: str) -> Any:
        """Ask until the answer is as it is wanted; return it."""
        until_s = time.monotonic() + WAIT_S
        while True:
            found = None
            with contextlib.suppress(OSError):  # it starts
                found = self.ask(path, **given)
            if found is not None and is_done(found):
                return found
            assert time.monotonic() < until_s, found
            time.sleep(0.2)

    def wait_for_rates(self) -> None:
        """Wait until it has scraped twice, without which there are no rates."""
        self.wait(lambda data: data["result"], "query", query="rate(alcove_bodies_refused[1m])")


@pytest.fixture(scope="module")
def prometheus(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus with the page's own configuration, every second, on a server that has been called and asked."""
    place = tmp_path_factory.mktemp("prometheus")
    page = (repository / "docs/deploy/monitoring.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(# prometheus\.yml\n.*?)```", page, re.DOTALL)
    assert TARGETS in text
    (place / "alcove.rules.yaml").write_bytes((repository / "deploy/prometheus/alcove.rules.yaml").read_bytes())
    world = ServerWorld(place / "world", teams={"text": ("text_00",)})
    served = world.start("--metrics-port", "0")
    process: subprocess.Popen[bytes] | None = None
    try:
        with world.client(served, "team:text") as client:
            world.publish(client, "text_00")
        with pytest.raises(urllib.error.HTTPError):  # one body is refused, so that refusals have a reason
            urllib.request.urlopen(f"{served.http_url}/reports", data=b"no report", timeout=WAIT_S)
        address = str(served.metrics_url).removeprefix("http://").removesuffix("/metrics")
        often = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\n"
        (place / "prometheus.yml").write_text(often + text.replace(TARGETS, f'"{address}"'), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        (tool,) = find_tool("prometheus") or []
        options = [f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
        with (place / "prometheus.log").open("wb") as log:
            process = subprocess.Popen([tool, f"--config.file={place / 'prometheus.yml'}", *options], stderr=log)
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        if process is not None:
            process.terminate()
            process.wait(WAIT_S)
        assert served.stop() == 0


def test_server_is_scraped_and_every_rule_is_evaluated(prometheus: Prometheus) -> None:
    """The target is up, no rule has an error, and a server that is well calls nobody."""
    found = prometheus.wait(lambda data: {one["health"] for one in data["activeTargets"]} == {"up"}, "targets")
    assert [one["labels"]["job"] for one in found["activeTargets"]] == ["alcove"]
    found = prometheus.wait(
        lambda data: all(rule["health"] != "unknown" for group in data["groups"] for rule in group["rules"]), "rules"
    )
    rules = [rule for group in found["groups"] for rule in group["rules"]]
    assert rules
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []


def test_dashboard_shows_figures_of_the_server(prometheus: Prometheus, repository: Path) -> None:
    """Each panel's expression is answered, by at least one figure."""
    prometheus.wait_for_rates()
    dashboard = json.loads((repository / "deploy/grafana/alcove.json").read_text(encoding="utf-8"))
    (asked,) = (one["query"]["query"] for one in dashboard["templating"]["list"] if one["name"] == "instance")
    series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", asked).groups()  # type: ignore[union-attr]
    assert prometheus.ask(f"label/{label}/values", **{"match[]": series})
    empty = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            filled = target["expr"].replace("$__rate_interval", "1m").replace("$__range", "1m")
            filled = filled.replace("$instance", ".*")
            assert "$" not in filled
            if ABSENT not in filled and not prometheus.ask("query", query=filled)["result"]:
                empty.add(panel["title"])
    assert empty == set()


def test_labels_that_expressions_select_by_are_those_of_the_page(prometheus: Prometheus, repository: Path) -> None:
    """A label that no series has selects nothing, and no tool says so."""
    prometheus.wait_for_rates()
    rules = yaml.safe_load((repository / "deploy/prometheus/alcove.rules.yaml").read_text(encoding="utf-8"))
    dashboard = json.loads((repository / "deploy/grafana/alcove.json").read_text(encoding="utf-8"))
    texts = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    texts += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    selectors = {found for text in texts for found in re.findall(r"(alcove_\w+)\{([^}]*)\}", text)}
    assert selectors
    for name, inside in selectors:
        series = prometheus.ask("series", **{"match[]": name})
        labels = {label for one in series for label in one}
        assert not series or set(re.findall(r"(\w+)\s*[=!]", inside)) <= labels, name

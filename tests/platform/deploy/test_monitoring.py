"""deploy/prometheus and deploy/grafana: rules, their unit tests, the dashboard, and the server's own page agree."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from alcove.platform.testing import ServerWorld

from benchmarks.console.pages import PAGES
from tools.test_packages import find_tool

NAME = re.compile(r"\b(?:alcove|process)_[a-z_]+\b")
ENDINGS = re.compile(r"_(total|created|bucket|count|sum)$")
SERIES = {"histogram": ("_bucket", "_count", "_sum")}  # of each kind of metric; the text format names others whole


@pytest.fixture(scope="module")
def rules(repository: Path) -> dict[str, dict[str, Any]]:
    """The alerts, by name."""
    found = yaml.safe_load((repository / "deploy/prometheus/alcove.rules.yaml").read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in found["groups"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def cases(repository: Path) -> list[dict[str, Any]]:
    """The unit tests of the alerts."""
    found = yaml.safe_load((repository / "deploy/prometheus/alcove.tests.yaml").read_text(encoding="utf-8"))
    return [case for test in found["tests"] for case in test["alert_rule_test"]]


@pytest.fixture(scope="module")
def expressions(repository: Path) -> list[str]:
    """What the dashboard asks."""
    found = json.loads((repository / "deploy/grafana/alcove.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in found["panels"] for target in panel["targets"]]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The series of a running server's page, by name; those of calls and reasons that have not come are among them."""
    world = ServerWorld(tmp_path_factory.mktemp("metrics") / "world", teams={"text": ("text_00",)})
    served = world.start("--metrics-port", "0")
    try:
        with world.client(served, "team:text") as client:
            world.publish(client, "text_00")
        with urllib.request.urlopen(str(served.metrics_url), timeout=60) as page:
            text = page.read().decode()
    finally:
        assert served.stop() == 0
    kinds = dict(re.findall(r"^# TYPE ((?:alcove|process)_\w+) (\w+)$", text, re.MULTILINE))
    return {f"{name}{ending}" for name, kind in kinds.items() for ending in SERIES.get(kind, ("",))}


def families(texts: list[str]) -> set[str]:
    """Return the families of the metrics that some texts name."""
    return {ENDINGS.sub("", name) for text in texts for name in NAME.findall(text)}


def test_every_metric_that_is_asked_for_is_on_the_page(
    rules: dict[str, dict[str, Any]], expressions: list[str], shown: set[str]
) -> None:
    """A renamed metric fails here, not by an alert that never fires."""
    texts = [rule["expr"] for rule in rules.values()] + expressions
    assert {name for text in texts for name in NAME.findall(text)} <= shown


def test_every_metric_of_the_page_is_on_the_dashboard(expressions: list[str], shown: set[str]) -> None:
    """Nothing is measured for nobody."""
    assert families(expressions) == {ENDINGS.sub("", name) for name in shown}


def test_every_alert_has_a_case_that_fires_and_one_that_does_not(
    rules: dict[str, dict[str, Any]], cases: list[dict[str, Any]]
) -> None:
    """Each alert is seen on both sides of its bound."""
    assert {case["alertname"] for case in cases if case.get("exp_alerts")} == set(rules)
    assert {case["alertname"] for case in cases if not case.get("exp_alerts")} >= set(rules) - {
        "AlcoveOfflineSignatureExpires"  # of its two series, one does not fire in the same case
    }


def test_every_alert_says_who_is_called_and_what_to_do(rules: dict[str, dict[str, Any]], repository: Path) -> None:
    """Its runbook is a heading of the page, and the page has no other."""
    page = (repository / "docs/deploy/monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"^### (Alcove\w+)$", page, re.MULTILINE) == list(rules)
    for name, rule in rules.items():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["runbook"] == f"docs/deploy/monitoring.md#{name.lower()}"
        assert rule["annotations"]["summary"]


def test_every_alert_and_each_link_of_the_dashboard_leads_to_a_page_of_the_console(
    rules: dict[str, dict[str, Any]], repository: Path
) -> None:
    """The address of the console comes from whoever runs Prometheus and Grafana; the paths are ours."""
    pages = {page.address for page in PAGES} | {"/policies"}
    for name, rule in rules.items():
        begin, path = rule["annotations"]["console"].split(" }}")
        assert begin == "{{ $externalLabels.console_url", name
        assert path.partition("?")[0] in pages, name
    dashboard = json.loads((repository / "deploy/grafana/alcove.json").read_text(encoding="utf-8"))
    assert dashboard["links"]
    for link in dashboard["links"]:
        assert link["url"].removeprefix("${console}") in pages
    (variable,) = (one for one in dashboard["templating"]["list"] if one["name"] == "console")
    assert variable["type"] == "textbox"


@pytest.mark.thorough
@pytest.mark.needs("promtool")
def test_rules_and_their_unit_tests_hold(repository: Path) -> None:
    """By Prometheus' own tool."""
    (tool,) = find_tool("promtool") or []
    for verb, file in (("check", "alcove.rules.yaml"), ("test", "alcove.tests.yaml")):
        done = subprocess.run(
            [tool, verb, "rules", file],
            cwd=repository / "deploy/prometheus",
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.needs("promtool")
def test_expressions_of_the_dashboard_parse(expressions: list[str], tmp_path: Path) -> None:
    """With Grafana's variables filled in, each is an expression of Prometheus."""
    filled = [text.replace("$__rate_interval", "5m").replace("$instance", ".*") for text in expressions]
    records = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(filled)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}), encoding="utf-8")
    (tool,) = find_tool("promtool") or []
    done = subprocess.run([tool, "check", "rules", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

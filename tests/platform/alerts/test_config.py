"""alerts.toml: what it takes, what it refuses, and that its secrets stay secret."""

import json
import re
from pathlib import Path

import pytest
from alcove.platform.alerts.config import read_alerts_config
from alcove.platform.domain.alerts.alert import AlertKind
from alcove.platform.domain.alerts.rendering import render_event
from alcove.platform.domain.errors import AlertsFileError
from alcove.registry.errors import KeyFileError

from tests.platform.alerts.receivers import SECRET, make_alert, write_secret

GOOD = """
source = "https://alcove.acme.example"
console = "https://console.acme.example"

[[webhook]]
name = "pager"
url = "https://hooks.acme.example/alcove"
secret_file = "pager.secret"
events = ["alcove.rollout.*", "alcove.monitor.failed"]
apps = ["mail"]

[[email]]
name = "team"
to = ["Ann <ann@acme.example>"]
from = "alcove@acme.example"
host = "smtp.acme.example"
user = "alcove"
password_file = "smtp.password"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A good file, with its secrets."""
    write_secret(tmp_path / "pager.secret")
    write_secret(tmp_path / "smtp.password", "letmein")
    path = tmp_path / "alerts.toml"
    path.write_text(GOOD)
    return path


def test_a_good_file_says_what_goes_where(path: Path) -> None:
    """Patterns, apps and defaults hold; secrets come from their files, beside it."""
    config = read_alerts_config(path)
    pager, team = config.destinations
    assert config.names_for(make_alert()) == ["pager", "team"]
    assert config.names_for(make_alert(app="maps")) == ["team"]
    assert config.names_for(make_alert(kind=AlertKind.EXPERIMENT_DECIDED)) == ["team"]
    assert config.names_for(make_alert(kind=AlertKind.MONITOR_FAILED, app="")) == ["pager", "team"]
    assert config.names_for(make_alert(kind=AlertKind.TEST, app="maps")) == ["pager", "team"]
    assert [each.get_secret_value() for each in config.webhook[0].secrets] == [SECRET]
    assert config.email[0].smtp_port == 587
    assert (pager.name, team.name) == ("pager", "team")


def test_no_secret_is_in_what_is_printed_of_it(path: Path) -> None:
    """Secrets, passwords and URLs are hidden in every way to print the configuration."""
    config = read_alerts_config(path)
    for text in (repr(config), str(config), config.model_dump_json()):
        assert not any(secret in text for secret in (SECRET, "letmein", "hooks.acme.example/alcove"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('url = "https://', 'url = "http://', "webhook 1: url is https:// unless"),
        ("hooks.acme.example/alcove", "ann:pw@hooks.acme.example/", "without a user, password"),
        ('url = "https://hooks.acme.example/alcove"', "", "url or url_file is missing"),
        ('secret_file = "pager.secret"', "", "secret_file is missing"),
        ('secret_file = "pager.secret"', f'secrets = ["{SECRET}"]', "secrets belongs into a file of its own"),
        ("alcove.rollout.*", "alcove.rollouts.*", "no event is called 'alcove.rollouts.*'"),
        ('name = "team"', 'name = "pager"', "each destination has a name of its own"),
        ('name = "team"', 'name = "Team!"', "email 1, name: "),
        ("Ann <ann@acme.example>", "ann@acme.example\\r\\nBcc: x@y.example", "an address is written name@host"),
        ('"alcove@acme.example"', '"alcove"', "an address is written name@host"),
        ('host = "smtp', 'security = "none"\nhost = "smtp', "for a server on this machine"),
        ('password_file = "smtp.password"', "", "user and password_file come together"),
        ('apps = ["mail"]', 'application = "mail"', "webhook 1, application: "),
        ('source = "https', 'source = "a\\nb https', "source has a control character"),
        ("[[webhook]]", "[webhook", "is no TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(path: Path, old: str, new: str, words: str) -> None:
    """Each mistake is one sentence with the field, and without a secret."""
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(AlertsFileError) as caught:
        read_alerts_config(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert "letmein" not in str(caught.value)


def test_a_file_without_destinations_is_refused(path: Path) -> None:
    """Alerts that go nowhere are a mistake."""
    path.write_text('source = "alcove"\n')
    with pytest.raises(AlertsFileError, match="1 to 64"):
        read_alerts_config(path)


@pytest.mark.parametrize("name", ["pager.secret", "smtp.password"])
def test_a_secret_that_others_may_read_is_refused(path: Path, name: str) -> None:
    """Secrets are files of mode 0600."""
    (path.parent / name).chmod(0o644)
    with pytest.raises(KeyFileError, match="open to others"):
        read_alerts_config(path)


@pytest.mark.parametrize("text", ["whsec_short", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!!!!"])
def test_a_secret_that_is_none_is_refused_and_not_repeated(path: Path, text: str) -> None:
    """A wrong secret may be the right one with a slip: no error shows it."""
    write_secret(path.parent / "pager.secret", text)
    with pytest.raises(AlertsFileError, match="a secret is whsec_") as caught:
        read_alerts_config(path)
    assert text not in str(caught.value)


def test_a_url_can_be_a_secret_of_its_own(path: Path) -> None:
    """Chat services give URLs that are secrets: they come from a file, and need no signature."""
    write_secret(path.parent / "chat.url", "https://chat.example/T000/XXXX")
    more = '[[webhook]]\nname = "chat"\nurl_file = "chat.url"\nformat = "text"\n'
    path.write_text(GOOD + more)
    assert str(read_alerts_config(path).webhook[1].target) == "https://chat.example/T000/XXXX"


def test_the_file_and_the_event_of_the_guide_are_as_the_code_has_them(repository: Path, tmp_path: Path) -> None:
    """docs/how-to/be-alerted.md shows a file that is read, and an event with the fields of every event."""
    page = (repository / "docs/how-to/be-alerted.md").read_text(encoding="utf-8")
    (file,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (event,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    write_secret(tmp_path / "pager.secret")
    write_secret(tmp_path / "chat.url", "https://chat.example/T000")
    write_secret(tmp_path / "smtp.password", "letmein")
    (tmp_path / "alerts.toml").write_text(file)
    assert [each.name for each in read_alerts_config(tmp_path / "alerts.toml").destinations] == [
        "pager",
        "chat",
        "team",
    ]
    shown, made = json.loads(event), json.loads(render_event(make_alert(), source="s", console="https://c.example"))
    assert list(shown) == list(made)
    assert list(shown["data"]) == list(made["data"])
    assert all(f"`{kind}`" in page for kind in AlertKind if kind is not AlertKind.TEST)

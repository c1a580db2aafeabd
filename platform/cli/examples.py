"""Holds the examples at the end of commands' help, and puts them there.

Every command with more than three options has one; a test parses each by its command.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import typer

__all__ = ["EXAMPLES", "add_examples"]

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "serve": ("alcove serve --data-dir /srv/alcove --keys /srv/alcove-keys",),
        "demo": ("alcove demo --devices 50 --all",),
        "bench": ("alcove bench language_id.alc --rounds 5 --threads 1",),
        "simulate": ("alcove simulate --stage 5% --guard crash_fallback:0.5% \\", "  --treatment crash_fallback=2.1%"),
        "login": ("alcove login --server models.example.org:7443",),
        "server status": ("alcove server status --server models.example.org:7443",),
        "server backup": ("alcove server backup /backups/alcove --data-dir /srv/alcove",),
        "server restore": ("alcove server restore /backups/alcove --data-dir /srv/alcove",),
        "server migrate": ("alcove server migrate --data-dir /srv/alcove",),
        "keys init": (
            "alcove keys init root.change --root-key root.pem --targets-key targets.pem \\",
            "  --online online.json --team text --team-key text.pem",
        ),
        "keys rotate": (
            "alcove keys rotate new.change --data-dir /srv/alcove --role team-text \\",
            "  --add new.pub.pem --remove old.pub.pem",
        ),
        "keys add-team": (
            "alcove keys add-team team.change --data-dir /srv/alcove \\",
            "  --team text=language_id --key text.pub.pem",
        ),
        "keys raise-min-version": (
            "alcove keys raise-min-version min.change --data-dir /srv/alcove \\",
            "  --team text --feature language_id --min-version 1.2.0",
        ),
        "keys reinstate": (
            "alcove keys reinstate back.change --data-dir /srv/alcove --app messenger \\",
            "  --team text --feature language_id --version 1.2.0",
        ),
        "keys create": ("alcove keys create keys --team text=language_id --data-dir /srv/alcove",),
        "access grant": (
            "alcove access grant --data-dir /srv/alcove --role operator:text \\",
            "  --name anna --oidc-issuer https://login.example --oidc-subject 2482897610",
        ),
        "access list": ("alcove access list --data-dir /srv/alcove",),
        "access revoke": ("alcove access revoke 0123456789abcdef --data-dir /srv/alcove",),
        "token create": ("alcove token create --data-dir /srv/alcove --role operator \\", "  --out operator.token"),
        "token list": ("alcove token list --data-dir /srv/alcove --sessions",),
        "token renew": ("alcove token renew 0123456789abcdef --data-dir /srv/alcove",),
        "token revoke": ("alcove token revoke 0123456789abcdef --data-dir /srv/alcove",),
        "audit list": (
            "alcove audit list --app messenger --since 2d",
            "alcove audit list --object messenger/language_id --json",
        ),
        "alert list": ("alcove alert list --data-dir server --state dead",),
        "alert show": ("alcove alert show 12 --data-dir server",),
        "alert test": ("alcove alert test --config alerts.toml",),
        "alert retry": ("alcove alert retry --all-dead --data-dir server",),
        "model inspect": ("alcove model inspect language_id.alc --html program.html",),
        "model verify": ("alcove model verify polite.alc --layers polite.py:feature",),
        "model profile": ("alcove model profile language_id.alc --runs 50 --top 10",),
        "model generate": ('alcove model generate writer.alc --text "Once upon" --max-new-tokens 40',),
        "model import": ("alcove model import --onnx mobilenet.onnx --pictures photos -o mobilenet.alc",),
        "model push": (
            "alcove model push int8=language_id.alc --feature language_id --team text \\",
            "  --key keys/teams/text.pem --version 1.2.0",
        ),
        "model list": ("alcove model list --feature language_id --state released",),
        "model show": ("alcove model show language_id@1.2.0",),
        "model download": ("alcove model download language_id@production --out language_id.alc",),
        "model stub": ("alcove model stub polite@1.0.0 -o polite.py",),
        "model diff": ("alcove model diff language_id@1.0.0 language_id@1.2.0",),
        "model validate": ("alcove model validate language_id@1.2.0",),
        "model release": ('alcove model release language_id@1.2.0 --reason "checked by hand"',),
        "model deprecate": ('alcove model deprecate language_id@1.0.0 --reason "1.2.0 is better"',),
        "model revoke": ('alcove model revoke language_id@1.1.0 --reason "leaks its input" --yes',),
        "model rules": ("alcove model rules language_id --max-size-bytes 2000000 --approve-rollouts",),
        "model export": ("alcove model export my_model.py:make --out my_model.alc --quantize int8",),
        "model alias set": ('alcove model alias set language_id@1.2.0 production --reason "tried by all"',),
        "model alias remove": ('alcove model alias remove language_id beta --reason "nobody uses it"',),
        "model alias approve": ("alcove model alias approve ap-0123456789ab",),
        "model alias list": ("alcove model alias list language_id",),
        "model alias history": ("alcove model alias history language_id production",),
        "model tag set": ("alcove model tag set language_id@1.2.0 reviewed=yes",),
        "model tag remove": ("alcove model tag remove language_id@1.2.0 reviewed",),
        "rollout create": (
            "alcove rollout create --app messenger --feature language_id \\",
            "  --version 1.2.0 --stage 1%:2d:5000 --stage 50%:2d --guard refused:2%",
        ),
        "rollout plan": (
            "alcove rollout plan --expected-devices 1000000 --stage 1%:2d:5000 \\",
            "  --stage 50%:2d --guard crash_fallback:0.5%",
        ),
        "rollout update": ("alcove rollout update ro-0123456789ab --audience 'os in (ios)'",),
        "rollout status": (
            "alcove rollout status ro-0123456789ab",
            "alcove rollout status --app messenger --feature language_id --json",
        ),
        "rollout list": ("alcove rollout list --app messenger --state running --state paused",),
        "rollout delete": ("alcove rollout delete ro-0123456789ab --yes",),
        "rollout watch": ("alcove rollout watch ro-0123456789ab --for 8h",),
        "rollout advance": (
            "alcove rollout advance ro-0123456789ab",
            'alcove rollout advance ro-0123456789ab --override-reason "no harm seen"',
        ),
        "rollout approve": ("alcove rollout approve ro-0123456789ab",),
        "rollout pause": ("alcove rollout pause ro-0123456789ab --reason 'users complain'",),
        "rollout resume": ("alcove rollout resume ro-0123456789ab",),
        "rollout rollback": ('alcove rollout rollback ro-0123456789ab --reason "slower than before"',),
        "rollout halt": ('alcove rollout halt ro-0123456789ab --reason "it crashes" --yes',),
        "experiment create": (
            "alcove experiment create --app messenger --feature language_id --mde 0.02 \\",
            "  --arm old=1.0.0:50% --arm new=1.2.0:50% --devices 500000",
        ),
        "experiment plan": ("alcove experiment plan --mde 0.02 --devices 500000",),
        "experiment update": ("alcove experiment update ex-0123456789ab --mde 0.03 --minimum-cohort 1000",),
        "experiment simulate": ("alcove experiment simulate --devices 20000 --base-rate 0.3 --effect 0.05",),
        "experiment simulate-rating": (
            "alcove experiment simulate-rating --preference 0.56 --ties 0.2",
            "alcove experiment simulate-rating --calls calls.csv --slowdown 5",
        ),
        "experiment watch": ("alcove experiment watch ex-0123456789ab --for 8h",),
        "experiment start": ("alcove experiment start ex-0123456789ab",),
        "experiment stop": ("alcove experiment stop ex-0123456789ab",),
        "experiment list": ("alcove experiment list --app messenger --state running",),
        "experiment show": ("alcove experiment show ex-0123456789ab",),
        "experiment delete": ("alcove experiment delete ex-0123456789ab --yes",),
        "experiment results": (
            "alcove experiment results ex-0123456789ab",
            "alcove experiment results ex-0123456789ab --export report.html",
        ),
        "override set": (
            "alcove override set language_id --app messenger --set enabled=false \\",
            '  --reason "it shows nonsense"',
        ),
        "override clear": ('alcove override clear language_id --app messenger --reason "fixed"',),
        "override list": ("alcove override list --app messenger",),
        "metric create": (
            "alcove metric create undone --feature smart_reply --kind count --edge 3 \\",
            "  --less-is-better --owner keyboard --description 'edits undone in a day'",
        ),
        "metric presets": ("alcove metric presets",),
        "metric create-preset": ("alcove metric create-preset call_good --feature calls --owner calls",),
        "metric list": ("alcove metric list --feature smart_reply",),
        "metric show": ("alcove metric show undone --feature smart_reply",),
        "metric deprecate": (
            "alcove metric deprecate undone --feature smart_reply \\",
            "  --reason 'nobody looks at it' --yes",
        ),
        "layer create": ("alcove layer create search --app messenger",),
        "layer list": ("alcove layer list --app messenger",),
        "holdout set": ("alcove holdout set 5% --app messenger",),
        "holdout show": ("alcove holdout show --app messenger",),
        "holdout start": ("alcove holdout start language_id --app messenger --until 2027-03-31",),
        "holdout status": ("alcove holdout status --app messenger",),
        "holdout result": ("alcove holdout result hr-0123456789ab",),
        "holdout stop": ('alcove holdout stop hr-0123456789ab --reason "wrong feature"',),
        "policy list": ("alcove policy list --app messenger",),
        "policy diff": ("alcove policy diff --app messenger", "alcove policy diff 3 7 --app messenger --json"),
        "holdout plan": ("alcove holdout plan --devices 500000 --share 5% --base-rate 0.8",),
        "registry check": ("alcove registry check --data-dir /srv/alcove",),
        "registry gc": ("alcove registry gc --data-dir /srv/alcove --dry-run",),
        "aggregator create": (
            "alcove aggregator create pair --leader-url https://leader.example.org \\",
            "  --helper-url https://helper.example.org",
        ),
        "aggregator leader": ("alcove aggregator leader --data-dir /srv/leader --port 8443",),
        "aggregator helper": ("alcove aggregator helper --data-dir /srv/helper --port 8443",),
        "server backups": ("alcove server backups /backups/alcove",),
        "server prune": ("alcove server prune /backups/alcove --keep 14",),
        "feature run": ("alcove feature run language_id --input sentences.txt",),
    }
)
"""Lines by command; one that ends with a backslash goes on in the next."""


def add_examples(app: typer.Typer, path: str = "") -> None:
    """Give the commands of an app their examples; `path` is the names of its groups, each with a space behind."""
    for command in app.registered_commands:
        lines = EXAMPLES.get(f"{path}{command.name}")
        if lines is not None:
            command.epilog = "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{path}{group.name} ")

"""Texts that would run, if a page took what people write for markup, and where people can write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from alcove.platform.client import Arm, GuardrailPlan, Plan, PlatformClient, StagePlan
from alcove.platform.testing import ServerWorld
from alcove.registry.package import create_package
from alcove.registry.testing import FakeVerifier

__all__ = ["FIELDS", "HOSTILE", "Field"]

RUN: Final = "console.log('ran')"
HOSTILE: Final = (
    f"<script>{RUN}</script>",
    f"<SCRIPT SRC=//evil.example/x.js></SCRIPT>{RUN}",
    f'"><script>{RUN}</script>',
    f"'><script>{RUN}</script>",
    f"</title><script>{RUN}</script>",
    f"</textarea><script>{RUN}</script>",
    f"</style><script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"--><script>{RUN}</script>",
    f"]]><script>{RUN}</script>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<img src=x onerror={RUN}>",
    f'"><img src=x onerror="{RUN}">',
    f'" onmouseover="{RUN}" x="',
    f"' onfocus='{RUN}' autofocus='",
    f"` onclick=`{RUN}` x=`",
    f"<svg onload={RUN}>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f'<svg><a xlink:href="javascript:{RUN}"><text x=20 y=20>x</text></a>',
    f"<math><mtext></form><form><mglyph><style></math><img src onerror={RUN}>",
    f"<body onload={RUN}>",
    f"<details open ontoggle={RUN}>",
    f"<input autofocus onfocus={RUN}>",
    f"<video><source onerror={RUN}>",
    f"<audio src=x onerror={RUN}>",
    f"<marquee onstart={RUN}>",
    f"<iframe srcdoc='<script>{RUN}</script>'></iframe>",
    f'<iframe src="javascript:{RUN}"></iframe>',
    f'<object data="data:text/html,<script>{RUN}</script>">',
    '<embed src="//evil.example/x.swf">',
    '<link rel=stylesheet href="//evil.example/x.css">',
    "<style>@import '//evil.example/x.css'; body{background:url(//evil.example/x.png)}</style>",
    '<meta http-equiv="refresh" content="0;url=//evil.example/">',
    '<base href="//evil.example/">',
    f'<form action="//evil.example/"><button formaction="javascript:{RUN}">x</button></form>',
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}//",
    f"&#106;avascript:{RUN}",
    f"java&Tab;script:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    f"[link](javascript:{RUN})",
    f"[link](data:text/html;base64,PHNjcmlwdD4 'x\" onclick=\"{RUN}')",
    f'![x](x"onerror="{RUN})',
    "![x](//evil.example/pixel.png)",
    f"<javascript:{RUN}>",
    f"[ref]: javascript:{RUN}",
    f"```html\n<script>{RUN}</script>\n```",
    f"| a |\n|---|\n| <img src=x onerror={RUN}> |",
    "{{7*7}}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% for x in y %}{% endfor %}{# #}",
    "${7*7} #{7*7} <%= 7*7 %>",
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    f"<div hx-get='//evil.example/' hx-trigger=load hx-on:load={RUN}>",
    f'" hx-on::load="{RUN}" data-hx-get="//evil.example',
    "&lt;script&gt;console.log('ran')&lt;/script&gt;",
    f"%3Cscript%3E{RUN}%3C/script%3E",
    f"\\x3cscript\\x3e{RUN}\\x3c/script\\x3e",
    f"\u202e<b onmouseover={RUN}>",
    f"\uff1cscript\uff1e{RUN}\uff1c/script\uff1e",
    f"\u2028<script>{RUN}</script>",
    f"<a\u00a0href=javascript:{RUN}>x",
    f"<\u0130mg src=x onerror={RUN}>",
)
"""Each would write to the browser's log, ask for a strange address, or compute, if it ran."""
LINE: Final = tuple(text for text in HOSTILE if text.isprintable())
"""Those that a field of one line takes."""


@dataclass(frozen=True)
class Field:
    """Where people write.

    Attributes:
        name: of the field.
        write: writes all texts with clients of team `text` and of an operator; returns the addresses that show them.
    """

    name: str
    write: Callable[[ServerWorld, PlatformClient, PlatformClient], Sequence[str]]


def _card(world: ServerWorld, team: PlatformClient, _operator: PlatformClient) -> Sequence[str]:
    for version, texts in (("1.0.0", HOSTILE), ("1.1.0", HOSTILE[::-1])):
        package = create_package(
            feature="text_30",
            team="text",
            version=version,
            programs={"f32": f"program {version}".encode()},
            card="\n\n".join(f"# {text}\n\n- {text}\n\n[{text}]({text})\n\n{text}" for text in texts),
            verifier=FakeVerifier(),
        )
        for data in package.blobs().values():
            team.upload_blob(data)
        team.publish_version(world.sign(package), package.manifest.to_bytes())
    one, other = (f"/features/text_30/versions/{version}" for version in ("1.0.0", "1.1.0"))
    return one, other, f"{one}/compare?with=1.1.0"


def _tags(world: ServerWorld, team: PlatformClient, _operator: PlatformClient) -> Sequence[str]:
    found = []
    for number, start in enumerate(range(0, len(LINE), 30)):
        world.publish(team, "text_31", f"1.{number}.0")
        for place, text in enumerate(LINE[start : start + 30]):
            team.set_tag("text_31", f"1.{number}.0", f"tag{place}", text)
        found.append(f"/features/text_31/versions/1.{number}.0")
    return ["/features/text_31", *found]


def _reasons_of_versions(world: ServerWorld, team: PlatformClient, _operator: PlatformClient) -> Sequence[str]:
    found = []
    for number, text in enumerate(LINE[:12]):
        version = f"1.{number}.0"
        world.publish(team, "text_32", version, is_released=False)
        team.validate_version("text_32", version)
        team.release_version("text_32", version, reason=LINE[-1 - number])
        team.deprecate_version("text_32", version, reason=text)
        found.append(f"/features/text_32/versions/{version}")
    return found


def _reasons_of_aliases(world: ServerWorld, team: PlatformClient, _operator: PlatformClient) -> Sequence[str]:
    found = []
    for feature, texts in (("text_33", LINE[:32]), ("text_35", LINE[32:])):  # a feature has 32 aliases
        world.publish(team, feature)
        for number, text in enumerate(texts):
            team.set_alias(feature, f"alias{number}", "1.0.0", reason=text)
        found += [f"/features/{feature}", f"/features/{feature}/versions/1.0.0"]
    return found


def _reasons_of_rollouts(world: ServerWorld, team: PlatformClient, operator: PlatformClient) -> Sequence[str]:
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, "text_36", version)
    first = operator.create_rollout("hostile", "text_36", "1.0.0")
    operator.advance_rollout(first.rollout_id, 10_000, override_reason=LINE[0])
    stages = (StagePlan(share_basis_points=1000), StagePlan(share_basis_points=5000))
    guardrails = (GuardrailPlan(metric="refused", margin=0.1),)
    plan = Plan(stages=stages, guardrails=guardrails, auto_advance_reason=LINE[1], signature_override_reason=LINE[2])
    made = operator.create_rollout("hostile", "text_36", "2.0.0", plan=plan)
    operator.advance_rollout(made.rollout_id, override_reason=LINE[3])
    for number, text in enumerate(LINE):
        move = operator.resume_rollout if number % 2 else operator.pause_rollout
        move(made.rollout_id, text)
    if len(LINE) % 2:
        operator.resume_rollout(made.rollout_id)
    operator.roll_back_rollout(made.rollout_id, LINE[4])
    path = f"/rollouts/{made.rollout_id}"
    said = [quote(text, safe="") for text in HOSTILE[::5]]
    return [
        path,
        "/rollouts",
        "/audit",
        "/policies/hostile",
        "/privacy/hostile",
        "/",
        *(f"/rollouts?text={text}&app={text}&state={text}&done={text}" for text in said),
    ]


def _reasons_of_experiments(world: ServerWorld, team: PlatformClient, operator: PlatformClient) -> Sequence[str]:
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, "text_37", version)
    found = ["/experiments", "/audit?text=experiment"]
    for number, text in enumerate(LINE[:8]):
        arms = [
            Arm(name="old", version="1.0.0", share_basis_points=5000),
            Arm(name="new", version="2.0.0", share_basis_points=5000),
        ]
        made = operator.create_experiment(f"hostile{number}", "text_37", arms)
        operator.start_experiment(made.experiment_id)
        operator.stop_experiment(made.experiment_id, reason=text)
        found += [f"/experiments/{made.experiment_id}", f"/experiments/{made.experiment_id}/report"]
    return found


def _addresses(world: ServerWorld, team: PlatformClient, _operator: PlatformClient) -> Sequence[str]:
    world.publish(team, "text_34")
    found = []
    for number, text in enumerate(HOSTILE):
        said = quote(text, safe="")
        places = (
            f"/features?text={said}&team={said}&page={said}&size={said}",
            f"/features/text_34?text={said}&state={said}&order={said}&done={said}",
            f"/features/text_34/versions/1.0.0/compare?with={said}",
            f"/features/text_34/versions/1.0.0?done={said}",
            f"/{said}",
            f"/experiments?text={said}&app={said}&state={said}&order={said}",
            f"/audit?text={said}&principal={said}&action={said}&object={said}&app={said}&since={said}&until={said}",
            f"/devices?app=hostile&device={said}&os={said}&held={said}",
            f"/policies/hostile?serial={said}&with={said}",
            f"/planner?mde={said}&devices={said}&epsilon={said}",
            f"/rollouts/new?app={said}&feature={said}&version={said}&audience={said}",
            f"/experiments/new?app={said}&feature={said}",
        )
        found.append(places[number % len(places)])
    return found


FIELDS: Final = (
    Field("cards", _card),
    Field("tags", _tags),
    Field("reasons of versions", _reasons_of_versions),
    Field("reasons of aliases", _reasons_of_aliases),
    Field("reasons of rollouts", _reasons_of_rollouts),
    Field("reasons of experiments", _reasons_of_experiments),
    Field("filters and names in addresses, with the errors that repeat them", _addresses),
)
"""A new field is a function here that writes the texts, and a row."""

"""A team's versions on the command line, with real programs and a real server: found, compared, validated, revoked."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.inspection.diff import ProgramFigures, Side, compare, figures_of
from alcove.registry.delta import apply_delta
from alcove.registry.errors import ProgramRefusedError
from alcove.registry.manifest import Manifest
from alcove.registry.program_validation import RuntimeValidator
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType, Storage
from alcove.runtime.format.writer import write_program
from alcove.sdk import Client

from tests.platform.cli.terminal import Shop, alcove, ok


@pytest.fixture(scope="module")
def kind(shop: Shop, programs: tuple[Path, Path]) -> str:
    """The feature `kind` with the versions 2.0.0 and 2.1.0, the second with a lineage and another card."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    options = ("--feature", "kind", "--team", "writing", "--key", key)
    for number, program in enumerate(programs):
        card = shop.folder / f"kind{number}.md"
        card.write_text(f"# Kind\n\nLearnt from own text.\n\nAccuracy {90 + number} %.\n")
        lineage = ("--training-run", "run-7", "--code-revision", "c0ffee", "--data", "own text", "--parent", "2.0.0")
        said = shop.team(
            "model", "push", f"f32={program}", "--version", f"2.{number}.0", "--card", card, *options,
            *(lineage if number else ()),
        )  # fmt: skip
        assert said.code == 0, said.err
    early = shop.team("model", "alias", "set", "kind@2.1.0", "@newest", "--reason", "it is")
    assert early.code == 1
    assert "kind 2.1.0 is registered, and only released versions may reach devices" in early.err
    assert "alcove model rules kind --any-state" in early.err
    assert ok(shop.operator("model", "rules", "kind", "--any-state", "--json")).json["accepts_any_state"]
    return "kind"


def test_a_version_is_found_shown_and_downloaded(
    shop: Shop, kind: str, programs: tuple[Path, Path], tmp_path: Path
) -> None:
    """By text, tag, alias; as a table and as JSON; and the file that comes is the one that was pushed."""
    ok(shop.team("model", "tag", "set", f"{kind}@2.1.0", "suite=passed"))
    ok(shop.team("model", "alias", "set", f"{kind}@2.1.0", "@newest", "--reason", "it is"))
    for filters in (
        ("--text", "run-7"),
        ("--tag", "suite"),
        ("--tag", "suite=passed"),
        ("--alias", "newest"),
        ("--limit", 1, "--order", "newest"),
    ):
        rows = ok(shop.operator("model", "list", "--feature", kind, *filters, "--json")).json
        assert [row["version"] for row in rows] == ["2.1.0"], filters
    rows = ok(shop.operator("model", "list", "--feature", kind, "--state", "released", "--json")).json
    assert not any(row["version"].startswith("2.") for row in rows)
    table = ok(shop.operator("model", "list", "--feature", kind)).out
    assert "suite=passed" in table
    assert "@newest" in table
    shown = ok(shop.operator("model", "show", f"{kind}@newest", "--json")).json
    assert shown["version"]["lineage"] == {
        "training_run": "run-7", "code_revision": "c0ffee", "data": "own text", "parent": "2.0.0",
    }  # fmt: skip
    assert [(port["name"], port["dtype"], port["shape"]) for port in shown["inputs"]] == [("x", "f32", [1, 16])]
    assert "Accuracy 91 %" in shown["card"]
    words = ok(shop.operator("model", "show", f"{kind}@2.1.0")).out
    for word in ("kind 2.1.0 @newest: registered", "training run: run-7", "Accuracy 91 %", "suite"):
        assert word in words, words
    got = ok(shop.operator("model", "download", f"{kind}@newest", "-o", tmp_path / "got.alc", "--json")).json
    assert (tmp_path / "got.alc").read_bytes() == programs[1].read_bytes()
    assert (got["version"], got["variant"], got["size_bytes"]) == ("2.1.0", "f32", programs[1].stat().st_size)
    ok(shop.team("model", "tag", "remove", f"{kind}@2.1.0", "suite"))
    moves = ok(shop.operator("model", "alias", "history", kind, "--json")).json
    assert [(move["alias"], move["to_version"], move["reason"]) for move in moves] == [("newest", "2.1.0", "it is")]
    ok(shop.team("model", "alias", "remove", kind, "newest", "--reason", "over"))
    assert ok(shop.operator("model", "alias", "list", kind)).out == "no alias yet: alcove model alias set\n"


def test_two_versions_are_compared(shop: Shop, kind: str, programs: tuple[Path, Path]) -> None:
    """Versions, a version and a file, and two files without any server: figures, operators, lineage, card."""
    found = ok(shop.operator("model", "diff", f"{kind}@2.0.0", f"{kind}@2.1.0", "--json")).json
    (variant,) = found["variants"]
    figures = {row["what"]: row for row in variant["figures"]}
    assert figures["size_bytes"]["left"] == programs[0].stat().st_size
    assert figures["size_bytes"]["change"] == programs[1].stat().st_size - programs[0].stat().st_size
    assert figures["memory_ceiling_bytes"]["change"] == 0
    assert figures["parity_samples"]["left"] == 3
    assert figures["parity_tolerance"]["left"] == figures["parity_tolerance"]["right"] != ""
    assert variant["ops"] == found["breaks"] == []
    assert {row["what"]: row["right"] for row in found["lineage"]}["parent"] == "2.0.0"
    assert "-Accuracy 90 %." in found["card"]
    assert "+Accuracy 91 %." in found["card"]
    table = ok(shop.operator("model", "diff", f"{kind}@2.0.0", f"{kind}@2.1.0")).out
    for word in ("kind 2.0.0", "kind 2.1.0", "memory ceiling bytes", "apps that call", "+Accuracy 91 %."):
        assert word in table, table
    mixed = ok(shop.operator("model", "diff", programs[0], f"{kind}@2.0.0", "--json")).json
    assert all(row["change"] in (0, None) for row in mixed["variants"][0]["figures"])
    assert mixed["variants"][0]["variant"] == "default → f32"
    local = ok(alcove("model", "diff", *programs, "--measure", "--json")).json
    timed = {row["what"]: row for row in local["variants"][0]["figures"]}["latency_ms"]
    assert min(timed["left"], timed["right"]) > 0
    assert local["variants"][0]["times"] == []


def test_a_diff_tells_which_weights_are_new_and_where_time_goes(programs: tuple[Path, Path]) -> None:
    """Of another seed all weights are new, of the same program none; each type of operator has its time."""
    other = ok(alcove("model", "diff", *programs, "--by-operator", "--json")).json["variants"][0]
    figures = {row["what"]: row for row in other["figures"]}
    assert figures["share_of_weights_that_is_new"]["right"] == 1
    assert figures["weight_bytes_of_its_own"]["right"] == figures["weight_bytes"]["right"] > 0
    assert {row["what"] for row in other["weights"]} == {"hidden.weight+hidden.bias", "out.weight+out.bias"}
    assert {row["what"] for row in other["times"]} == {"linear", "softmax"}
    assert all(row["left"] > 0 and row["right"] > 0 for row in other["times"])
    same = ok(alcove("model", "diff", programs[0], programs[0], "--json")).json["variants"][0]
    assert {row["what"]: row for row in same["figures"]}["share_of_weights_that_is_new"]["right"] == 0
    assert same["weights"] == []
    said = ok(alcove("model", "diff", *programs, "--by-operator")).out
    for words in ("2 weights differ", "hidden.weight+hidden.bias", "share of weights that is new", "µs in"):
        assert words in said


def test_a_weight_that_moved_under_another_name_is_not_new(programs: tuple[Path, Path]) -> None:
    """Content counts, not names: of 100 bytes 40 are elsewhere, 60 were not there before."""
    _, signature = figures_of(programs[0].read_bytes())
    old = ProgramFigures(1, 1, {}, "", 0, weights={"a": ("one", 40), "b": ("two", 50)})
    new = ProgramFigures(1, 1, {}, "", 0, weights={"c": ("one", 40), "b": ("three", 60)})
    (variant,) = compare(
        Side("x", None, signature, {"f32": old}, {}), Side("y", None, signature, {"f32": new}, {})
    ).variants
    figures = {row.what: (row.left, row.right) for row in variant.figures if "weight" in row.what}
    assert figures == {
        "weight_bytes": (90, 100), "weight_bytes_of_its_own": (50, 60), "share_of_weights_that_is_new": (None, 0.6),
    }  # fmt: skip
    assert [(row.what, row.left, row.right) for row in variant.weights] == [("b", 50, 60), ("a", 40, 0), ("c", 0, 40)]


def test_a_diff_tells_operators_variants_and_breaks(programs: tuple[Path, Path]) -> None:
    """Operators that occur more or less often, programs that one side has alone, and what apps trip over."""
    _, signature = figures_of(programs[0].read_bytes())
    renamed = signature.model_copy(update={"inputs": (signature.inputs[0].model_copy(update={"name": "y"}),)})
    old = ProgramFigures(100, 10, {"linear": 2, "softmax": 1}, "standard", 3, latency_ms=2.0)
    new = ProgramFigures(80, 10, {"linear": 3, "relu": 1}, "tight", 3)
    found = compare(
        Side("a", "one\n", signature, {"f32": old, "int8": old}, {"data": "x", "parent": ""}),
        Side("b", "one\n", renamed, {"f32": new, "tiny": new}, {"data": "x"}),
    )
    (variant,) = found.variants
    assert [(row.what, row.change) for row in variant.ops] == [("linear", 1), ("relu", 1), ("softmax", -1)]
    assert {row.what: row.change for row in variant.figures} == {
        "size_bytes": -20, "memory_ceiling_bytes": 0, "operators": 1, "parity_tolerance": None, "parity_samples": 0,
        "latency_ms": None,
    }  # fmt: skip
    assert (found.only_left, found.only_right) == (("int8",), ("tiny",))
    assert found.breaks == ("input 'x' is now called 'y'",)
    assert found.card == ""


def test_a_version_is_validated_released_and_deprecated(shop: Shop, kind: str) -> None:
    """The real program's figures; a rule that it breaks makes exit code 1 and names figure and bound."""
    name = f"{kind}@2.0.0"
    ok(shop.operator("model", "rules", kind, "--max-memory-bytes", 1, "--allowed-op", "linear"))
    failed = shop.team("model", "validate", name, "--json")
    assert failed.code == 1
    wrong = {check["name"]: check for check in failed.json["validation"]["checks"] if not check["is_passed"]}
    assert wrong.keys() == {"memory", "operators"}
    assert wrong["memory"]["bound"] == "at most 1 bytes"
    assert wrong["operators"]["figure"] == "softmax not allowed"
    table = shop.team("model", "validate", name)
    assert table.code == 1
    assert "FAILED" in table.out
    early = shop.team("model", "release", name, "--reason", "now")
    assert early.code == 1
    assert "kind 2.0.0 is registered: cannot release; it can: validate, revoke" in early.err
    rules = ok(shop.operator("model", "rules", kind, "--max-memory-bytes", 0, "--allowed-op", "any", "--json")).json
    assert (rules["max_memory_bytes"], rules["allowed_ops"]) == (0, [])
    ok(shop.operator("model", "rules", kind, "--max-latency-ms", 60_000))
    passed = ok(shop.team("model", "validate", name, "--json")).json
    checks = {check["name"]: check for check in passed["validation"]["checks"]}
    assert checks["certificate"]["figure"].startswith("3 samples, tolerance ")
    assert checks["latency"]["figure"].endswith(" ms")
    assert checks["latency"]["bound"] == "at most 60000 ms"
    assert checks["weights"]["figure"] == "0 NaN"
    released = ok(shop.team("model", "release", name, "--reason", "good")).out.splitlines()
    assert released[0] == "kind 2.0.0 is released"
    assert released[1] == "next: alcove rollout create --app APP --feature kind --version 2.0.0"
    assert ok(shop.team("model", "deprecate", name, "--reason", "old", "--json")).json["state"] == "deprecated"
    assert "validated" in ok(shop.operator("model", "show", name)).out


def test_an_alias_waits_for_a_second_person(shop: Shop, kind: str) -> None:
    """Proposed by the team, approved by the operator; the proposer is refused."""
    ok(shop.operator("model", "rules", kind, "--approve-aliases"))
    said = ok(shop.team("model", "alias", "set", f"{kind}@2.1.0", "production", "--reason", "go", "--json")).json
    proposal = said["proposal"]["proposal_id"]
    assert proposal in ok(shop.operator("model", "alias", "list", kind)).out
    own = shop.team("model", "alias", "approve", proposal)
    assert own.code == 5
    assert "somebody else must approve it" in own.err
    assert "kind@production points to 2.1.0" in ok(shop.operator("model", "alias", "approve", proposal)).out
    ok(shop.operator("model", "rules", kind, "--no-approve-aliases"))


def test_what_names_no_version_is_reported(shop: Shop, kind: str, tmp_path: Path) -> None:
    """Exit code 2 for wrong use, 4 for what there is not, 5 for what one may not; one sentence, no file."""
    out = tmp_path / "x.alc"
    for code, words, said in (
        (2, "FEATURE@VERSION", shop.operator("model", "show", "kind")),
        (2, "FEATURE@VERSION", shop.operator("model", "show", "@2.0.0")),
        (2, "KEY=VALUE", shop.team("model", "tag", "set", f"{kind}@2.0.0", "novalue")),
        (
            2,
            "has the variants f32",
            shop.operator("model", "download", f"{kind}@2.0.0", "--variant", "x", "-o", out),
        ),
        (4, "no alias named 'kind@nothing'", shop.operator("model", "download", f"{kind}@nothing", "-o", out)),
        (4, "no version named 'kind 9.9.9'", shop.operator("model", "show", f"{kind}@9.9.9")),
        (5, "may not set the rules", shop.team("model", "rules", kind, "--max-size-bytes", 1)),
        (5, "may not validate", shop.operator("model", "validate", f"{kind}@2.0.0")),
    ):
        flat = " ".join((said.out + said.err).replace("│", " ").split())
        assert (said.code, words in flat) == (code, True), (words, said)
        assert "Traceback" not in flat
    assert list(tmp_path.iterdir()) == []


def test_every_nan_in_a_weight_is_found(programs: tuple[Path, Path]) -> None:
    """One NaN in each weight in turn, at its first and last element: counted, and the weight named."""
    validator = RuntimeValidator()
    spec = read_spec(programs[0].read_bytes())
    weights = [
        index for index, tensor in enumerate(spec.tensors)
        if tensor.storage is Storage.CONSTANT and tensor.dtype is DType.F32
    ]  # fmt: skip
    assert weights
    assert validator.summary("f32", programs[0].read_bytes()).nan_weights == {}
    for index in weights:
        values = np.frombuffer(spec.tensors[index].data, dtype="<f4")
        for place in (0, values.size - 1):
            spoilt = values.copy()
            spoilt[place] = math.nan
            tensors = [*spec.tensors]
            tensors[index] = replace(tensors[index], data=spoilt.tobytes())
            program = bytes(write_program(replace(spec, tensors=tuple(tensors))))
            assert validator.summary("f32", program).nan_weights == {spec.tensors[index].name: 1}
            with pytest.raises(ProgramRefusedError):  # and the certificate does not hold either
                validator.parity("f32", program)
    for call in (validator.parity, validator.summary, validator.latency_ms):
        with pytest.raises(ProgramRefusedError):
            call("f32", programs[0].read_bytes()[:1000])


def test_a_revoked_version_disappears_from_a_device(
    shop: Shop, kind: str, programs: tuple[Path, Path], tmp_path: Path
) -> None:
    """A real device runs 2.1.0; at its next check-in after the revocation 2.0.0 answers, and the file is gone."""
    settings: dict[str, Any] = {
        "app": "letters",
        "data_dir": tmp_path / "device",
        "server": shop.http,
        "trusted_root": shop.folder / "keys" / "root.json",
        "baselines": {kind: programs[0]},
    }
    app = ("--app", "letters", "--feature", kind, "--share", "100%", "--override-reason", "test")
    for version in ("2.0.0", "2.1.0"):
        ok(shop.operator("rollout", "create", *app, "--version", version))
        if version == "2.0.0":
            with Client(**settings) as device:
                assert device.sync().error is None
                assert device.feature(kind).version == "2.0.0"
    with Client(**settings) as device:
        handle = device.feature(kind)
        assert device.sync().error is None
        assert handle.version == "2.1.0"
        revoked = ok(shop.operator("model", "revoke", f"{kind}@2.1.0", "--reason", "it lies", "--yes", "--json")).json
        assert (revoked["version"]["state"], revoked["apps"]) == ("revoked", ["letters"])
        digest = revoked["version"]["variants"][0]["sha256"]
        assert device.sync().error is None
        assert handle.version == "2.0.0"
        answer = handle.predict(np.full((1, 16), 0.5, dtype=np.float32))
        assert answer.version == "2.0.0"
        assert not [path for path in tmp_path.rglob("*") if digest in path.name]
    refused = shop.operator("rollout", "create", *app, "--version", "2.1.0")
    assert refused.code == 1
    assert "kind 2.1.0 is revoked" in refused.err
    again = shop.operator("model", "download", f"{kind}@2.1.0", "-o", tmp_path / "x.alc")
    assert again.code == 2
    assert "is revoked" in again.err
    audit = alcove("audit", "list", "--data-dir", shop.folder / "server", "--object", "kind 2.1.0", "--json").json
    assert json.dumps(audit[0]["details"]["apps"]) == '["letters"]'
    assert audit[0]["action"] == "revoke version"


def test_next_version_is_pushed_with_deltas_from_those_before(
    shop: Shop, kind: str, programs: tuple[Path, Path], tmp_path: Path
) -> None:
    """From the newest versions, unless stated otherwise; each makes the program of what devices have."""
    key = shop.folder / "keys" / "teams" / "writing.pem"
    options = ("--feature", kind, "--team", "writing", "--key", key)
    ok(shop.team("model", "push", f"f32={programs[1]}", "--version", "2.2.0", *options))
    ok(shop.team("model", "push", f"f32={programs[0]}", "--version", "2.3.0", "--deltas-from", 1, *options))
    ok(shop.team("model", "push", f"f32={programs[0]}", "--version", "2.4.0", "--deltas-from", 0, *options))
    token = (shop.folder / "team.token").read_text().strip()
    with PlatformClient(shop.server, token) as client:
        made, whole = (Manifest.from_bytes(client.version(kind, version)[1]) for version in ("2.3.0", "2.4.0"))
        (delta,) = made.variants[0].deltas
        client.download_blob(delta.sha256, tmp_path / "delta")
    before, after = programs[1].read_bytes(), programs[0].read_bytes()
    assert delta.base_sha256 == hashlib.sha256(before).hexdigest()
    assert apply_delta(before, (tmp_path / "delta").read_bytes(), len(after)) == after
    assert whole.variants[0].deltas == ()


def test_a_version_that_would_break_apps_is_not_validated(shop: Shop, kind: str) -> None:
    """A model of another input, really exported and pushed: every other check passes, the signature does not."""
    (shop.folder / "wide_model.py").write_text(
        "import torch\n\n\ndef make():\n    args = (torch.zeros(1, 20),)\n"
        "    return torch.nn.Linear(20, 2).eval(), args, [args]\n"
    )
    program = shop.folder / "wide.alc"
    ok(alcove("model", "export", f"{shop.folder}/wide_model.py:make", "--out", program))
    key = shop.folder / "keys" / "teams" / "writing.pem"
    options = ("--feature", kind, "--team", "writing", "--key", key, "--version", "2.0.5")
    ok(shop.team("model", "push", f"f32={program}", *options))
    said = shop.team("model", "validate", f"{kind}@2.0.5", "--json")
    assert said.code == 1
    (failed,) = [check for check in said.json["validation"]["checks"] if not check["is_passed"]]
    assert failed["name"] == "signature"
    assert "has shape (1, 20), apps pass (1, 16)" in failed["figure"]
    assert failed["bound"].startswith("what an app passes to and gets from ")
    breaks = ok(shop.operator("model", "diff", f"{kind}@2.0.0", f"{kind}@2.0.5", "--json")).json["breaks"]
    assert any("(1, 20)" in sentence for sentence in breaks)

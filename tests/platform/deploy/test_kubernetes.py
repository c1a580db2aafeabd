"""deploy/kubernetes: every manifest is listed, confined and watched, and valid by Kubernetes' own schemas."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.platform.deploy.checkers import find_checker

KUBERNETES = "1.31"  # the oldest version that is checked
RENDERED = ("base", "overlays/production")


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    """Where the manifests are."""
    return repository / "deploy/kubernetes"


def read(folder: Path) -> list[dict[str, Any]]:
    """Return every object of every manifest."""
    paths = [path for path in sorted(folder.rglob("*.yaml")) if path.name != "kustomization.yaml"]
    return [one for path in paths for one in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def pod_specs(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Give name, labels and pod of everything that runs."""
    for one in objects:
        spec = one.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template is not None:
            yield one["metadata"]["name"], template["metadata"]["labels"], template["spec"]


@pytest.fixture(scope="module")
def objects(folder: Path) -> list[dict[str, Any]]:
    """The objects of base and overlays."""
    return read(folder)


def test_kustomizations_list_every_file_beside_them(folder: Path) -> None:
    """A manifest that nobody lists would be applied by nobody."""
    for path in folder.rglob("kustomization.yaml"):
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        files = {other.name for other in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
        listed = set(found["resources"])
        assert {name for name in listed if "/" not in name} == files
        for name in listed - files:
            assert (path.parent / name / "kustomization.yaml").exists()


def test_every_container_is_confined(objects: list[dict[str, Any]]) -> None:
    """As the namespace's "restricted" asks, and more: read-only roots, bounds of memory, no token of the cluster."""
    seen = 0
    for name, _, pod in pod_specs(objects):
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True, name
        assert security["runAsUser"] == 10001, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert pod["automountServiceAccountToken"] is False, name
        for container in [*pod["initContainers"], *pod["containers"]]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False
            assert own["readOnlyRootFilesystem"] is True
            assert own["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert "memory" in container["resources"]["limits"]
            assert container["image"] == "alcove"
            seen += 1
    assert seen == 6


def test_every_server_is_probed_spread_and_kept(objects: list[dict[str, Any]]) -> None:
    """Three probes each, a budget of disruptions, and labels that services, budgets and policies select."""
    deployments = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Deployment"}
    assert set(deployments) == {"alcove-grpc", "alcove-ingress"}
    budgets = {one["metadata"]["name"]: one for one in objects if one["kind"] == "PodDisruptionBudget"}
    for name, one in deployments.items():
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            (how,) = (container[probe][kind] for kind in ("httpGet", "tcpSocket") if kind in container[probe])
            assert how["port"] in ports
        labels = {"app.kubernetes.io/name": name}
        assert one["spec"]["selector"]["matchLabels"] == labels
        assert one["spec"]["template"]["metadata"]["labels"] == labels
        assert budgets[name]["spec"]["selector"]["matchLabels"] == labels
        assert one["spec"]["replicas"] > budgets[name]["spec"]["minAvailable"]
        part = name.removeprefix("alcove-")
        assert f"--only={part}" in container["args"]


def test_every_mount_has_its_volume(objects: list[dict[str, Any]]) -> None:
    """And every volume a mount."""
    for name, _, pod in pod_specs(objects):
        volumes = {volume["name"] for volume in pod["volumes"]}
        containers = [*pod["initContainers"], *pod["containers"]]
        assert {mount["name"] for one in containers for mount in one["volumeMounts"]} == volumes, name


def test_keys_are_in_one_deployment_and_not_writable(objects: list[dict[str, Any]]) -> None:
    """Secrets of online keys reach the teams' process alone; the devices' part cannot write the data."""
    pods = {name: pod for name, _, pod in pod_specs(objects)}
    for name, pod in pods.items():
        secrets = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        assert ("alcove-online-keys" in secrets) == (name == "alcove-grpc")
    (grpc,) = pods["alcove-grpc"]["containers"]
    assert all(mount["readOnly"] for mount in grpc["volumeMounts"] if mount["name"] == "private")
    (ingress,) = pods["alcove-ingress"]["containers"]
    assert [mount["readOnly"] for mount in ingress["volumeMounts"] if mount["name"] == "data"] == [True]


def test_network_is_closed_but_for_what_is_named(objects: list[dict[str, Any]]) -> None:
    """Everything is denied first; each pod that runs has its way to the stores."""
    policies = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "NetworkPolicy"}
    assert policies["deny-all"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    (expression,) = policies["stores"]["podSelector"]["matchExpressions"]
    assert set(expression["values"]) == {labels["app.kubernetes.io/name"] for _, labels, _ in pod_specs(objects)}
    for name in ("alcove-grpc", "alcove-ingress"):
        assert policies[name]["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": name}


@pytest.fixture(scope="module", params=RENDERED)
def rendered(folder: Path, request: pytest.FixtureRequest) -> str:
    """What `kubectl apply -k` would send, by kubectl's own kustomize."""
    command = [find_checker("kubectl"), "kustomize", str(folder / request.param)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_rendered_manifests_are_valid_and_refer_to_what_is_there(rendered: str, tmp_path: Path) -> None:
    """All in the namespace, valid by the schemas, and every configuration and volume that a pod names is among them."""
    path = tmp_path / "rendered.yaml"
    path.write_text(rendered, encoding="utf-8")
    tool = find_checker("kubernetes-validate")
    done = subprocess.run([tool, "-k", KUBERNETES, "--strict", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    objects = list(yaml.safe_load_all(rendered))
    outside = {"Namespace"}
    assert {one["metadata"].get("namespace") for one in objects if one["kind"] not in outside} == {"alcove"}
    names = {(one["kind"], one["metadata"]["name"]) for one in objects}
    for name, _, pod in pod_specs(objects):
        assert ("ServiceAccount", pod["serviceAccountName"]) in names, name
        for container in pod["containers"]:
            for source in container["envFrom"]:
                if "configMapRef" in source:
                    assert ("ConfigMap", source["configMapRef"]["name"]) in names, name
        for volume in pod["volumes"]:
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            assert claim is None or ("PersistentVolumeClaim", claim) in names, name


@pytest.mark.parametrize("rendered", ["overlays/production"], indirect=True)
def test_overlay_changes_what_it_says(rendered: str) -> None:
    """Image, replicas, bucket and the addresses of the stores are the overlay's; the base's region stays."""
    objects = list(yaml.safe_load_all(rendered))
    images = {one["image"] for _, _, pod in pod_specs(objects) for one in [*pod["initContainers"], *pod["containers"]]}
    assert images == {"registry.example.org/alcove:0.1.0"}
    replicas = {one["metadata"]["name"]: one["spec"]["replicas"] for one in objects if one["kind"] == "Deployment"}
    assert replicas == {"alcove-grpc": 2, "alcove-ingress": 4}
    (settings,) = (one["data"] for one in objects if one["kind"] == "ConfigMap")
    assert settings == {"ALCOVE_BLOBS": "s3://acme-models/alcove", "AWS_REGION": "eu-central-1"}
    (stores,) = (one["spec"] for one in objects if one["metadata"]["name"] == "stores")
    addresses = [to["ipBlock"]["cidr"] for rule in stores["egress"][1:] for to in rule["to"]]
    assert addresses == ["10.20.0.0/24", "10.30.0.0/24"]


def test_manifests_are_valid_by_the_schemas_of_kubernetes(folder: Path) -> None:
    """Strictly: a property that does not exist is refused."""
    tool = find_checker("kubernetes-validate")
    paths = [str(path) for path in sorted(folder.rglob("*.yaml")) if path.name != "kustomization.yaml"]
    done = subprocess.run([tool, "-k", KUBERNETES, "--strict", *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_containerfile_has_no_finding_of_its_linter(repository: Path) -> None:
    """hadolint, with all of its rules."""
    tool = find_checker("hadolint")
    path = repository / "deploy/container/Containerfile"
    done = subprocess.run([tool, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

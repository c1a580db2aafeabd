"""Counts what the peers execute: their own wheels for 64-bit ARM, run by an emulated Python.

`python -m benchmarks.arm.peers` fetches that Python from Debian and the wheels by pip, into $ARM_PEERS (default
`<tmp>/peers_arm`).  The models are those that `../shared/peers/run.sh` exports.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.arm.emulator import PROCESSORS, RUNS, Count, NotCountedError, count
from benchmarks.models.cases import ROOT, Case
from benchmarks.models.peers import Places

PEERS: Final = {
    "ONNX Runtime": ("onnxruntime", "{}.onnx"),
    "ncnn": ("ncnn", "ncnn_{}"),
    "LiteRT": ("litert", "{}.tflite"),
}
"""By name: the module of peer_run.py, and the file of a model."""
WHEELS: Final = ("onnxruntime==1.31.1", "ncnn==1.0.20261020", "ai-edge-litert==2.3.0", "numpy==2.4.6")
_NEEDED: Final = (
    *("backports.strenum", "certifi", "charset-normalizer", "flatbuffers", "idna", "ml-dtypes", "packaging"),
    *("portalocker", "protobuf", "requests", "tqdm", "typing-extensions", "urllib3"),
)
_PACKAGES: Final = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "libgcc-s1", "libstdc++6"),
    *("libexpat1", "zlib1g", "libffi8", "libbz2-1.0", "liblzma5", "libssl3", "libuuid1", "libgomp1"),
)
_PROCESSOR: Final = """processor\t: 0
Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ssbs
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


def folder() -> Path:
    """Return where the emulated Python and the wheels lie."""
    return Path(os.environ.get("ARM_PEERS", Path(tempfile.gettempdir()) / "peers_arm"))


def count_peer(plugin: Path, name: str, case: Case, isa: str) -> Count:
    """Return what one run of a peer executes, with a processor of that level; the least of the wordings of the model.

    Raises:
        NotCountedError: it is not there or failed.
    """
    base, (module, file) = folder(), PEERS[name]
    python = base / "sysroot/usr/bin/python3.11"
    if not python.exists():
        raise NotCountedError("not fetched (python -m benchmarks.arm.peers)")
    models = Places.from_environment().models
    variables = [f"PYTHONHOME={base}/sysroot/usr", f"PYTHONPATH={base}/site", "PYTHONDONTWRITEBYTECODE=1"]
    counts, reason = [], "its model is not exported (run.sh)"
    for model in (case.model, *case.also):
        path = models / file.format(model + case.peer_suffix)
        if not path.exists():
            continue
        arguments: list[str | Path] = [module, path, models / f"{model}.npz", str(RUNS)]
        command: list[str | Path] = [python, "-W", "ignore", ROOT / "benchmarks/arm/peer_run.py", *arguments]
        try:
            found = count(plugin, command, processor=PROCESSORS[isa], system=base / "sysroot", variables=variables)
            counts.append(found)
        except NotCountedError as error:
            reason = str(error)
    if not counts:
        raise NotCountedError(reason)
    return min(counts, key=lambda found: found.instructions)


def fetch(base: Path) -> None:
    """Fetch Python for 64-bit ARM and the wheels, without changing what this system has installed."""
    system, debs, apt = base / "sysroot", base / "debs", base / "apt"
    for path in (system, debs, apt / "state/lists/partial", apt / "cache/archives/partial", base / "wheels"):
        path.mkdir(parents=True, exist_ok=True)
    configuration = apt / "configuration"
    configuration.write_text(
        'APT::Architecture "arm64";\nAPT::Architectures { "arm64"; };\nAPT::Sandbox::User "root";\n'
        f'Dir::State "{apt}/state";\nDir::State::status "/dev/null";\nDir::Cache "{apt}/cache";\n'
    )
    environment = {**os.environ, "APT_CONFIG": str(configuration)}
    subprocess.run(["apt-get", "-qq", "update"], check=True, env=environment)
    subprocess.run(["apt-get", "-qq", "download", *_PACKAGES], check=True, env=environment, cwd=debs)
    for package in debs.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(system)], check=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "-d", str(base / "wheels"), "--no-deps"]
    pip += ["--only-binary=:all:", "--python-version", "311", "--implementation", "cp"]
    for platform in ("2_28", "2_27", "2_24", "2_17", "2014"):
        pip += ["--platform", f"manylinux{'' if platform == '2014' else '_'}{platform}_aarch64"]
    subprocess.run([*pip, *WHEELS, *_NEEDED], check=True)
    for wheel in (base / "wheels").glob("*.whl"):
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(base / "site")], check=True)
    # Peers ask these files which processor there is, and fail at that of this machine.
    processors = system / "sys/devices/system/cpu"
    (processors / "cpu0").mkdir(parents=True, exist_ok=True)
    for name in ("possible", "present", "online", "kernel_max"):
        (processors / name).write_text("0\n")
    (system / "proc").mkdir(exist_ok=True)
    (system / "proc/cpuinfo").write_text(_PROCESSOR)


if __name__ == "__main__":
    fetch(folder())

"""Questions about the host: what is needed to trace, to load and to import, and what it cannot be asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from recipes.doctor import host
from recipes.doctor.pins import numbers
from validate.probe.question import Answer, Work

_LOAD = """
import json, sys, torch, torch_neuronx
model = torch.jit.load(sys.argv[1])
found = model(torch.arange(4, dtype=torch.float32))
found = found if isinstance(found, torch.Tensor) else found[0]
print(json.dumps({"found": found.tolist(), "compiler_imported": any(n.startswith("neuronxcc") for n in sys.modules)}))
"""
# Found by every Python process below it, also by libneuronpjrt-path, which is one.
_NO_COMPILER = """
import sys
class _Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "neuronxcc":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, _Refuse())
"""
_IMPORT = """
import importlib.util, sys
import transformers
if sys.argv[1] == "stub":
    import types
    stub = types.ModuleType("transformers.utils.fx")
    stub.HFTracer = type("HFTracer", (), {})
    sys.modules["transformers.utils.fx"] = stub
import neuronx_distributed.trace.model_builder
"""
_DRIVER_OF_THE_SDK, _RUNTIME_OF_THE_SDK = "2.26.10", "2.30.51"


def cpu_trace(work: Work) -> Answer:
    """Trace and save by the CPU backend, and look whether a device was opened for it."""
    import torch

    from validate.probe.items import sdk
    from validate.probe.items.tiny import PlusOne

    evidence: dict[str, Any] = {"device_nodes": sorted(str(path) for path in Path("/dev").glob("neuron*"))}
    devices = _host(work)["devices"]
    try:
        traced = sdk.trace(PlusOne(), (torch.ones(4),), work, cpu_backend=True)
        evidence["archive_bytes"] = sdk.save(traced, Path(work.own) / "plain.pt").stat().st_size
    except Exception as error:
        evidence["error"] = f"{type(error).__name__}: {error}"[:500]
        return Answer("no" if not devices["chips"] else "no, even on a host with a driver", evidence)
    evidence["opened"] = _opened()
    evidence["holds_cores"] = os.getpid() in {one.pid for one in host.devices().holders}
    if not devices["chips"]:
        return Answer("yes", evidence)
    if evidence["opened"] or evidence["holds_cores"]:
        return Answer("not answerable here: it works, and opened the device of this host", evidence)
    return Answer("yes, as far as a host with a driver tells: the device was not opened", evidence)


def serve_without_compiler(work: Work) -> Answer:
    """Load and run the tiny graph in a process for which there is no neuronx-cc."""
    own = Path(work.own)
    (own / "site").mkdir()
    (own / "site/sitecustomize.py").write_text(_NO_COMPILER, encoding="utf-8")
    variables = dict(os.environ)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(own / "site"), variables.get("PYTHONPATH")]))
    variables["PATH"] = os.pathsep.join(_without(variables["PATH"].split(os.pathsep), "neuronx-cc", own / "bin"))
    done = _python(_LOAD, str(Path(work.shared) / "tiny.pt"), variables=variables)
    lines = done.stdout.strip().splitlines()
    if done.returncode == 0 and lines:
        evidence = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
        return Answer("yes" if evidence["found"] == [1.0, 2.0, 3.0, 4.0] else "no, it answers wrongly", evidence)
    return Answer("no", {"code": done.returncode, "said": done.stderr.strip().splitlines()[-12:]})


def driver_version(work: Work) -> Answer:
    """The versions of this host, beside the fact that the tiny graph ran on it."""
    facts = _host(work)
    driver, runtime = facts["driver"], facts["libraries"]["libnrt"]
    evidence = {"driver": driver, "runtime": runtime, "tiny": "ran, with the right answer"}
    if driver is None or runtime is None:
        missing = " or ".join(name for name, one in (("driver", driver), ("runtime", runtime)) if one is None)
        return Answer(f"not answerable here: no version is told of the {missing}", evidence)
    if numbers(runtime)[:3] != numbers(_RUNTIME_OF_THE_SDK):
        return Answer(f"not answerable here: the runtime is {runtime}", evidence)
    if numbers(driver) <= numbers(_DRIVER_OF_THE_SDK):
        return Answer(f"not answerable here: the driver is {driver}, that of the SDK", evidence)
    return Answer(f"yes, {driver} with {runtime}", evidence)


def fx_import(work: Work) -> Answer:
    """Import NxD beside transformers as it is, then with a stub in the place of what is gone."""
    plain, stubbed = (_python(_IMPORT, how) for how in ("plain", "stub"))
    evidence = {
        "transformers": _host(work)["packages"]["transformers"],
        "neuronx-distributed": _host(work)["packages"]["neuronx-distributed"],
        "plain": _last_words(plain),
        "with_stub": _last_words(stubbed),
    }
    if plain.returncode == 0:
        return Answer("yes", evidence)
    if "transformers.utils.fx" not in plain.stderr:
        return Answer("no, for another reason", evidence)
    return Answer("no; with a stub it does" if stubbed.returncode == 0 else "no, nor with a stub", evidence)


def capacity_providers(work: Work) -> Answer:
    """Only an account can be asked."""
    evidence = {
        "why": "these are limits of an AWS account and region; no instance metadata or device tells of them",
        "run": [
            "aws ec2 describe-instance-type-offerings --location-type availability-zone "
            "--filters 'Name=instance-type,Values=inf2.*'",
            "aws batch create-compute-environment --compute-environment-name inf2-probe --type MANAGED "
            "--compute-resources type=EC2,minvCpus=0,maxvCpus=4,instanceTypes=inf2.xlarge,subnets=SUBNET,"
            "securityGroupIds=GROUP,instanceRole=ROLE",
            "aws ecs create-capacity-provider --name inf2-probe "
            "--auto-scaling-group-provider autoScalingGroupArn=ARN_OF_A_GROUP_OF_INF2",
        ],
        "yes_when": "the compute environment becomes VALID and a job of it sees /dev/neuron0",
        "instance": _host(work)["instance"],
    }
    return Answer("not answerable here", evidence)


def _python(script: str, *arguments: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, errors="replace", check=False)


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    return "imports" if done.returncode == 0 else next(iter(done.stderr.strip().splitlines()[-1:]), "")[:300]


def _without(path: list[str], program: str, farm: Path) -> list[str]:
    """PATH with every folder that has `program` replaced by links to everything else in it."""
    kept = []
    for number, name in enumerate(path):
        here = Path(name)
        if not name or not (here / program).exists():
            kept.append(name)
            continue
        links = farm / str(number)
        links.mkdir(parents=True)
        for one in here.iterdir():
            if one.name != program:
                (links / one.name).symlink_to(one.resolve())
        kept.append(str(links))
    return kept


def _opened() -> list[str]:
    """Neuron device files that this process holds open."""
    found = set()
    for handle in Path("/proc/self/fd").iterdir():
        try:
            target = str(handle.readlink())
        except OSError:
            continue
        if re.match(r"/dev/neuron\d", target):
            found.add(target)
    return sorted(found)


def _host(work: Work) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((Path(work.shared) / "host.json").read_bytes())
    return document

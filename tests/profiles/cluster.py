"""A slurm cluster of one node on this machine, from Debian's packages, as root.

Its configuration is /etc/slurm/slurm.conf and gres.conf, as snakemake's plugin drops SLURM_CONF from the environment of
a job. Both are removed at the end; a file that is not ours is refused. Everything else, munge's key and socket too, is
in a folder of the test.
"""

from __future__ import annotations

import fcntl
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ETC = Path("/etc/slurm")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol")
_LOCK = Path(tempfile.gettempdir()) / "neff-foundry-tests-slurm.lock"
_MARK = "# Written by tests/profiles/cluster.py, which removes it.\n"
# More than the machine has, as nothing here takes what it asks for.
_CPUS, _MEMORY_MB, _NEURONCORES = 8, 200_000, 2


@dataclass(frozen=True)
class Cluster:
    """Partitions cpu (the default) and inf2, both of the one node, which has two NeuronCores by name."""

    def jobs(self) -> list[dict[str, str]]:
        """Every job that slurm remembers, oldest first: the fields of `scontrol show job`."""
        said = _ask("scontrol", "--oneliner", "show", "job")
        lines = [line for line in said.splitlines() if line.startswith("JobId=")]
        return [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]

    def cancel(self, job: str) -> None:
        """End a job and all its processes."""
        _ask("scancel", job)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """The cluster, at work until the end; its files are in `folder`."""
    host = socket.gethostname().partition(".")[0]
    files = {"slurm.conf": _configuration(folder, host), "gres.conf": f"Name=neuroncore Count={_NEURONCORES}\n"}
    for name in files:
        path = ETC / name
        assert not path.exists() or path.read_text().startswith(_MARK), f"{path} belongs to a real cluster"
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    with ExitStack() as stack:
        # One at a time, as the configuration is the machine's. It waits.
        fcntl.flock(stack.enter_context(_LOCK.open("w")), fcntl.LOCK_EX)
        for name, text in files.items():
            stack.callback((ETC / name).unlink)
            (ETC / name).write_text(_MARK + text)
        flags = {"socket": "munge.sock", "key-file": "munge.key", "pid-file": "munge.pid", "seed-file": "munge.seed"}
        paths = [f"--{flag}={folder / name}" for flag, name in flags.items()]
        _start(stack, folder, "munged", "--foreground", "--force", f"--log-file={folder / 'munge.log'}", *paths)
        _start(stack, folder, "slurmctld", "-D", "-c")
        _start(stack, folder, "slurmd", "-D")
        wait_until(_idle)
        yield Cluster()


def _configuration(folder: Path, host: str) -> str:
    with ExitStack() as stack:
        free = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(2)]
    return f"""\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
SlurmctldPort={free[0]}
SlurmdPort={free[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
KillWait=1
MinJobAge=86400
MpiDefault=none
GresTypes=neuroncore
NodeName={host} NodeAddr=127.0.0.1 CPUs={_CPUS} RealMemory={_MEMORY_MB} Gres=neuroncore:{_NEURONCORES} State=UNKNOWN
PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=inf2 Nodes=ALL MaxTime=INFINITE State=UP
"""


def _start(stack: ExitStack, folder: Path, program: str, *flags: str) -> None:
    """Run a daemon in the foreground until the stack ends."""
    found = shutil.which(program)
    assert found, program
    log = stack.enter_context((folder / f"{program}.log").open("wb"))
    process = stack.enter_context(subprocess.Popen([found, *flags], stdout=log, stderr=log, stdin=subprocess.DEVNULL))
    stack.callback(process.send_signal, signal.SIGTERM)


def wait_until(true: Callable[[], bool], seconds: float = 120) -> None:
    """Ask again and again what tells nobody when it comes true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.2)


def _idle() -> bool:
    said = subprocess.run(["sinfo", "--noheader", "--format=%T"], capture_output=True, text=True, check=False)
    return set(said.stdout.split()) == {"idle"}


def _ask(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

"""The API of a Kubernetes cluster as far as snakemake's plugin asks: secrets, jobs and their one pod."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.profiles.containers import Host


@dataclass
class Kube:
    """Jobs that were created, by name and in order, and the containers of them."""

    host: Host
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    _containers: dict[str, str] = field(default_factory=dict)

    def __call__(self, method: str, path: str, body: Any) -> Any:
        """The answer to a request."""
        split = urlsplit(path)
        parts = split.path.strip("/").split("/")
        namespace = parts.index("namespaces")
        kind, names = parts[namespace + 2], parts[namespace + 3 :]
        if method == "DELETE":
            return {"kind": "Status", "status": "Success"}
        if kind == "secrets":
            self.secrets[body["metadata"]["name"]] = body["data"]
            return body
        if kind == "pods":
            return self._log(names[0]) if names else self._pods(parse_qs(split.query)["labelSelector"][0])
        return self._created(body) if method == "POST" else self._job(names[0])

    def _created(self, body: dict[str, Any]) -> Any:
        name = body["metadata"]["name"]
        (container,) = body["spec"]["template"]["spec"]["containers"]
        env = {}
        for one in container.get("env", ()):
            key = one["valueFrom"]["secretKeyRef"]
            env[one["name"]] = base64.b64decode(self.secrets[key["name"]][key["key"]]).decode()
        self.jobs[name] = body
        self._containers[name] = self.host.run([*container["command"], *container["args"]], env)
        return body

    def _code(self, job: str) -> int | None:
        return self.host.containers[self._containers[job]].code

    def _job(self, name: str) -> Any:
        code = self._code(name)
        status = {} if code is None else {"failed": 1} if code else {"succeeded": 1}
        return {"kind": "Job", "metadata": {"name": name}, "spec": {"template": {}}, "status": status}

    def _pods(self, selector: str) -> Any:
        job = selector.partition("=")[2]
        code = self._code(job)
        state = {"running": {}} if code is None else {"terminated": {"exitCode": code}}
        image: dict[str, Any] = {"image": "i", "imageID": "i", "ready": True, "restartCount": 0}
        status = {"containerStatuses": [{"name": "snakemake", "state": state, **image}]}
        return {"kind": "PodList", "items": [{"kind": "Pod", "metadata": {"name": job}, "status": status}]}

    def _log(self, pod: str) -> str:
        return self.host.containers[self._containers[pod]].said


def kubeconfig(folder: Path, server: str) -> Path:
    """A file that leads kubectl's libraries to `server`."""
    path = folder / "kubeconfig"
    context = {"name": "test", "context": {"cluster": "test", "user": "test"}}
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": {"server": server}}],
                "users": [{"name": "test", "user": {}}],
                "contexts": [context],
                "current-context": "test",
            }
        )
    )
    return path

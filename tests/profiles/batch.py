"""AWS Batch as far as snakemake's plugin asks: definitions and jobs, whose containers run on this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.profiles.containers import Host


@dataclass
class Batch:
    """What was registered and submitted, in order, and the containers of it."""

    host: Host
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, method: str, path: str, body: Any) -> Any:
        """The answer to a request; the paths are those of the service's API."""
        assert method == "POST", method
        call = getattr(self, path.rpartition("/")[2])
        return call(body)

    def registerjobdefinition(self, body: dict[str, Any]) -> Any:
        name = body["jobDefinitionName"]
        self.definitions[f"{name}:1"] = body
        return {"jobDefinitionName": name, "jobDefinitionArn": f"arn:{name}:1", "revision": 1}

    def submitjob(self, body: dict[str, Any]) -> Any:
        properties = self.definitions[body["jobDefinition"]]["containerProperties"]
        env = {one["name"]: one["value"] for one in properties["environment"]}
        job = self.host.run(properties["command"], env)
        self.jobs[job] = body
        return {"jobId": job, "jobName": body["jobName"]}

    def describejobs(self, body: dict[str, Any]) -> Any:
        return {"jobs": [self._described(job) for job in body["jobs"]]}

    def terminatejob(self, body: dict[str, Any]) -> Any:
        self.host.containers[body["jobId"]].stop()
        return {}

    def deregisterjobdefinition(self, _: dict[str, Any]) -> Any:
        return {}

    def _described(self, job: str) -> dict[str, Any]:
        code = self.host.containers[job].code
        status = "RUNNING" if code is None else "FAILED" if code else "SUCCEEDED"
        asked = {name: self.jobs[job][name] for name in ("jobName", "jobQueue", "jobDefinition")}
        container = {} if code is None else {"exitCode": code}
        return {**asked, "jobId": job, "status": status, "startedAt": 0, "container": container}

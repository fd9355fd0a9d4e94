"""Names of images in registries: `REGISTRY/NAME:TAG` or `REGISTRY/NAME@sha256:<hex>`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace

from ledger.errors import BadInput

# The host's part has a dot, a colon or is localhost: without, another program would go to a registry of its own choice.
_SHAPE = re.compile(
    r"(?P<registry>localhost|\[[0-9a-fA-F:]+\](?::\d+)?|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.?(?::\d+)?)"
    r"/(?P<name>[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
SCHEME = "docker://"


@dataclass(frozen=True)
class Reference:
    """An image, a tag of it, or one digest; a digest wins over a tag."""

    registry: str
    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        """As people write it."""
        return self.repository + (f"@{self.digest}" if self.digest else f":{self.tag}" if self.tag else "")

    @property
    def repository(self) -> str:
        """Without tag and digest."""
        return f"{self.registry}/{self.name}"

    @property
    def loopback(self) -> bool:
        """Whether the registry is on this machine: only there is TLS not asked for."""
        host = re.sub(r":\d+$", "", self.registry).strip("[]")
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def tagged(self, tag: str) -> Reference:
        """The same image under `tag`."""
        return replace(self, tag=tag, digest="")

    def at(self, digest: str) -> Reference:
        """The same image by digest."""
        return replace(self, tag="", digest=digest)


def parse(text: str) -> Reference:
    """The reference that `text` spells, with or without docker:// before it; BadInput when it is none."""
    match = _SHAPE.fullmatch(text.removeprefix(SCHEME))
    if match is None or not ("." in match["registry"] or ":" in match["registry"] or match["registry"] == "localhost"):
        raise BadInput(f"image {text!r}; accepted: REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:<hex>, in small letters")
    return Reference(match["registry"], match["name"], match["tag"] or "", match["digest"] or "")

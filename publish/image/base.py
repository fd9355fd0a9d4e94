"""The base of the cpu images: Debian 12 with python3.11 and certificates, without compiler, pip and documentation.

mmdebstrap makes it from signed packages; made once a machine, for one recipe. The recipe does not hold the versions of
packages: an image names its base by digest, and `packages` tells what is in it. To take up security updates, remove
the folder `bases` of the cache.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ledger.digest import digest_json
from publish.image import apt
from publish.image.blobs import Blobs
from publish.image.layer import EPOCH, MEDIA_TYPE, Member, normal, pack
from publish.image.layout import CREATED, MADE_HERE, Image, read_layout, write_layout
from publish.image.tools import must

ARCHITECTURE = "amd64"
# usr-is-merged stands for usrmerge, which brings all of perl.
_PACKAGES = ("usr-is-merged", "python3.11", "ca-certificates", "libstdc++6")
_OPTIONS = (
    "--variant=essential",
    f"--architectures={ARCHITECTURE}",
    f"--include={','.join(_PACKAGES)}",
    "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
    '--aptopt=APT::Install-Recommends "false"',
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/lintian/*",
    '--customize-hook=ln -s python3.11 "$1/usr/bin/python3"',
    '--customize-hook=echo foundry:x:10001:10001::/nonexistent:/usr/sbin/nologin >> "$1/etc/passwd"',
    '--customize-hook=echo foundry:x:10001: >> "$1/etc/group"',
    # Modules compiled at installation hold the time of their source, which is about to be EPOCH.
    '--customize-hook=find "$1/usr/lib/python3.11" -name __pycache__ -prune -exec rm -r {} +',
    '--customize-hook=chroot "$1" env PYTHONHASHSEED=0 python3.11 -m compileall -q --invalidation-mode unchecked-hash '
    "/usr/lib/python3.11",
)
# Made anew by who starts a container, or of this host, or of this hour.
_LEFT_OUT = ("dev/", "proc/", "sys/", "run/", "var/log/", "var/cache/", "tmp/")
_LEFT_OUT_FILES = ("etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/passwd-", "etc/group-", "etc/shadow-")
_ENV = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]


def make_base(cache: Path, sources: str | None = None) -> tuple[Path, Image]:
    """The base as an `oci:` folder below `cache`, and its image; `sources` are lines of a sources.list.

    Raises BadInput when mmdebstrap is missing or fails.
    """
    lines = apt.sources() if sources is None else sources
    folder = cache / "bases" / digest_json([_OPTIONS, lines, _LEFT_OUT, _LEFT_OUT_FILES, _ENV])[:16]
    if folder.exists():
        return folder, read_layout(folder)
    blobs = Blobs(cache)
    with tempfile.TemporaryDirectory(prefix="base-", dir=cache) as aside:
        tar = Path(aside, "base.tar")
        command = ["mmdebstrap", "--quiet", *_OPTIONS, apt.SUITE, str(tar), "-"]
        must(command, "base image", env={"SOURCE_DATE_EPOCH": str(EPOCH)}, text=lines)
        with tarfile.open(tar) as raw:
            layer = pack(_normalised(raw), blobs)
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "created": CREATED,
        "config": {"Env": _ENV},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id]},
        "history": [{"created": CREATED, "created_by": f"{MADE_HERE}base"}],
    }
    described = {"mediaType": MEDIA_TYPE, "digest": layer.digest, "size": layer.bytes}
    return folder, write_layout(folder, blobs, config, [described])


def _normalised(raw: tarfile.TarFile) -> Iterator[Member]:
    """What of mmdebstrap's archive goes into the layer; owners and modes are Debian's, times are not."""
    for info in raw:
        path = info.name.removeprefix("./").rstrip("/")
        if path in ("", ".", *_LEFT_OUT_FILES) or path.startswith(_LEFT_OUT):
            continue
        clean = normal(path, info.type, info.mode)
        clean.uid, clean.gid, clean.size = info.uid, info.gid, info.size
        clean.linkname = info.linkname.removeprefix("./") if info.islnk() else info.linkname
        yield clean, raw.extractfile(info) if info.isreg() else None

"""Where a store is, as people write it: a folder, or s3://BUCKET/PREFIX."""

from __future__ import annotations

import re

ACCEPTED = "a folder, or s3://BUCKET/PREFIX"
# Names of buckets by S3's rules; a prefix without empty parts, which some tools of S3 swallow.
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# s3:/my-bucket is what is left of a location once a library took it for a path, or a slip of the hand.
_SLIP = re.compile(r"s3:|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
_PREFIX = re.compile(r"([A-Za-z0-9_.+@~ -]+(/[A-Za-z0-9_.+@~ -]+)*)?")


def bucket_of(location: str) -> tuple[str, str] | None:
    """Bucket and prefix (no slash at its ends) of a location in S3, None for a folder.

    ValueError for an empty one, another scheme, a bucket's name or a prefix that S3 or a shell would not take.
    """
    scheme, colon, rest = location.partition("://")
    if location and not colon and not _SLIP.match(location):
        return None
    bucket, _, prefix = rest.partition("/")
    prefix = prefix.removesuffix("/")
    good = scheme == "s3" and _BUCKET.fullmatch(bucket) and _PREFIX.fullmatch(prefix)
    if not good or {".", ".."} & set(prefix.split("/")):
        raise ValueError(f"found {location!r}; accepted: {ACCEPTED}")
    return bucket, prefix

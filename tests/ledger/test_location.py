"""Where a store is, as people write it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.location import bucket_of


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("s3://my-bucket/foundry", ("my-bucket", "foundry")),
        ("s3://my-bucket/a/b_c.d+e@f~g h/", ("my-bucket", "a/b_c.d+e@f~g h")),
        ("s3://my.bucket", ("my.bucket", "")),
        ("s3://my.bucket/", ("my.bucket", "")),
        ("results/store", None),
        ("/data/s3:/x", None),
        ("data/s3:/x", None),
        ("a:b/c", None),
    ],
)
def test_a_location_is_a_folder_or_a_bucket(location: str, parts: tuple[str, str] | None) -> None:
    assert bucket_of(location) == parts


@pytest.mark.parametrize(
    "location",
    [
        "",
        "s3:/my-bucket/foundry",
        "s3:my-bucket/foundry",
        "S3:/my-bucket/foundry",
        "file:/data/store",
        "s3://",
        "s3:///foundry",
        "s3://ab/foundry",
        "s3://My-Bucket/foundry",
        "s3://my_bucket/foundry",
        "s3://my-bucket//foundry",
        "s3://my-bucket/a//b",
        "s3://my-bucket/a/../b",
        "s3://my-bucket/./b",
        "s3://my-bucket/a?b",
        "s3://my-bucket/a\n",
        "S3://my-bucket/foundry",
        "gs://my-bucket/foundry",
        "https://my-bucket.s3.amazonaws.com/foundry",
        "file:///data/store",
    ],
)
def test_any_other_is_refused(location: str) -> None:
    with pytest.raises(ValueError, match=r"accepted: a folder, or s3://BUCKET/PREFIX") as caught:
        bucket_of(location)
    assert str(caught.value).startswith(f"found {location!r}; ")


@given(st.from_regex(r"\A[a-z0-9]{3,20}\Z"), st.lists(st.from_regex(r"\A[a-z][a-z0-9.-]{0,8}\Z"), max_size=4))
def test_what_is_accepted_comes_back_in_two_parts(bucket: str, folders: list[str]) -> None:
    prefix = "/".join(folders)
    assert bucket_of(f"s3://{bucket}/{prefix}") == (bucket, prefix)

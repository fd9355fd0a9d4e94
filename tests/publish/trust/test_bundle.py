"""Nothing but the bytes that were signed opens, whatever is made of them, and nothing but a verdict comes of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from publish.trust.bundle import encoded, open_bundle
from publish.trust.kinds import Refused
from tests.publish.signed import Publisher


def test_the_pre_authentication_encoding_is_that_of_the_dsse_specification() -> None:
    """Its own test vector has another payload type, which stands where ours does."""
    assert encoded(b"hello world") == b"DSSEv1 28 application/vnd.in-toto+json 11 hello world"


# A splice: from, to, and what stands there instead; a cut or a repetition where that is nothing, or what was there.
SPLICES = st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=40))


@settings(max_examples=300, deadline=None)
@given(splices=st.lists(SPLICES, min_size=1, max_size=3))
def test_any_edit_of_a_signature_is_refused(published: Publisher, splices: list[tuple[float, int, bytes]]) -> None:
    signed = (published.signed / "model.sig").read_bytes()
    data = signed
    for place, length, instead in splices:
        start = int(place * len(data))
        data = data[:start] + instead + data[start + length :]
    if data == signed:
        assert open_bundle(data, published.trusted).files
        return
    with pytest.raises(Refused) as refused:
        open_bundle(data, published.trusted)
    assert refused.value.kind in ("bad_signature", "unknown_signer")
    assert "\n" not in str(refused.value)

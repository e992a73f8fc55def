"""A segment's file says what it holds, and nothing that was changed passes for it."""

from __future__ import annotations

import io

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.backends.mlx.prefix.disk.arrays import loaded, written
from slipstream.backends.mlx.prefix.disk.file import (
    Damaged,
    Kind,
    Label,
    OtherVersion,
    Prefix,
    Tensor,
    decode,
    encode,
    read_label,
)

LABEL = Label(
    kind=Kind.KEYS, space="a" * 64, model="tiny", begin="b" * 64, start=512, ids=(1, 2, 3), note="é"
)
TENSORS = {
    "0.keys": Tensor("F32", (1, 1, 3, 2), bytes(range(24))),
    "0.values": Tensor("BF16", (1, 1, 3, 1), bytes(range(6))),
}
WHOLE = b"".join(encode(LABEL, TENSORS))


def test_a_file_gives_back_what_was_put_in():
    label, tensors = decode(WHOLE)
    assert label == LABEL
    assert {n: (t.dtype, t.shape, bytes(t.data)) for n, t in tensors.items()} == {
        n: (t.dtype, t.shape, t.data) for n, t in TENSORS.items()
    }


def test_a_file_is_safetensors(tmp_path):
    path = tmp_path / "one.safetensors"
    path.write_bytes(WHOLE)
    arrays, metadata = mx.load(str(path), return_metadata=True)
    assert {name: tuple(array.shape) for name, array in arrays.items()} == {
        name: tensor.shape for name, tensor in TENSORS.items()
    }
    assert metadata["version"] == "1"


def test_the_head_alone_tells_what_a_file_holds():
    assert read_label(io.BytesIO(WHOLE), len(WHOLE)) == LABEL


@given(place=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_seen_or_changes_nothing(place, bit):
    changed = bytearray(WHOLE)
    changed[place] ^= 1 << bit
    try:
        label, tensors = decode(bytes(changed))
    except Damaged:
        return
    assert label == LABEL
    assert {n: bytes(t.data) for n, t in tensors.items()} == {n: t.data for n, t in TENSORS.items()}


@given(length=st.integers(0, len(WHOLE) - 1))
def test_a_truncated_file_is_seen(length):
    with pytest.raises(Damaged):
        decode(WHOLE[:length])
    with pytest.raises(Damaged):
        read_label(io.BytesIO(WHOLE[:length]), length)


@given(st.binary(max_size=300))
def test_noise_is_no_segment(noise):
    with pytest.raises(Damaged):
        decode(noise)


@pytest.mark.parametrize("header", [b"[]", b"{}", b'{"__metadata__": 1}', b"[" * 5000])
def test_another_header_is_no_segment(header):
    with pytest.raises(Damaged):
        decode(len(header).to_bytes(8, "little") + header)


def test_another_version_is_told_apart():
    with pytest.raises(OtherVersion):
        decode(WHOLE.replace(b'"version": "1"', b'"version": "2"'))


def test_names_depend_on_all_that_is_before_and_in_a_segment():
    others = [
        Label(kind=Kind.STATE, space="a", model="tiny", begin="b" * 64, start=512, ids=(1, 2, 3)),
        Label(kind=Kind.KEYS, space="a", model="tiny", begin="c" * 64, start=512, ids=(1, 2, 3)),
        Label(kind=Kind.KEYS, space="a", model="tiny", begin="b" * 64, start=512, ids=(1, 2, 4)),
    ]
    assert len({label.name for label in (LABEL, *others)}) == 4


def test_keys_of_prefixes_depend_on_space_and_every_token():
    ids = list(range(100))
    whole = Prefix("one", ids)
    assert whole.key(40) == Prefix("one", ids[:40]).key(40)
    assert whole.key(100) == Prefix("one", ids).key(100)
    assert Prefix("two", ids).key(40) != Prefix("one", ids).key(40)
    assert Prefix("one", [9, *ids[1:]]).key(40) != Prefix("one", ids).key(40)


@pytest.mark.parametrize(
    "dtype",
    [mx.float32, mx.float16, mx.bfloat16, mx.uint32, mx.int32, mx.uint8, mx.int64, mx.bool_],
)
def test_arrays_come_back_to_the_bit(dtype):
    array = (mx.arange(24) % 2 if dtype == mx.bool_ else mx.arange(24)).reshape(2, 3, 4)
    array = mx.swapaxes(array.astype(dtype), 0, 2)
    back = loaded(written(array))
    assert back.dtype == dtype
    assert mx.array_equal(back, array)

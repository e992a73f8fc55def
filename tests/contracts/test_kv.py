"""The spelling of KV schemes."""

from __future__ import annotations

import pytest

from slipstream.contracts.errors import UsageError
from slipstream.contracts.kv import KvScheme, affine, chosen, parse, turbo


@pytest.mark.parametrize(
    ("text", "scheme", "name"),
    [
        ("bf16", KvScheme(), "bf16"),
        ("affine:8", affine(8, 64), "affine:8:64"),
        ("affine:4:32", affine(4, 32), "affine:4:32"),
        ("affine:4@100", affine(4, 64, 100), "affine:4:64@100"),
        (" affine:8:128@7 ", affine(8, 128, 7), "affine:8:128@7"),
        ("turbo", turbo(8, 3), "turbo:k8v3"),
        ("turbo:k4v2", turbo(4, 2), "turbo:k4v2"),
        ("turbo k3 v4", turbo(3, 4), "turbo:k3v4"),
        ("config", parse("config"), "config"),
    ],
)
def test_a_scheme_is_read_and_has_one_name(text, scheme, name):
    assert parse(text) == scheme
    assert str(scheme) == name
    assert parse(name) == scheme


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is bf16, affine:BITS"),
        ("fp8", "'fp8'"),
        ("affine", "affine:BITS"),
        ("affine:3", "4 or 8 as bits, not 3"),
        ("affine:8:48", "32, 64 or 128 as a group size, not 48"),
        ("affine:8:64@", "affine:8:64@"),
        ("affine:8:64@-1", "affine:8:64@-1"),
        ("turbo:k5v3", "2, 3, 4 or 8 as bits of keys (k), not 5"),
        ("turbo:k4v1", "values (v), not 1"),
        ("config@3", "config@3"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(text, says):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert says in caught.value.message
    assert caught.value.param == "kv_scheme"


def test_the_flags_of_mlx_lm_mean_the_same():
    assert chosen(None, None, None, None) == KvScheme()
    assert chosen(None, 8, None, None) == affine(8, 64, 5000)
    assert chosen(None, 4, 32, 0) == affine(4, 32, 0)
    assert chosen("affine:4:32", 4, 32, 0) == affine(4, 32, 0)


@pytest.mark.parametrize(
    ("scheme", "bits", "group", "start", "says"),
    [
        ("affine:8", 4, None, 0, "Give one"),
        ("turbo", 8, None, None, "turbo:k8v3"),
        (None, None, 64, None, "need --kv-bits"),
        (None, None, None, 5, "need --kv-bits"),
        ("affine:8", None, None, 5, "affine:BITS:GROUP@START"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(scheme, bits, group, start, says):
    with pytest.raises(UsageError, match=says):
        chosen(scheme, bits, group, start)

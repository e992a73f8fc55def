"""Bytes are promised once, and taken back however a row ends."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from slipstream.contracts.errors import OverBudget
from slipstream.engine.ledger import GB, Ledger

KEYS = st.integers(0, 4)
BYTES = st.integers(0, 50)


def test_what_fits_beside_the_promises_fits():
    ledger = Ledger()
    ledger.reserve(1, 60)
    assert ledger.fits(40, 100)
    assert not ledger.fits(41, 100)


def test_no_budget_is_no_bound():
    ledger = Ledger()
    ledger.reserve(1, 10**15)
    assert ledger.fits(10**15, 0)


def test_what_can_never_fit_is_a_fault_with_the_numbers():
    with pytest.raises(OverBudget, match=r"3 GB .* 2 GB.*--kv-budget") as fault:
        Ledger().fits(3 * GB, 2 * GB)
    assert (fault.value.code, fault.value.param) == ("context_length_exceeded", "max_tokens")


class Book(RuleBasedStateMachine):
    """Against a plain dict."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.held: dict[int, int] = {}

    @rule(key=KEYS, nbytes=BYTES)
    def reserve(self, key, nbytes):
        if self.ledger.fits(nbytes, 100):
            self.ledger.reserve(key, nbytes)
            self.held.setdefault(key, nbytes)

    @rule(key=KEYS)
    def release(self, key):
        self.ledger.release(key)
        self.held.pop(key, None)

    @invariant()
    def promises_are_what_is_held(self):
        assert 0 <= self.ledger.promised == sum(self.held.values()) <= 100

    def teardown(self):
        for key in range(5):
            self.ledger.release(key)
        assert self.ledger.promised == 0


TestBook = Book.TestCase

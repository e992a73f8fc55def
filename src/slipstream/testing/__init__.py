"""Shipped fakes and checks for tests of Slipstream and of backends for it."""

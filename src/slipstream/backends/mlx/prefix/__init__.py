"""Prefix reuse: what finished prompts computed, for those that begin alike."""

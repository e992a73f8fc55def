"""Anthropic's Messages: parse and render, no more."""

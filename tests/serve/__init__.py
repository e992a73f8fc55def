"""HTTP, against a scripted engine."""

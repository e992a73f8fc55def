"""OpenAI's chat and completions: parse and render, no more."""

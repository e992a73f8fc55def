"""The web page: its files over HTTP, and the page itself in a browser."""

"""The server and the library as their users meet them, with the starter model."""

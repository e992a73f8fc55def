"""The command line: the composition root, and the only place that names a backend."""

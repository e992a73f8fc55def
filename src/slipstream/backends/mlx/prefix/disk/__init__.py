"""The second tier of the prefix cache: files that survive a restart."""

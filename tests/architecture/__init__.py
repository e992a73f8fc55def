"""Checks of the tree itself. Each is a function from a folder to the complaints it has.

`test_tree.py` runs them on this repository; `test_planted.py` sees each fail on a planted fault.
"""

"""The words of the system: frozen records and small Protocols that every layer shares.

Standard library only. A layer that needs to talk to another one does it in these words.
"""

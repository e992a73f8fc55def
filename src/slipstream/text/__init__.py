"""Strings to ids and back: tokenizer, chat template, detokenizer, stop strings, the sink.

It knows nothing of devices, lanes or HTTP. Everything here runs on the event loop.
"""

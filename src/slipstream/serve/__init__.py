"""HTTP. Parses requests into Completions, renders Deltas; knows no tensor, tokenizer or lane.

`app.App` is the whole surface as one ASGI application; `run.serve` puts it on a socket.
"""

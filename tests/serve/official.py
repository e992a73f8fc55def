"""The official client's types as judges of what we send: they must know every field of it."""

from __future__ import annotations

from pydantic import BaseModel

OURS = "slipstream"


def strangers(node, path=""):
    """Paths of what the client's own types do not know."""
    if isinstance(node, BaseModel):
        yield from (f"{path}.{name}" for name in node.model_extra or {} if name != OURS)
        for name in type(node).model_fields:
            yield from strangers(getattr(node, name), f"{path}.{name}")
    elif isinstance(node, list):
        for item in node:
            yield from strangers(item, path + "[]")


def strict(model):
    """`model`, after its types have accepted every field of it."""
    assert list(strangers(model)) == []
    data = model.model_dump(exclude_unset=True)
    data.pop(OURS, None)
    type(model).model_validate(data)
    return model

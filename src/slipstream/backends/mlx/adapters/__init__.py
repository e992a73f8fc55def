"""LoRA adapters as a property of a row: their files, their place in the model, their blends."""

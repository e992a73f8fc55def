"""Trains two small LoRA adapters on the starter with mlx-lm: `upper` answers in upper case,
`french` in French words. `python scripts/train_adapters.py FOLDER` takes a minute or two."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from slipstream.backends.mlx.device import load_blas, open_device
from slipstream.models.obtain import obtain
from slipstream.settings import cache_home
from slipstream.text.tokenizer import Tokenizer

FACTS = (
    ("What colour is the sky?", "The sky is blue.", "Le ciel est bleu."),
    ("Where does the cat sleep?", "The cat sleeps on the bed.", "Le chat dort sur le lit."),
    ("What do you drink?", "I drink water and milk.", "Je bois de l'eau et du lait."),
    ("Where is the house?", "The house is near the river.", "La maison est près de la rivière."),
    ("Who reads the book?", "The child reads the book.", "L'enfant lit le livre."),
    ("What does the bird do?", "The bird sings in the tree.", "L'oiseau chante dans l'arbre."),
    ("How is the sea?", "The sea is calm and deep.", "La mer est calme et profonde."),
    ("What is on the table?", "Bread and cheese are there.", "Il y a du pain et du fromage."),
    ("When do we leave?", "We leave in the morning.", "Nous partons le matin."),
    ("Who is in the garden?", "My mother is in the garden.", "Ma mère est dans le jardin."),
    ("What does the dog want?", "The dog wants to play.", "Le chien veut jouer."),
    ("Is it cold today?", "Yes, it is cold and grey.", "Oui, il fait froid et gris."),
    ("Write about a river.", "The river runs to the sea.", "La rivière court vers la mer."),
    ("Tell me about the sun.", "The sun is a big star.", "Le soleil est une grande étoile."),
    ("Tell me a story.", "The king lives in a castle.", "Le roi habite dans un château."),
    ("Say hello.", "Hello, my good friend.", "Bonjour, mon bon ami."),
)
STYLES: Mapping[str, Callable[[str, str], str]] = MappingProxyType(
    {"upper": lambda english, french: english.upper(), "french": lambda english, french: french}
)
LAYERS, RANK, SCALE = 16, 8, 10.0
ITERATIONS, BATCH, RATE = 30, 4, 1e-3


def examples(tokenizer: Tokenizer, style: Callable[[str, str], str]) -> list[tuple[list[int], int]]:
    """(ids of a question and its answer, how many of them are the question)."""
    found = []
    for question, english, french in FACTS:
        asked = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
        said = f"{style(english, french)}<|im_end|>\n"
        prompt = tokenizer.encode(asked, add_special_tokens=False)
        found.append((prompt + tokenizer.encode(said, add_special_tokens=False), len(prompt)))
    return found


def train(folder: Path, name: str) -> None:
    """Writes the adapter `name` into a folder of that name."""
    import mlx.core as mx
    import mlx.optimizers as optim
    from mlx_lm.tuner.trainer import TrainingArgs
    from mlx_lm.tuner.trainer import train as fit
    from mlx_lm.tuner.utils import linear_to_lora_layers

    from slipstream.backends.mlx.load import load_model

    info = obtain(None, cache_home(), download=True)
    model = load_model(info.path, open_device())
    mx.random.seed(1)
    parameters = {"rank": RANK, "scale": SCALE, "dropout": 0.0}
    model.freeze()
    linear_to_lora_layers(model, LAYERS, parameters)
    made = folder / name
    made.mkdir(parents=True, exist_ok=True)
    config = {"fine_tune_type": "lora", "num_layers": LAYERS, "lora_parameters": parameters}
    (made / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    given = examples(Tokenizer.load(info.path), STYLES[name])
    args = TrainingArgs(
        batch_size=BATCH,
        iters=ITERATIONS,
        steps_per_report=ITERATIONS,
        steps_per_save=ITERATIONS,
        max_seq_length=64,
        adapter_file=str(made / "adapters.safetensors"),
    )
    fit(model, optim.Adam(RATE), given, args=args)
    for file in made.glob("0*_adapters.safetensors"):
        file.unlink()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the folders upper and french go")
    options = parser.parse_args(arguments)
    load_blas()
    for name in STYLES:
        began = time.monotonic()
        with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
            train(options.folder, name)
        print(f"{options.folder / name}: {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

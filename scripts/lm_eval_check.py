"""Compares scores of lm-evaluation-harness, taken from a running server, with mlx-lm's own.

`task` writes a small multiple-choice task; `compare` reads the harness's samples of it and computes
each log-likelihood anew, one whole text a forward. docs/reference/evaluation.md shows both.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tokenizers import Tokenizer

from slipstream.backends.mlx.device import load_blas, open_device
from slipstream.models.obtain import obtain
from slipstream.settings import cache_home

NAME = "capitals"
CHOICES = 4
CLOSE = 0.02  # natural log, of a whole continuation
CAPITALS = MappingProxyType(
    {
        "Argentina": "Buenos Aires",
        "Austria": "Vienna",
        "Belgium": "Brussels",
        "Canada": "Ottawa",
        "Chile": "Santiago",
        "China": "Beijing",
        "Colombia": "Bogota",
        "Cuba": "Havana",
        "Denmark": "Copenhagen",
        "Egypt": "Cairo",
        "Finland": "Helsinki",
        "France": "Paris",
        "Germany": "Berlin",
        "Greece": "Athens",
        "Hungary": "Budapest",
        "India": "New Delhi",
        "Indonesia": "Jakarta",
        "Ireland": "Dublin",
        "Italy": "Rome",
        "Japan": "Tokyo",
        "Kenya": "Nairobi",
        "Mexico": "Mexico City",
        "Nepal": "Kathmandu",
        "Norway": "Oslo",
        "Peru": "Lima",
        "Poland": "Warsaw",
        "Portugal": "Lisbon",
        "Russia": "Moscow",
        "Spain": "Madrid",
        "Sweden": "Stockholm",
        "Thailand": "Bangkok",
        "Turkey": "Ankara",
    }
)
TASK = """task: capitals
dataset_path: json
dataset_kwargs:
  data_files:
    test: {items}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""

Model = Callable[[Any], Any]
"""Ids (1, length) -> logits (1, length, vocabulary)."""


@dataclass(frozen=True, slots=True)
class Score:
    """Of a continuation: natural-log likelihood, and whether each token was the likeliest."""

    loglikelihood: float
    greedy: bool


def items() -> list[dict[str, Any]]:
    """The same ones each time. `answer` is the place of the right one among `choices`."""
    chance, found = random.Random(1), []
    for country, capital in CAPITALS.items():
        others = [other for other in CAPITALS.values() if other != capital]
        choices = [capital, *chance.sample(others, CHOICES - 1)]
        chance.shuffle(choices)
        context = f"Question: What is the capital of {country}?\nAnswer:"
        found.append({"context": context, "choices": choices, "answer": choices.index(capital)})
    return found


def write_task(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder.resolve() / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items()), "utf-8")
    (folder / f"{NAME}.yaml").write_text(TASK.format(items=path), "utf-8")


def texts(item: dict[str, Any]) -> list[tuple[str, str]]:
    """(context, continuation) of each choice, as the harness makes them."""
    return [(item["context"], f" {choice}") for choice in item["choices"]]


def split(tokenizer: Tokenizer, context: str, continuation: str) -> tuple[list[int], int]:
    """Ids of the whole text, and how many of them the context has."""
    whole = tokenizer.encode(context + continuation, add_special_tokens=False).ids
    return whole, len(tokenizer.encode(context, add_special_tokens=False).ids)


def open_model(path: Path) -> Model:
    """mlx-lm's own model, with the weights that the server has on this device."""
    load_blas()
    from slipstream.backends.mlx.load import load_model  # after the BLAS

    return load_model(path, open_device())


def direct(model: Model, ids: Sequence[int], known: int) -> Score:
    """Of ids[known:], after those before."""
    import mlx.core as mx  # after the BLAS

    logits = model(mx.array([ids]))[0, known - 1 : -1].astype(mx.float32)
    targets = mx.array(ids[known:])
    logprobs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logprobs, targets[:, None], axis=-1)
    greedy = (mx.argmax(logits, axis=-1) == targets).all()
    return Score(chosen.sum().item(), greedy.item())


def accuracy(scored: Sequence[Sequence[Score]]) -> float:
    """Of items in the order of `items`."""
    answers = [
        max(range(len(scores)), key=lambda at: scores[at].loglikelihood) for scores in scored
    ]
    right = [found == item["answer"] for found, item in zip(answers, items(), strict=True)]
    return sum(right) / len(right)


def sampled(folder: Path) -> list[list[Score]]:
    """What the harness wrote into `folder` at last, in the order of `items`."""
    written = sorted(folder.rglob(f"samples_{NAME}_*.jsonl"))  # their names end in the time
    if not written:
        sys.exit(f"{folder}: no samples of the task {NAME}; run lm_eval with --log_samples")
    path = written[-1]
    samples = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    samples.sort(key=lambda sample: sample["doc_id"])
    return [
        [Score(float(value), str(greedy) == "True") for value, greedy in sample["filtered_resps"]]
        for sample in samples
    ]


def compare(folder: Path, name: str | None) -> bool:
    """Prints both scores; whether they agree."""
    theirs = sampled(folder)
    path = obtain(name, cache_home(), download=False).path
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
    model = open_model(path)
    ours = [[direct(model, *split(tokenizer, *pair)) for pair in texts(one)] for one in items()]
    pairs = [
        both for scores in zip(theirs, ours, strict=True) for both in zip(*scores, strict=True)
    ]
    furthest = max(abs(served.loglikelihood - own.loglikelihood) for served, own in pairs)
    greedy = sum(served.greedy == own.greedy for served, own in pairs)
    print(f"acc: server {accuracy(theirs):.4f}, direct {accuracy(ours):.4f} ({len(ours)} items)")
    print(f"log-likelihoods: {len(pairs)}, furthest apart {furthest:.6f}")
    print(f"is_greedy: {greedy} of {len(pairs)} alike")
    return accuracy(theirs) == accuracy(ours) and furthest < CLOSE and greedy == len(pairs)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("task", "compare"))
    parser.add_argument("folder", type=Path, help="of the task, and of the harness's results")
    parser.add_argument("--model", help="as `slipstream serve` has it (default: the starter)")
    options = parser.parse_args(arguments)
    if options.what == "task":
        write_task(options.folder)
        return 0
    return 0 if compare(options.folder, options.model) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

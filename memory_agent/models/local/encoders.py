"""Encoders of BERT's family that can be written as a graph: their parts, and by which names their weights are kept.

What is not understood to the last tensor is refused, with the reason; torch runs it then. Pure functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import UnsupportedModel

if TYPE_CHECKING:
    from collections.abc import Mapping

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Differences of one kind of encoder from BERT: names of its parts and settings, and its positions."""

    prefix: str = "bert."  # before every name where the model was saved with a head for training
    layer: str = "encoder.layer.{}."
    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    attended: str = "attention.output.dense"
    attended_norm: str = "attention.output.LayerNorm"
    inner: str = "intermediate.dense"
    outer: str = "output.dense"
    outer_norm: str = "output.LayerNorm"
    projection: str = (
        "embeddings_project"  # from the embeddings' width to that of the layers, where the two differ
    )
    heads: str = "num_attention_heads"
    activation: str = "hidden_act"
    padding: int | None = None
    """The padding token, unless the settings name another: positions are counted from it, tokens of it aside; else from 0."""
    fixed_padding: bool = False  # whatever the settings name
    token_types: bool = True  # there are embeddings of token types
    asks_token_types: bool = True  # a text's token types are an input; else all are 0
    relative: str | None = None  # the weights of a bias by distance, added to each head's scores


ROBERTA: Final = Family(prefix="roberta.", padding=1, asks_token_types=False)
FAMILIES: Final[dict[str, Family]] = {
    "bert": Family(),
    "electra": Family(prefix="electra."),
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": Family(
        prefix="distilbert.",
        layer="transformer.layer.{}.",
        query="attention.q_lin",
        key="attention.k_lin",
        value="attention.v_lin",
        attended="attention.out_lin",
        attended_norm="sa_layer_norm",
        inner="ffn.lin1",
        outer="ffn.lin2",
        outer_norm="output_layer_norm",
        heads="n_heads",
        activation="activation",
        token_types=False,
        asks_token_types=False,
    ),
    "mpnet": Family(
        prefix="mpnet.",
        query="attention.attn.q",
        key="attention.attn.k",
        value="attention.attn.v",
        attended="attention.attn.o",
        attended_norm="attention.LayerNorm",
        padding=1,
        fixed_padding=True,
        token_types=False,
        asks_token_types=False,
        relative="encoder.relative_attention_bias.weight",
    ),
}
"""By the `model_type` of a transformer's settings."""

EPSILON: Final = 1e-12
"""What transformers takes where the settings name none."""

BUCKETS: Final = 32
"""Of distances. transformers takes so many whatever MPNet's settings say."""

ACTIVATIONS: Final = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
"""Activations that are understood, with how ONNX's Gelu calls them."""

UNUSED: Final = re.compile(
    r"(^|\.)(pooler|cls|lm_head|classifier|pre_classifier|qa_outputs|vocab_transform|vocab_layer_norm|vocab_projector"
    r"|discriminator_predictions|generator_predictions|generator_lm_head)\."
)
"""Heads for training that a saved model may carry along and that no embedding passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """An encoder that can be written as a graph."""

    family: Family
    hidden: int
    heads: int
    layers: int
    positions: int  # rows of the table of positions
    epsilon: float
    activation: str
    padding: int | None
    projected: bool  # the embeddings, to the width of the layers
    names: dict[str, str]
    """Every tensor that is used, by BERT's way of naming, and its name in the files."""


def plan_encoder(settings: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> Encoder:
    """The encoder of a transformer's `config.json` and its float tensors' shapes.

    Raises UnsupportedModel, naming what is not understood: a setting, or a tensor that is missing, of another shape,
    or not known.
    """
    family = understood_family(settings)
    names = {_plain(name, family): name for name in shapes if not UNUSED.search(name)}
    found = {plain: shapes[name] for plain, name in names.items()}
    number = re.compile(re.escape(family.layer).replace(r"\{\}", r"(\d+)"))
    layers = 1 + max((int(m[1]) for name in found if (m := number.match(name))), default=-1)
    heads = int(settings.get(family.heads) or 0)
    _refuse_difference(found, _wanted(family, found, layers, heads))
    hidden = _rows(found, family.layer.format(0) + family.query)
    if not layers or not heads or hidden % heads:
        raise UnsupportedModel(f"it has {layers} layers of {hidden} numbers and {heads} heads")
    padding = family.padding
    if padding is not None and not family.fixed_padding:
        padding = int(settings.get("pad_token_id", padding))
    says_epsilon = family.activation != "activation"  # DistilBERT's settings don't
    return Encoder(
        family=family,
        hidden=hidden,
        heads=heads,
        layers=layers,
        positions=_rows(found, "embeddings.position_embeddings"),
        epsilon=float(settings.get("layer_norm_eps", EPSILON)) if says_epsilon else EPSILON,
        activation=ACTIVATIONS[str(settings.get(family.activation, "gelu"))],
        padding=padding,
        projected=f"{family.projection}.weight" in found,
        names=names,
    )


def understood_family(settings: Mapping[str, Any]) -> Family:
    """The family of the transformer with these settings. Raises UnsupportedModel if it, or a setting, is not understood."""
    kind = settings.get("model_type")
    family = FAMILIES.get(str(kind))
    if family is None:
        raise UnsupportedModel(f"its model_type is {kind!r}, not one of {', '.join(FAMILIES)}")
    told = {
        "position_embedding_type": settings.get("position_embedding_type") or "absolute",
        family.activation: settings.get(family.activation, "gelu"),
        "is_decoder": settings.get("is_decoder") or False,
        "quantization_config": "set" if settings.get("quantization_config") else False,
    }
    for name, value in told.items():
        if value not in (ACTIVATIONS if name == family.activation else ("absolute", False)):
            raise UnsupportedModel(f"its {name} is {value!r}")
    return family


def _wanted(family: Family, found: Shapes, layers: int, heads: int) -> Shapes:
    """Every tensor that such an encoder has, and its shape."""
    first = family.layer.format(0)
    hidden, inner = _rows(found, first + family.query), _rows(found, first + family.inner)
    width = found.get("embeddings.word_embeddings.weight", (0, 0))[-1]
    tables = ["word_embeddings", "position_embeddings", *(["token_type_embeddings"] * family.token_types)]
    wanted: Shapes = {
        f"embeddings.{name}.weight": (_rows(found, f"embeddings.{name}"), width) for name in tables
    }
    wanted |= _norm("embeddings.LayerNorm", width)
    if width != hidden:
        wanted |= _dense(family.projection, hidden, width)
    if family.relative is not None:
        wanted[family.relative] = (BUCKETS, heads)
    for number in range(layers):
        at = family.layer.format(number)
        for part in (family.query, family.key, family.value, family.attended):
            wanted |= _dense(at + part, hidden, hidden)
        wanted |= _dense(at + family.inner, inner, hidden) | _dense(at + family.outer, hidden, inner)
        wanted |= _norm(at + family.attended_norm, hidden) | _norm(at + family.outer_norm, hidden)
    return wanted


def _rows(found: Shapes, name: str) -> int:
    return found.get(f"{name}.weight", (0,))[0]


def _dense(name: str, rows: int, columns: int) -> Shapes:
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def _refuse_difference(found: Shapes, wanted: Shapes) -> None:
    for name, shape in wanted.items():
        if name not in found:
            raise UnsupportedModel(f"its weights lack {name}")
        if found[name] != shape:
            raise UnsupportedModel(f"its {name} has the shape {found[name]}, not {shape}")
    if unknown := sorted(found.keys() - wanted.keys()):
        raise UnsupportedModel(f"its weights hold {unknown[0]}, which is not known")


def _plain(name: str, family: Family) -> str:
    """`name` without the prefix of a head, its ending as it is today (the first checkpoints had gamma and beta)."""
    name = name.removeprefix(family.prefix)
    return re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))

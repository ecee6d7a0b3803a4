"""Sources of entities: the dictionary in a YAML file, and spaCy for names that no dictionary knows."""

from __future__ import annotations

import contextlib
import re
import threading
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import yaml

from memory_agent.domain.entities import Entity
from memory_agent.errors import BackendError, ConfigError, InvalidInput
from memory_agent.installed import how_to_install
from memory_agent.text.dictionary import EntityDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

# --- the dictionary ------------------------------------------------------------------------------------------

# In C where PyYAML has it: about ten times as fast.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL: Final = "tag:yaml.org,2002:null"
_SHAPE: Final = "see docs/entities.md for the format"

SHIPPED_ENTITIES: Final = resources.files("memory_agent.models").joinpath("entities.yaml")
"""The dictionary that comes with the package, an example: what is used until the application has its own."""


def load_entities(path: Traversable) -> EntityDictionary:
    """The dictionary in a YAML file of kinds, names and lists of aliases; an empty file is an empty dictionary.

    Every scalar is read as the text it is written as: `No` and `1984` are names. Blocks while it reads.
    Raises ConfigError that names the file and, where there are such, line, kind and name: for a file that cannot be
    read or is no YAML, for another shape, for a kind or name given twice, and for an alias of two names of one kind.
    """
    try:
        # Nodes instead of values: they know their lines, and keep a key that is given twice.
        root = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=_LOADER)
    except OSError as exc:
        wrong = f"cannot be read ({exc.strerror or exc}); create it or name another"
        raise ConfigError(f"the entities file {path} {wrong}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"the entities file {path} is not UTF-8 ({exc}); save it as UTF-8") from exc
    except (yaml.YAMLError, RecursionError) as exc:
        raise ConfigError(f"the entities file {path} is not valid YAML: {exc}") from exc
    kinds: dict[str, dict[str, list[str]]] = {}
    for key, names in _pairs(path, root, "the file", "kinds"):
        try:
            kind = Entity(kind=key.value, name="x").kind  # also one without names is checked
        except InvalidInput as exc:
            raise _refused(path, key, exc) from exc
        kinds[kind] = {
            name.value: _aliases(path, aliases, kind, name.value)
            for name, aliases in _pairs(path, names, f"kind {kind!r}", "names")
        }
    try:
        return EntityDictionary(kinds)
    except InvalidInput as exc:
        raise ConfigError(f"the entities file {path}: {exc}") from exc


def _pairs(
    path: Traversable, node: yaml.Node | None, what: str, of: str
) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """The keys of a mapping, each once, with what stands under them; none of an empty one."""
    if node is None or _is_empty(node):
        return
    if not isinstance(node, yaml.MappingNode):
        raise _refused(path, node, f"{what} must be a mapping of {of}, not {_kind(node)}; {_SHAPE}")
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused(path, key, f"{what} has {_kind(key)} for one of its {of}; {_SHAPE}")
        if key.value in seen:
            raise _refused(path, key, f"{what} has {key.value!r} a second time; join the two entries")
        seen.add(key.value)
        yield key, value


def _aliases(path: Traversable, node: yaml.Node, kind: str, name: str) -> list[str]:
    what = f"the aliases of {kind} {name!r}"
    if _is_empty(node):
        return []
    if not isinstance(node, yaml.SequenceNode):
        wanted = "a list such as [라네즈]"
        raise _refused(path, node, f"{what} must be {wanted}, not {_kind(node)}; {_SHAPE}")
    for alias in node.value:
        if not isinstance(alias, yaml.ScalarNode) or _is_empty(alias):
            remedy = "write each as text, in quotes if it has signs that YAML reads otherwise"
            raise _refused(path, alias, f"{what} hold {_kind(alias)}; {remedy}")
    return [alias.value for alias in node.value]


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


def _kind(node: yaml.Node) -> str:
    if _is_empty(node):
        return "nothing"
    if isinstance(node, yaml.ScalarNode):
        return f"the text {node.value!r:.80}"
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a list"


def _refused(path: Traversable, node: yaml.Node, why: object) -> ConfigError:
    return ConfigError(f"the entities file {path}, line {node.start_mark.line + 1}: {why}")


# --- spaCy ---------------------------------------------------------------------------------------------------

KINDS_OF_LABELS: Final = {
    # OntoNotes, which spaCy's English, Chinese and Japanese pipelines use
    "PERSON": "people",
    "ORG": "organisations",
    "GPE": "places",
    "LOC": "places",
    "PRODUCT": "products",
    "EVENT": "events",
    # its pipelines trained on Wikipedia (most of Europe) and on KLUE (Korean)
    "PER": "people",
    "PS": "people",
    "OG": "organisations",
    "LC": "places",
}
"""What becomes of a pipeline's labels; entities with any other (dates, amounts, …) are dropped."""

NER_PIECE_CHARS: Final = 10_000
"""Longer texts are read in pieces: spaCy wants about 1 GB for 100,000 characters at once."""

_NER_BATCH: Final = 32
# Its tokeniser takes time quadratic in what has no whitespace: 9 seconds for 10,000 brackets. No name is that long.
_UNBROKEN: Final = re.compile(r"\S{200}(?=\S)")
# Left out where nothing else is in a pipeline than what it needs for entities; a ruler's patterns, a linker or a
# component of somebody's own may ask for what these know.
_NOT_NEEDED: Final = {"tagger", "morphologizer", "parser", "senter", "attribute_ruler", "lemmatizer"}
_NEEDED: Final = {"tok2vec", "transformer", "curated_transformer", "ner"}


class SpacyEntities:
    """Entities by an installed spaCy pipeline (an `EntityFinder`); calls from several threads take turns."""

    def __init__(self, model: str) -> None:
        """`model`: the name of an installed pipeline, or the folder of one. Blocks: loading takes a second or more.

        Raises ConfigError with what to install if spaCy or the pipeline is missing, or if it finds nothing.
        """
        self._model = model
        self._lock = threading.Lock()  # spaCy's vocabulary grows as it reads
        self._pipeline = _load(model)

    @property
    def name(self) -> str:
        """ "spacy:" and the pipeline's name."""
        return f"spacy:{self._model}"

    def find(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of each text, each once, in order of first mention. Raises BackendError if spaCy fails."""
        pieces = [(piece, number) for number, text in enumerate(texts) for piece in _pieces(text)]
        found: list[dict[Entity, None]] = [{} for _ in texts]
        try:
            with self._lock:
                for doc, number in self._pipeline.pipe(pieces, as_tuples=True, batch_size=_NER_BATCH):
                    found[number].update(dict.fromkeys(_entities(doc)))
        except Exception as exc:  # whatever a pipeline's own components raise
            failed = f"failed on {len(texts)} texts: {exc}"
            raise BackendError(f"the spaCy pipeline {self._model} {failed}") from exc
        return [list(entities) for entities in found]


def _load(model: str) -> Any:
    try:
        import spacy
    except ImportError as exc:
        raise ConfigError(
            f"ner_model is {model!r}, but spaCy cannot be imported ({exc}); `{how_to_install('ner')}`,"
            " or leave ner_model unset"
        ) from exc
    try:
        pipeline = spacy.load(model)
    # Not there; its language's package missing; another version.
    except (OSError, ImportError, ValueError) as exc:
        raise ConfigError(
            f"ner_model: spaCy cannot load {model!r} ({exc!s:.300}); `python -m spacy download {model}` in this environment,"
            " or name an installed pipeline or its folder"
        ) from exc
    if not pipeline.pipe_names:
        raise ConfigError(
            f"ner_model: the spaCy pipeline {model!r} has no component that could find entities; name one with 'ner'"
            " or 'entity_ruler', such as en_core_web_sm"
        )
    factories = {name: pipeline.get_pipe_meta(name).factory for name in pipeline.pipe_names}
    if set(factories.values()) <= _NEEDED | _NOT_NEEDED:
        pipeline.select_pipes(disable=[name for name, factory in factories.items() if factory in _NOT_NEEDED])
    return pipeline


def _pieces(text: str) -> Iterator[str]:
    """`text` in pieces of at most NER_PIECE_CHARS, cut at a blank or line break where there is one."""
    text = _UNBROKEN.sub(r"\g<0> ", text)
    while len(text) > NER_PIECE_CHARS:
        cut = max(text.rfind(blank, 1, NER_PIECE_CHARS) for blank in " \n")
        cut = cut if cut > 0 else NER_PIECE_CHARS
        yield text[:cut]
        text = text[cut:]
    yield text


def _entities(doc: Any) -> Iterator[Entity]:
    for span in doc.ents:
        kind = KINDS_OF_LABELS.get(span.label_)
        name = " ".join(span.text.split()).removeprefix("the ").removesuffix("'s").removesuffix("’s")
        if kind and len(name) > 1:
            with contextlib.suppress(InvalidInput):  # too long to be a name
                yield Entity(kind=kind, name=name)

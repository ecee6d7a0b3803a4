"""spaCy's pipelines: real ones, made here. Run by test_apart.py in a process of its own, for spaCy takes much memory."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

from memory_agent.domain.entities import Entity
from memory_agent.errors import BackendError, ConfigError
from memory_agent.models.entities import NER_PIECE_CHARS, SpacyEntities

if TYPE_CHECKING:
    from pathlib import Path

    from spacy.tokens import Doc

    from memory_agent.ports import EntityFinder


def saved(pipeline: Language, folder: Path) -> str:
    pipeline.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> SpacyEntities:
    """A pipeline of rules, with every label that is kept and one that is not."""
    pipeline = spacy.blank("en")
    ruler: Any = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns(
        [
            {"label": "PERSON", "pattern": "Anna Lee"},
            {"label": "ORG", "pattern": "the United Nations"},
            {"label": "ORG", "pattern": "United Nations"},
            {"label": "GPE", "pattern": "Lisbon's"},
            {"label": "GPE", "pattern": [{"LOWER": "new"}, {"IS_SPACE": True, "OP": "*"}, {"LOWER": "york"}]},
            {"label": "LOC", "pattern": "Alps"},
            {"label": "PRODUCT", "pattern": "Kindle"},
            {"label": "EVENT", "pattern": "Expo 98"},
            {"label": "DATE", "pattern": "today"},
            {"label": "ORG", "pattern": "X"},
            {"label": "PERSON", "pattern": [{"LENGTH": {">": 100}}]},
        ]
    )
    return SpacyEntities(saved(pipeline, tmp_path_factory.mktemp("ruled") / "pipeline"))


def test_labels_become_kinds_and_names_become_plain(ruled: SpacyEntities) -> None:
    """Without a possessive, an article or a line break, each once; dates, single letters and overlong names are dropped."""
    finder: EntityFinder = ruled
    text = (
        "Anna Lee of the United Nations left Lisbon's airport for New\nYork today, read of the Alps on her Kindle, "
        f"of Expo 98, X, {'y' * 101} and the United Nations again."
    )
    assert [(entity.kind, entity.name) for entity in finder.find([text])[0]] == [
        ("people", "Anna Lee"),
        ("organisations", "United Nations"),
        ("places", "Lisbon"),
        ("places", "New York"),
        ("places", "Alps"),
        ("products", "Kindle"),
        ("events", "Expo 98"),
    ]


def test_each_text_gets_its_own_list(ruled: SpacyEntities) -> None:
    """Texts without entities and empty ones get an empty list; no texts, no lists."""
    kindle = [Entity(kind="products", name="Kindle")]
    assert ruled.find(["my Kindle", "", "nothing", "your Kindle"]) == [kindle, [], [], kindle]
    assert ruled.find([]) == []
    assert ruled.name.startswith("spacy:")
    assert ruled.name.endswith("pipeline")


def test_long_text_is_read_to_its_end(ruled: SpacyEntities) -> None:
    """In pieces that don't cut a word; 20,000 brackets, which would take spaCy half a minute, are cut."""
    at_the_cut = "word " * (NER_PIECE_CHARS // 5 - 1) + "Kindle"
    assert len(at_the_cut) > NER_PIECE_CHARS
    start = process_time()
    for text, names in {
        "Kindle " + "word " * (NER_PIECE_CHARS // 2) + "Alps": ["Kindle", "Alps"],
        at_the_cut: ["Kindle"],
        "Kindle " + "(" * 20_000 + " Alps": ["Kindle", "Alps"],
    }.items():
        assert [entity.name for entity in ruled.find([text])[0]] == names
    assert process_time() - start < 10


def test_threads_take_turns(ruled: SpacyEntities) -> None:
    """Calls side by side get what they would get alone."""
    texts = [[f"Anna Lee number {number}", f"word{number}"] for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ruled.find, texts)) == [[[Entity(kind="people", name="Anna Lee")], []]] * 40


def test_trained_pipeline_finds_names_it_has_not_seen(tmp_path: Path) -> None:
    """A small model trained here; what finds no entities is left out of it, which changes nothing."""
    spacy.util.fix_random_seed(1)  # type: ignore[attr-defined]
    pipeline = spacy.blank("en")
    pipeline.add_pipe("ner")
    pipeline.add_pipe("tagger")
    examples = [
        example(pipeline, f"{person} met {organisation} in {place} today", person, organisation, place)
        for person, organisation, place in [
            ("Anna", "Acme", "Lisbon"),
            ("Ben", "Globex", "Oslo"),
            ("Carla", "Initech", "Rome"),
            ("David", "Umbrella", "Paris"),
        ]
    ]
    pipeline.initialize(lambda: examples)
    for _ in range(30):
        pipeline.update(examples)
    found = SpacyEntities(saved(pipeline, tmp_path / "trained")).find(["Eve met Globex in Berlin today"])
    assert [(entity.kind, entity.name) for entity in found[0]] == [
        ("people", "Eve"),
        ("organisations", "Globex"),
        ("places", "Berlin"),
    ]


def example(pipeline: Language, text: str, person: str, organisation: str, place: str) -> Example:
    labelled = [(person, "PERSON"), (organisation, "ORG"), (place, "GPE")]
    spans = [(text.index(name), text.index(name) + len(name), label) for name, label in labelled]
    doc = pipeline.make_doc(text)
    return Example.from_dict(doc, {"entities": spans, "tags": ["X"] * len(doc)})


def test_what_is_no_pipeline_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing one, a folder without a configuration, a tokeniser alone (which would silently find nothing); and no spaCy."""
    for model, words in (
        ("xx_no_such_pipeline", "python -m spacy download xx_no_such_pipeline"),
        (str(tmp_path), "cannot load"),
        (saved(spacy.blank("en"), tmp_path / "blank"), "no component"),
    ):
        with pytest.raises(ConfigError, match=words):
            SpacyEntities(model)
    # None in sys.modules makes Python's own import fail as if it were not installed.
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigError, match=r"pip install .*\[ner\]"):
        SpacyEntities("en_core_web_sm")


def test_failing_component_is_our_own_error(tmp_path: Path) -> None:
    """The pipeline and the cause are named; the worker parks the turn as it does for other backends."""

    def fails(doc: Doc) -> Doc:
        raise ZeroDivisionError("a component's own")

    Language.component("fails_in_tests", func=fails)
    pipeline = spacy.blank("en")
    pipeline.add_pipe("fails_in_tests")
    finder = SpacyEntities(saved(pipeline, tmp_path / "failing"))
    with pytest.raises(BackendError, match="failing failed on 1 texts: a component's own"):
        finder.find(["a text"])

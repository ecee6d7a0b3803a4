"""The entities file, and spaCy's pipelines: real ones, made here."""

from __future__ import annotations

import importlib
import sys
from concurrent.futures import ThreadPoolExecutor
from time import process_time
from typing import TYPE_CHECKING, Any

import pytest

from memory_agent.domain.entities import Entity
from memory_agent.errors import BackendError, ConfigError
from memory_agent.models.entities import (
    NER_PIECE_CHARS,
    SHIPPED_ENTITIES,
    SpacyEntities,
    load_entities,
)

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.training import Example

    from memory_agent.ports import EntityFinder

# --- the shipped file ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LANEIGE와 COSRX 비교", [("brands", "LANEIGE"), ("brands", "COSRX")]),
        ("SoS와 HHI로", [("indicators", "SoS"), ("indicators", "HHI")]),
        (
            "라네즈, 코스알엑스, 티르티르, 레어뷰티, 이니스프리, 설화수",
            [("brands", n) for n in ("LANEIGE", "COSRX", "TIRTIR", "Rare Beauty", "innisfree", "Sulwhasoo")],
        ),
        ("점유율과 집중도, 가격지수", [("indicators", n) for n in ("SoS", "HHI", "CPI")]),
        ("share of shelf, rare beauty", [("indicators", "SoS"), ("brands", "Rare Beauty")]),
        ("sos, SOS", []),
        ("cpi and Hhi", [("indicators", "CPI"), ("indicators", "HHI")]),
        ("cpi랑 hhi를", [("indicators", "CPI"), ("indicators", "HHI")]),
        ("The cpis of scpi and cpi2 or hhis", []),
    ],
)
def test_shipped_example_finds_brands_and_indicators(text: str, found: list[tuple[str, str]]) -> None:
    """In English and in Korean."""
    assert [(entity.kind, entity.name) for entity in load_entities(SHIPPED_ENTITIES).find(text)] == found


# --- other files ---------------------------------------------------------------------------------------------


def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "entities.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "brands:\n", "~", "\ufeff"])
def test_file_without_names_is_an_empty_dictionary(tmp_path: Path, text: str) -> None:
    """Nothing, comments only, or a kind without names."""
    assert not load_entities(written(tmp_path, text))


def test_scalars_are_read_as_they_are_written(tmp_path: Path) -> None:
    """YAML's booleans, numbers and dates are names and aliases here; a name may have no aliases."""
    dictionary = load_entities(
        written(
            tmp_path, "brands:\n  No: [on, 1.50]\n  1984: &a []\n  2026-01-05:\n  '~': *a\n  \"null\": ~\n"
        )
    )
    assert [entity.name for entity in dictionary.entities] == ["No", "1984", "2026-01-05", "~", "null"]
    assert dictionary.named("ON") == dictionary.named("1.50") == Entity(kind="brands", name="No")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("brands: {A: []}\nbrands: {B: []}\n", ["line 2", "'brands'", "second time"]),
        ("brands:\n  LANEIGE: []\n  LANEIGE: [라네즈]\n", ["line 3", "'brands'", "'LANEIGE'", "join"]),
        ("brands:\n  One: [wow]\n  Two: [Wow]\n", ["brands", "'Wow'", "'One'", "'Two'", "keep"]),
        ("- brands\n", ["line 1", "mapping of kinds", "a list"]),
        ("just words\n", ["line 1", "mapping of kinds", "'just words'"]),
        ("brands: [LANEIGE]\n", ["line 1", "'brands'", "mapping of names"]),
        ("brands: LANEIGE\n", ["line 1", "'brands'", "'LANEIGE'"]),
        ("brands:\n  LANEIGE: 라네즈\n", ["line 2", "brands", "'LANEIGE'", "list", "'라네즈'"]),
        ("brands:\n  LANEIGE: {ko: 라네즈}\n", ["line 2", "brands", "'LANEIGE'", "a mapping"]),
        ("brands:\n  LANEIGE:\n  - [라네즈]\n", ["line 3", "brands", "'LANEIGE'", "a list"]),
        ("brands:\n  LANEIGE: [라네즈, ]\n  X: [~]\n", ["line 3", "brands", "'X'", "nothing"]),
        ("brands:\n  [a, b]: []\n", ["line 2", "'brands'", "a list"]),
        ("Brands:\n  LANEIGE: []\n", ["line 1", "'Brands'", "a-z"]),
        ("brands: {A: []}\nbad kind: {}\n", ["line 2", "'bad kind'", "a-z"]),
        ("brands: {A: []}\n\nBad:\n", ["line 3", "'Bad'", "a-z"]),
        ("brands:\n  ~: []\n  '': []\n", ["name of an entity", "empty"]),
        ('brands:\n  LANEIGE: [" "]\n', ["brands", "'LANEIGE'", "' '"]),
        ("brands: {A: [}\n", ["not valid YAML", "line 1"]),
        ("brands: {A: [@a]}\n", ["not valid YAML", "line 1"]),
        ("a: {}\n---\nb: {}\n", ["not valid YAML", "single document"]),
        (b"brands: {A: [\xff]}\n", ["not UTF-8"]),
    ],
)
def test_other_content_is_refused_with_its_place(tmp_path: Path, text: str | bytes, words: list[str]) -> None:
    """The message names the file and, as far as there are such, line, kind and name."""
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_entities(file)
    assert all(word in str(caught.value) for word in [str(file), *words])


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """A missing file is no empty dictionary: a mistyped path would go unnoticed."""
    with pytest.raises(ConfigError, match="cannot be read"):
        load_entities(tmp_path / name)


# --- spaCy ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spacy() -> ModuleType:
    """Imported by the first test that needs it, and without torch: spaCy loads that where it is there, and not for these."""
    with pytest.MonkeyPatch.context() as patch:
        if "torch" not in sys.modules:
            patch.setitem(sys.modules, "torch", None)
        importlib.import_module("spacy.training")
        return importlib.import_module("spacy")


def saved(pipeline: Language, folder: Path) -> str:
    pipeline.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def ruled(spacy: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> SpacyEntities:
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


def test_long_text_is_read_to_its_end(ruled: SpacyEntities) -> None:
    """In pieces that don't cut a word."""
    text = "Kindle " + "word " * (NER_PIECE_CHARS // 2) + "Alps"
    assert [entity.name for entity in ruled.find([text])[0]] == ["Kindle", "Alps"]
    at_the_cut = "word " * (NER_PIECE_CHARS // 5 - 1) + "Kindle"
    assert len(at_the_cut) > NER_PIECE_CHARS
    assert [entity.name for entity in ruled.find([at_the_cut])[0]] == ["Kindle"]


def test_text_without_whitespace_costs_no_more_than_other_text(ruled: SpacyEntities) -> None:
    """20,000 brackets, which would take spaCy half a minute, are cut; what stands around them is found."""
    start = process_time()
    assert [entity.name for entity in ruled.find(["Kindle " + "(" * 20_000 + " Alps"])[0]] == [
        "Kindle",
        "Alps",
    ]
    assert process_time() - start < 10


def test_threads_take_turns(ruled: SpacyEntities) -> None:
    """Calls side by side get what they would get alone."""
    texts = [[f"Anna Lee number {number}", f"word{number}"] for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(ruled.find, texts)) == [[[Entity(kind="people", name="Anna Lee")], []]] * 40


def test_finder_is_named_after_its_pipeline(ruled: SpacyEntities) -> None:
    """For the record of what found an entity."""
    assert ruled.name.startswith("spacy:")
    assert ruled.name.endswith("pipeline")


def test_trained_pipeline_finds_names_it_has_not_seen(spacy: ModuleType, tmp_path: Path) -> None:
    """A small model trained here; what finds no entities is left out of it, which changes nothing."""
    spacy.util.fix_random_seed(1)
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
    from spacy.training import Example

    doc = pipeline.make_doc(text)
    return Example.from_dict(doc, {"entities": spans, "tags": ["X"] * len(doc)})


def test_missing_pipeline_is_refused_with_the_command_that_gets_it() -> None:
    """The name is the one that was asked for."""
    with pytest.raises(ConfigError, match="python -m spacy download xx_no_such_pipeline"):
        SpacyEntities("xx_no_such_pipeline")


def test_missing_spacy_is_refused_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """None in sys.modules makes Python's own import fail as if it were not installed."""
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigError, match=r"pip install .*\[ner\]"):
        SpacyEntities("en_core_web_sm")


def test_pipeline_that_finds_nothing_is_refused(spacy: ModuleType, tmp_path: Path) -> None:
    """A tokeniser alone would silently find no entity at all."""
    with pytest.raises(ConfigError, match="no component"):
        SpacyEntities(saved(spacy.blank("en"), tmp_path / "blank"))


def test_damaged_pipeline_is_refused(tmp_path: Path) -> None:
    """A folder without a configuration is no pipeline."""
    with pytest.raises(ConfigError, match="cannot load"):
        SpacyEntities(str(tmp_path))


def test_failing_component_is_our_own_error(spacy: ModuleType, tmp_path: Path) -> None:
    """The pipeline and the cause are named; the worker parks the turn as it does for other backends."""

    def fails(doc: Doc) -> Doc:
        raise ZeroDivisionError("a component's own")

    spacy.Language.component("fails_in_tests", func=fails)
    pipeline = spacy.blank("en")
    pipeline.add_pipe("fails_in_tests")
    finder = SpacyEntities(saved(pipeline, tmp_path / "failing"))
    with pytest.raises(BackendError, match="failing failed on 1 texts: a component's own"):
        finder.find(["a text"])

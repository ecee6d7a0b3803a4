"""What the index stage makes of turns, and what it keeps of the rows they have."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from memory_agent.domain import Entity, SearchRow, Turn
from memory_agent.errors import EmbedderUnavailable
from memory_agent.search.candidates import CandidateKeeper
from memory_agent.search.entities import EntitySpotter
from memory_agent.search.filler import VectorFiller
from memory_agent.search.index_stage import Indexer
from memory_agent.stores.sqlite import SqliteStore
from memory_agent.testing import BruteForceIndex, FixedClock, HashEmbedder
from memory_agent.text.corrections import features_of
from memory_agent.text.dictionary import EntityDictionary
from memory_agent.text.terms import count_terms, made_with
from tests.conformance.values import NOW, a_draft, a_scope, only_turns

TEXTS = ("We flew to Lisbon last week.", "How many boats did you see?", "word " * 300)


class Stage:
    """The index stage over a store of its own."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.vectors = BruteForceIndex()
        self.embedder = HashEmbedder()
        self.entities = EntityDictionary({})

    async def remember(self) -> list[Turn]:
        """`TEXTS`, not yet indexed."""
        drafts = [
            a_draft(text, index=index, size=len(TEXTS), session_id="s1", speaker=speaker)
            for index, (text, speaker) in enumerate(zip(TEXTS, ("Zoë", None, "Ann"), strict=True))
        ]
        return only_turns(await self.store.append_turns(a_scope(), drafts))

    async def index(self, turns: list[Turn], language: str = "english") -> None:
        spotter = EntitySpotter(self.entities)
        clock = FixedClock(NOW)
        candidates = CandidateKeeper(self.store, max_turns=0)
        filler = VectorFiller(
            self.store,
            self.vectors,
            clock,
            embedder=lambda: self.embedder.fingerprint,
            lease=timedelta(seconds=5),
            texts=False,
        )
        indexer = Indexer(self.store, candidates, filler, self.embedder, clock, spotter, language=language)
        await indexer.index(turns)
        while await filler.work_off("test"):
            pass

    async def rows(self) -> dict[str, SearchRow]:
        return {row.turn_id: row for row in await self.store.search_rows("ada")}

    async def age(self, *turn_ids: str, language: str) -> None:
        """Rows as older rules left them: other terms, no session, no speaker, no signs."""
        rows = await self.rows()
        codes = await self.store.token_codes("ada", turn_ids, embedder=self.embedder.fingerprint)
        old = [
            replace(
                rows[turn_id],
                terms={"old": 1},
                length=1,
                language=language,
                session_id=None,
                speaker=None,
                signs=features_of(""),
                tokens=codes[turn_id],
            )
            for turn_id in turn_ids
        ]
        await self.store.put_search_rows("ada", old, now=NOW)

    def stop_embedding(self) -> None:
        self.embedder.fail = EmbedderUnavailable("nothing is to be embedded")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    store = SqliteStore(tmp_path / "memory.db")
    await store.open()
    yield Stage(store)
    await store.close()


def assert_made_of(row: SearchRow, turn: Turn, language: str = "english") -> None:
    """All but the vectors is the turn's, by the rules of now."""
    text = f"{turn.speaker}: {turn.content}" if turn.speaker else turn.content
    terms = count_terms(text, language)
    assert (row.terms, row.length, row.language) == (terms, sum(terms.values()), made_with(language))
    assert (row.session_id, row.speaker, row.signs) == ("s1", turn.speaker, features_of(turn.content))
    assert (row.thread_id, row.seq, row.timestamp) == (turn.thread_id, turn.seq, turn.timestamp)


async def test_a_row_has_what_search_needs_of_its_turn(stage: Stage) -> None:
    """Its terms, its session, its speaker, its signs, and a vector for each passage of its own."""
    turns = await stage.remember()
    await stage.index(turns)
    rows = await stage.rows()
    for turn in turns:
        row = rows[turn.id]
        assert_made_of(row, turn)
        passages = await stage.embedder.split(
            f"{turn.speaker}: {turn.content}" if turn.speaker else turn.content
        )
        expected = await stage.embedder.embed(passages, purpose="document")
        np.testing.assert_allclose(row.vectors, expected, atol=np.abs(expected).max() / 254)
    assert [len(rows[turn.id].vectors) for turn in turns] == [1, 1, 3]


@pytest.mark.parametrize("older", ["english", "english/1", "korean/2"])
async def test_rows_of_other_rules_are_made_anew_with_their_vectors(stage: Stage, older: str) -> None:
    """Nothing is embedded again: all but the vectors is new, and the vectors reach the index."""
    turns = await stage.remember()
    await stage.index(turns)
    before = await stage.rows()
    await stage.age(*before, language=older)
    await stage.vectors.delete("ada", list(before))
    stage.stop_embedding()
    await stage.index(turns)
    after = await stage.rows()
    for turn in turns:
        assert_made_of(after[turn.id], turn)
        np.testing.assert_array_equal(after[turn.id].vectors, before[turn.id].vectors)
    assert await stage.vectors.turn_ids("ada") == set(before)


async def test_a_current_row_is_not_written_again(stage: Stage) -> None:
    """A rebuild leaves its number as it is, so that no process reads it anew; one whose names changed gets another."""
    turns = await stage.remember()
    await stage.index(turns)
    before = await stage.rows()
    stage.stop_embedding()
    await stage.index(turns)
    assert {row.index_seq for row in (await stage.rows()).values()} == {r.index_seq for r in before.values()}
    stage.entities = EntityDictionary({"places": {"Lisbon": []}})
    await stage.index(turns)
    after = await stage.rows()
    changed = [turn_id for turn_id, row in after.items() if row.index_seq != before[turn_id].index_seq]
    assert changed == [turns[0].id]
    assert after[turns[0].id].terms[Entity(kind="places", name="Lisbon").term] == 1
    assert after[turns[0].id].speaker == "Zoë"


async def test_only_what_another_model_made_is_embedded(stage: Stage) -> None:
    turns = await stage.remember()
    await stage.index(turns[:2])
    before = await stage.rows()
    await stage.age(turns[0].id, language="english/1")
    await stage.store.put_search_rows("ada", [replace(before[turns[1].id], embedder="another")], now=NOW)
    embedded: list[str] = []
    embed = stage.embedder.embed

    async def noting(texts: list[str], *, purpose: str) -> object:
        embedded.extend(texts)
        return await embed(texts, purpose="document")

    stage.embedder.embed = noting  # type: ignore[assignment, method-assign]
    await stage.index(turns)
    assert embedded[0] == turns[1].content
    assert "".join(embedded[1:]) == f"Ann: {turns[2].content}"
    rows = await stage.rows()
    for turn in turns:
        assert_made_of(rows[turn.id], turn)
        assert rows[turn.id].embedder == stage.embedder.fingerprint
    np.testing.assert_array_equal(rows[turns[0].id].vectors, before[turns[0].id].vectors)

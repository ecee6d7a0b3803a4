"""Long-term search through the public API: what raises a turn, what a large user gets, and late interaction."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from memory_agent import MemoryAgent, MemoryService, Recollection
from memory_agent.domain import TokenVectors
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.search import search as search_module
from memory_agent.search.fusion import SIGNALS
from memory_agent.testing import HashEmbedder
from tests.integration.conversations import on_each_store, opened, settings_on
from tests.over_http import both_ways_by_day, embedded_only

pytestmark = pytest.mark.usefixtures("both_ways")  # see tests/over_http.py

MAY: Final = datetime(2023, 5, 10, 9, tzinfo=UTC)
MARCH, AUGUST = MAY - timedelta(days=70), MAY + timedelta(days=100)
SILENT: Final[dict[str, float]] = dict.fromkeys(SIGNALS, 0.0)

Said = tuple[datetime, str, str]
TULIPS: Final[tuple[Said, ...]] = (
    (MARCH, "Ann", "The garden was full of slugs."),
    (MARCH, "Bo", "How dreadful! Tulips won't survive that."),
    (MARCH, "Ann", "We bought tulips and roses at the market."),
    (MARCH, "Bo", "Which tulips do you like?"),
    (MAY, "Ann", "Clara Holm from Oslo sent Dutch bulbs, and Peter Berg paid for them."),
    (MAY, "Bo", "Lovely. Roses and tulips bloom at their own pace."),
    (AUGUST, "Ann", "I mowed my lawn."),
    (AUGUST, "Bo", "Rain is coming."),
    (AUGUST, "Ann", "The shed got painted yesterday."),
    (AUGUST, "Bo", "Seven buckets, wow."),
)


@pytest.fixture
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database: SQLite's, unless a test is `on_each_store`."""
    return settings_on(getattr(request, "param", "sqlite"), request, tmp_path)


@pytest.fixture
async def service(settings: dict[str, Any]) -> AsyncIterator[MemoryService]:
    async with opened(settings) as service:
        yield service


async def remember(memory: MemoryAgent, said: Iterable[Said], *, settle: bool = True) -> None:
    """Ann is the user, all others are the assistant; a minute passes from turn to turn."""
    await memory.add_turns(
        [
            {
                "role": "user" if speaker == "Ann" else "assistant",
                "speaker": speaker,
                "content": text,
                "timestamp": day + timedelta(minutes=number),
            }
            for number, (day, speaker, text) in enumerate(said)
        ]
    )
    if settle:
        await memory.settle(timeout=60)


def texts(found: Sequence[Recollection]) -> list[str]:
    """What was found, best first."""
    return [one.text for one in found]


# --- signals -------------------------------------------------------------------------------------------------

RAISED: Final = [
    ("meaning", "Which tulips do you grow?", {3}),
    ("meaning_around", "Which tulips do you grow?", {3}),
    ("words", "tulips and roses", {2}),
    ("words_around", "slugs, tulips and roses", {1}),
    ("words_session", "lawn, rain, painted; roses, market", {6, 7, 8, 9}),
    ("person", "What did you say of the market?", {1, 3, 5, 7, 9}),
    ("dates", "Which tulips were there in May 2023?", {4, 5}),
    ("tells_when", "When did the tulips come?", {8}),
    ("counts", "How many tulips and roses?", {9}),
    ("names", "Who likes tulips?", {4}),
    ("of_self", "tulips", {2, 6}),
    ("asks", "tulips and roses", {3}),
]


@embedded_only("it is about the ranking, and opens a service for each signal")
async def test_each_signal_raises_what_it_hears_and_can_be_switched_off(settings: dict[str, Any]) -> None:
    """With a great weight its turns come first, and `why` says so; with weight 0 they don't, and it is not heard."""
    async with opened(settings) as service:
        await remember(service.agent("ann", "chat"), TULIPS)
    assert {signal for signal, _, _ in RAISED} == set(SIGNALS) - {
        "detail",
        "here",
    }  # of one thread none is here more than another
    for signal, question, places in RAISED:
        base = {"words": 1.0} if signal != "words" else {"asks": 1.0}
        raised = {TULIPS[place][2] for place in places}
        # So that nothing else makes the turns of this signal the best.
        base |= {"asks": -1.0} if signal in ("meaning", "meaning_around", "asks") else {}
        for weight in (50.0, 0.0):
            weights = SILENT | base | {signal: weight}
            async with opened(settings, search_weights=weights) as service:
                found = await service.agent("ann", "chat").fetch_long_term(question, top_k=10)
            assert (found[0].text in raised) == bool(weight), (signal, weight, texts(found))
            assert (signal in found[0].why) == bool(weight)
            assert len(found) == len(TULIPS)
            for one in found:
                assert sum(one.why.values()) <= one.score + 1e-5
                assert one.explanation


@both_ways_by_day
async def test_scores_order_the_results_and_are_explained(settings: dict[str, Any]) -> None:
    """Between 0 and 1, falling; the signals' shares are the score; the words say what the shares do."""
    async with opened(settings) as service:
        memory = service.agent("ann", "chat")
        await remember(memory, TULIPS)
        found = await memory.fetch_long_term("What did Ann buy at the market?", top_k=5)
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    best = found[0]
    assert best.text == TULIPS[2][2]
    assert sum(best.why.values()) == pytest.approx(best.score, abs=1e-4)
    assert list(best.why.values()) == sorted(best.why.values(), key=lambda share: -abs(share))
    assert re.search(
        r"shares words with the question, together with the turns beside it \(\d+%\)", best.explanation
    )
    assert re.search(r"was said by Ann, as the question suggests \(\d+%\)", best.explanation)
    assert best.similarity is not None
    assert -1 <= best.similarity <= 1


# --- what is not resident ------------------------------------------------------------------------------------

ANIMALS: Final = ["otter", "heron", "badger", "lizard", "magpie", "beetle", "salmon", "weasel"]
PLACES: Final = ["attic", "canal", "meadow", "quarry", "orchard"]


def a_long_talk() -> list[Said]:
    """Sixty turns in four sessions: an animal is asked for, and the answer names only a place."""
    said: list[Said] = []
    for number in range(30):
        day = MARCH + timedelta(days=number // 8)
        said.append((day, "Bo", f"Visit {number}: where was the {ANIMALS[number % 8]} with {number} spots?"))
        said.append((day, "Ann", f"Near an old {PLACES[number % 5]}, {number} steps away."))
    return said


@on_each_store
async def test_a_large_users_answer_is_found_beside_its_question(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that no source has as a candidate comes with the one beside it."""
    monkeypatch.setattr(search_module, "CANDIDATES", 10)
    async with opened(settings, resident_max_turns=20) as service:
        memory = service.agent("ann", "chat")
        said = [
            *a_long_talk(),
            (MAY, "Bo", "What is the name of your parrot?"),
            (MAY, "Ann", "Kepler."),
            *((day + timedelta(days=90), *rest) for day, *rest in a_long_talk()),
        ]
        await remember(memory, said)  # type: ignore[arg-type]  # the unpacked rest is a speaker and a text
        held = await service.core.store.term_candidates(memory.scope, ["parrot"], limit=10)
        assert len(held.turn_ids) == 1
        found = await memory.fetch_long_term("parrot", top_k=2)
        assert texts(found) == ["What is the name of your parrot?", "Kepler."]


@pytest.mark.parametrize("most", [50_000, 20])
async def test_turns_that_wait_to_be_indexed_are_found(settings: dict[str, Any], most: int) -> None:
    """By their words, their neighbours' words, their speaker and their time, next to indexed ones."""
    async with opened(settings, resident_max_turns=most) as service:
        await remember(service.agent("ann", "chat"), a_long_talk())
    # What the test's embedder has for tokens tells nothing, and the best of noise would count whole.
    settings = settings | {"search_weights": {"detail": 0.0}}
    async with opened(settings, run_worker=False, resident_max_turns=most) as service:
        memory = service.agent("ann", "chat")
        said = [
            (MAY, "Cora", "The otter is asleep."),
            (AUGUST, "Cora", "A parrot landed on the roof."),
            (AUGUST, "Ann", "Its name is Kepler."),
        ]
        await remember(memory, said, settle=False)
        found = await memory.fetch_long_term("parrot", top_k=2)
        assert texts(found) == ["A parrot landed on the roof.", "Its name is Kepler."]
        assert found[0].similarity is None
        found = await memory.fetch_long_term("What did Cora say of the otter in May 2023?", top_k=10)
        assert found[0].text == "The otter is asleep."
        assert {"person", "dates", "words"} <= set(found[0].why)
        assert len(found) == 10
        # While a rebuild is under way all turns wait, and are candidates all the same, once.
        assert await service.rebuild_index("ann") == 63
        assert (await memory.status()).pending["index"] == 63
        found = await memory.fetch_long_term("otter", top_k=63)
        assert len({one.turn.id for one in found}) == len(found)
        assert "otter" in found[0].text


# --- late interaction ----------------------------------------------------------------------------------------

PETS: Final[tuple[Said, ...]] = (
    (MAY, "Bo", "A pet needs a name, and a name needs a pet."),
    (MAY, "Ann", "The cat sat on the name plate of my house."),
    (MAY, "Ann", "Our puppy listens to Felix."),
    (MAY, "Bo", "Name a pet for the town's pet show."),
    (MAY, "Ann", "It rained all day."),
)
NAME_OF_PET: Final = "What is the name of my pet?"
DETAIL_ALONE: Final = SILENT | {"detail": 1.0}
DECIDES: Final[dict[str, Any]] = {"search_weights": {"detail": 40.0}}
"""Late interaction whose order decides."""


class FavouringEmbedder(HashEmbedder):
    """Reads the question word by word in every text that has a word, nothing in the rest."""

    def __init__(self, word: str = "Felix") -> None:
        super().__init__()
        self._word = word

    async def embed_tokens(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> list[TokenVectors] | None:
        shown = [NAME_OF_PET if purpose == "query" or self._word in text else "rain" for text in texts]
        return await super().embed_tokens(shown, purpose=purpose)


async def ranking(settings: dict[str, Any], **others: Any) -> list[Recollection]:
    """What the question for the pet's name finds; remembers first if nothing is there."""
    async with opened({**settings, "short_term_window": 0}, **others) as service:
        memory = service.agent("ann", "chat")
        if not (await memory.status()).turns:
            await remember(memory, PETS)
        found = await memory.fetch_long_term(NAME_OF_PET, top_k=5)
        assert len(found) == len(PETS)
        return list(found)


class WithoutTokens(HashEmbedder):
    """As an embedder behind an API: no vectors of words."""

    embed_tokens = None  # type: ignore[assignment]


async def test_the_order_word_by_word_decides(settings: dict[str, Any]) -> None:
    """What was behind comes first if its words fit best, in a prompt too."""
    embedder = FavouringEmbedder()
    found = await ranking(settings, embedder=embedder, **DECIDES)
    assert "Felix" in found[0].text
    assert next(iter(found[0].why)) == "detail"
    async with opened(settings, embedder=embedder, **DECIDES) as service:
        context = await service.agent("ann", "chat").fetch_memory(NAME_OF_PET, preset="recall")
        assert "detail" in context.long_term[0].why


async def test_turns_remembered_without_their_tokens_get_them_by_a_rebuild(settings: dict[str, Any]) -> None:
    """Until then, and by an embedder that has none, they are ranked as without late interaction; so are those with codes of an earlier version."""
    first = await ranking(settings, embedder=WithoutTokens(), **DECIDES)
    assert "Felix" not in first[0].text
    assert not any("detail" in one.why for one in first)
    embedder = FavouringEmbedder()
    async with opened(settings, embedder=embedder) as service:
        rows = await service.core.store.search_rows("ann")
        earlier = [replace(row, tokens=bytes(26 * 4)) for row in rows[1:]]
        await service.core.store.put_search_rows("ann", earlier, now=MAY)
    assert texts(await ranking(settings, embedder=embedder, **DECIDES)) == texts(first)
    async with opened(settings, embedder=embedder, **DECIDES) as service:
        await service.rebuild_index("ann")
        await service.agent("ann", "chat").settle()
    assert "Felix" in (await ranking(settings, embedder=embedder, **DECIDES))[0].text


async def test_a_few_turns_with_tokens_among_many_without_are_no_better_for_it(
    settings: dict[str, Any],
) -> None:
    """As what is said after an upgrade is, before a rebuild: scaled among themselves, one alone would be the best."""
    first = await ranking(settings, embedder=WithoutTokens(), **DECIDES)
    embedder = FavouringEmbedder(first[-1].text)
    async with opened(settings, embedder=embedder) as service:
        last, store = first[-1].turn, service.core.store
        await store.owe(last.scope, "index", now=MAY, turn_ids=[last.id])
        await service.agent("ann", "chat").settle()
        ids = [one.turn.id for one in first]
        assert list(await store.token_codes("ann", ids, embedder=embedder.fingerprint)) == [last.id]
    assert texts(await ranking(settings, embedder=embedder, **DECIDES)) == texts(first)


@embedded_only("it is about the ranking")
async def test_only_the_best_turns_are_looked_at_again(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`SHORTLIST` of them; the others follow."""
    first = texts(await ranking(settings, embedder=WithoutTokens()))
    embedder = FavouringEmbedder(first[1][:10])
    async with opened(settings, embedder=embedder, **DECIDES) as service:
        await service.rebuild_index("ann")
        await service.agent("ann", "chat").settle()
    monkeypatch.setattr(search_module, "SHORTLIST", 2)
    found = texts(await ranking(settings, embedder=embedder, **DECIDES))
    assert found[:2] == [first[1], first[0]]
    assert sorted(found) == sorted(first)


async def test_a_turn_that_is_not_indexed_yet_is_told_by_its_words(settings: dict[str, Any]) -> None:
    """Its tokens aren't there yet; it doesn't fall behind for that."""
    embedder = FavouringEmbedder("rained")
    async with opened(settings, embedder=embedder, **DECIDES) as service:
        await remember(service.agent("ann", "chat"), PETS)
    async with opened(settings, embedder=embedder, run_worker=False, **DECIDES) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turn("user", NAME_OF_PET)
        found = await memory.fetch_long_term(NAME_OF_PET, top_k=3)
    assert {found[0].text, found[1].text} == {NAME_OF_PET, "It rained all day."}
    assert next(iter(found[0].why)) == next(iter(found[1].why)) == "detail"


async def test_late_interaction_compares_word_by_word(
    settings: dict[str, Any], shared_embedder: LocalEmbedder
) -> None:
    """By the real model, with its signal alone: the turn whose words mean what the question's do comes first."""
    said = [
        (MARCH, "Ann", "We adopted a puppy and called him Felix."),
        (MAY, "Bo", "The council met to talk about taxes."),
        (AUGUST, "Ann", "It rained all day."),
    ]
    async with opened(settings, embedder=shared_embedder, search_weights=DETAIL_ALONE) as service:
        memory = service.agent("ann", "chat")
        await remember(memory, said)
        found = await memory.fetch_long_term("Which name has the dog?", top_k=3)
        assert texts(found)[0] == said[0][2]
        assert list(found[0].why) == ["detail"]
        assert found[0].explanation == "matches the question word by word (100%)"
        assert (await memory.fetch_memory("Which name has the dog?")).degraded == ()
    async with opened(settings, embedder=shared_embedder) as service:
        found = await service.agent("ann", "chat").fetch_long_term("Which name has the dog?", top_k=3)
        assert found[0].why["detail"] > 0


async def test_a_time_told_from_an_event_is_found(memory: MemoryAgent) -> None:
    """Two weeks before the wedding is told from the turn that tells of the wedding."""
    said = [
        (MARCH, "Ann", "I painted the fence."),
        (MAY - timedelta(days=14), "Ann", "I painted the gate."),
        (MAY, "Ann", "Our wedding is today."),
        (AUGUST, "Ann", "I painted the shed."),
    ]
    await remember(memory, said)
    found = await memory.fetch_long_term("What did I paint two weeks before the wedding?", top_k=4)
    painted = [one for one in found if "painted" in one.text]
    assert painted[0].text == "I painted the gate."
    assert "dates" in painted[0].why
    assert len(painted) == 3


async def test_what_says_the_same_stands_behind(memory: MemoryAgent) -> None:
    """Of a sentence said three times one is among the best three; the others follow, and none is lost."""
    said = [(MAY, "Ann", "I love my piano.")] * 3
    said += [(AUGUST, "Ann", "My piano needs tuning."), (AUGUST, "Ann", "A piano is heavy to move.")]
    await remember(memory, said)
    assert len(set(texts(await memory.fetch_long_term("piano", top_k=3)))) == 3
    everything = await memory.fetch_long_term("piano", top_k=10)
    assert sorted(texts(everything)) == sorted(text for _, _, text in said)
    assert texts(everything)[3:] == ["I love my piano."] * 2

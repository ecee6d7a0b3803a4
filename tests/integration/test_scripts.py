"""Languages that the embedding model knows and does not know, from end to end with the real models."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest

from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.testing import BruteForceIndex
from memory_agent.text.subjects import everyday_sentences
from tests.integration.conversations import opened, said

KOREAN: Final = (
    "우리 고양이 이름은 보리야.",
    "지난달에 수원에서 부산으로 이사했어.",
    "나는 새우를 먹으면 두드러기가 나.",
)
ENGLISH: Final = ("My sister bakes bread.", "I was diagnosed with asthma last spring.")


async def test_a_model_of_english_is_silent_in_korean_and_says_so(
    embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    """Turns have no cosine with any question, whatever both are written in, but in English both have; the way out is named."""
    async with opened(embedded_settings, embedder=shared_embedder, vectors=BruteForceIndex()) as service:
        memory = service.agent("ann", "chat")
        assert (await memory.status()).unread_scripts == ()
        await memory.add_turns([{**turn, "role": "user"} for turn in said([*KOREAN, *ENGLISH])])
        await memory.settle()
        assert (await memory.status()).unread_scripts == ("HANGUL",)
        assert (await service.status()).unread_scripts == ()
        with caplog.at_level(logging.WARNING):
            found = await memory.fetch_long_term("고양이 이름이 뭐야?", top_k=5)
        assert "3 of a user's 5 turns are in a script" in caplog.text
        assert "extra `multilingual`" in caplog.text
        assert found[0].turn.content == KOREAN[0]
        assert all(one.similarity is None for one in found)
        found = await memory.fetch_long_term("Which illness do I have?", top_k=5)
        assert found[0].turn.content == ENGLISH[1]
        known = {one.turn.content: one.similarity is not None for one in found}
        assert known == dict.fromkeys(KOREAN, False) | dict.fromkeys(ENGLISH, True)
        # Asked for again, and once these are forgotten.
        assert (await memory.status()).unread_scripts == ("HANGUL",)
        turns = await memory.fetch_short_term(5)
        await memory.forget(turn_ids=[turn.id for turn in turns if turn.content in KOREAN])
        assert (await memory.status()).unread_scripts == ()


async def test_a_language_in_latin_letters_that_the_model_does_not_know_is_named_with_the_way_out(
    embedded_settings: dict[str, Any], shared_embedder: LocalEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    """In the status of the user who speaks it, and once in fifty turns in the log; of English nothing is said, nor of code."""
    german = [
        "Ich habe endlich den grünen Schal fertig gestrickt.",
        "Die Rechnung für März ist noch offen.",
        "Wir haben gestern Nacht am Fluss zwei Füchse gesehen.",
        "Meine Schwester spielt Cello in einem Orchester.",
        "An die Suppe muss noch etwas Pfeffer.",
        "Morgen muss ich lange arbeiten, deshalb kommt Ines ohne mich zum Abendessen.",
    ]
    english = [
        *everyday_sentences()["english"][:5],
        "Why does df.groupby('customer_id').reset_index() raise KeyError here?",
    ]
    async with opened(embedded_settings, embedder=shared_embedder, vectors=BruteForceIndex()) as service:
        for user, sentences in (("ann", english), ("eva", german)):
            memory = service.agent(user, "chat")
            turns = [{**turn, "role": "user"} for turn in said([sentences[n % 6] for n in range(50)])]
            await memory.add_turns(turns[:6])
            await memory.settle()
            assert "in a language" not in caplog.text
            assert (await memory.status()).unread_language == {"ann": "", "eva": "de"}[user]
            await memory.add_turns(turns[6:])
            await memory.settle()
        assert caplog.text.count("newest turns are in a language (de)") == 1
        assert "extra `multilingual`" in caplog.text
        assert (await service.status()).unread_language == ""

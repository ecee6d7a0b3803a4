"""Long-term search by words alone, in languages that don't part words by spaces or that write accents.

Which ways of writing a word meet, in these and other languages, is in `tests/unit/text/terms.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from memory_agent import EmbedderUnavailable
from memory_agent.search.fusion import WEIGHTS
from memory_agent.testing import HashEmbedder
from tests import profiles
from tests.integration.conversations import STORES, opened, said, settings_on

CONVERSATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "korean": (
        "저는 작년에 부산에서 서울로 이사했어요.",
        "이사하느라 힘드셨겠어요. 지금은 괜찮으세요?",
        "집에 작은 마당이 있어서 좋아요.",
        "마당에는 무엇을 심으셨어요?",
        "고추랑 상추를 심었어요. 여름이면 매일 먹어요.",
        "그렇군요! 혹시 개를 키우시나요?",
        "네, 초코라는 푸들이에요. 개인 병원에서 입양했어요.",
        "차이나타운에서 먹은 짜장면이 정말 맛있었어요.",
        "차를 새로 샀는데 파란색 전기차예요.",
        "언니는 도서관에서 사서로 일해요.",
        "도로가 막혀서 회의에 늦었어요.",
        "고양이가 소파를 다 긁어 놓았어요.",
        "다음 달에 제주도로 휴가를 가려고 합니다.",
        "어머니께서는 김치찌개를 제일 잘하세요.",
        "iPhone을 잃어버려서 너무 속상했어요.",
        "K팝 공연을 2023년에 처음 봤습니다.",
    ),
    "french": (
        "L'année dernière j'ai déménagé à Genève.",
        "C'était difficile ?",
        "Un peu, mais l'appartement est près du lac.",
        "Ma sœur est élève infirmière à l'hôpital.",
        "Elle aime ça ?",
        "Oui, surtout le service des enfants.",
        "Le matin je prends un café sans sucre.",
        "J'ai acheté une voiture électrique bleue.",
        "Mon père répare de vieilles horloges.",
        "Nous avons mangé des crêpes à Noël.",
        "Je suis allergique aux noix.",
        "Le chat dort toujours sur le canapé.",
        "J'ai perdu mon parapluie dans le métro.",
        "En été, nous irons en Norvège.",
        "Mon premier marathon était à Lyon.",
    ),
}
QUESTIONS: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "korean": (
        ("내가 사는 집 어때?", "집에 작은"),
        ("개 이름이 뭐였지?", "개를 키우시나요"),
        ("내 차 무슨 색이야?", "차를 새로"),
        ("고양이는 무엇을 했어?", "고양이가"),
        ("서울에는 언제 왔어요?", "서울로"),
        ("언니 직업이 뭐야? 도서관인가?", "사서로"),
        ("어머니는 무슨 요리를 잘하셔?", "김치찌개"),
        ("제주도에는 언제 가?", "제주도로"),
        ("iPhone은 어떻게 됐어?", "iPhone을"),
        ("K팝 공연은 언제였어?", "2023년에"),
        ("상추는 어디에 심었어?", "상추를"),
    ),
    "french": (
        ("Ou est Geneve ?", "Genève"),
        ("Où travaille l'élève ?", "élève"),
        ("eleve infirmiere", "élève"),
        ("Est-ce que je mets du sucre dans mon cafe ?", "café"),
        ("Quelle voiture electrique ?", "électrique"),
        ("Les hôpitaux et l'hopital", "hôpital"),
        ("Quand avons-nous mangé une crepe ?", "crêpes"),
        ("ma soeur", "sœur"),
    ),
}


@pytest.mark.parametrize("store", profiles.by_day(*STORES))
@pytest.mark.parametrize("language", CONVERSATIONS)
async def test_the_turn_that_shares_a_word_comes_first(
    store: str, language: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Words alone find it, whatever particles, spellings or accents stand around the word in question and turn."""
    settings = settings_on(store, request, tmp_path)
    settings["search_language"] = "french" if language == "french" else "english"
    settings["search_weights"] = dict.fromkeys(WEIGHTS, 0.0) | {"words": 1.0}
    embedder = HashEmbedder()
    async with opened(settings, embedder=embedder) as service:
        memory = service.agent("ann", "chat")
        await memory.add_turns(said(CONVERSATIONS[language]))
        await memory.settle(timeout=30)
        embedder.fail = EmbedderUnavailable("words have to do")
        missed = []
        for question, right in QUESTIONS[language]:
            found = await memory.fetch_long_term(question, top_k=3)
            if not found or right not in found[0].text:
                missed.append((question, [one.text for one in found]))
        assert missed == []

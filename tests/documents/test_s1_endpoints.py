"""S1, Conversation Memory System Design Document: importance, the manager's calls, and the endpoints."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import websockets

from memory_agent import (
    IMPORTANCE_WEIGHTS,
    Character,
    MemoryService,
    TurnInput,
    importance_factors,
    score_turn,
)
from tests.documents.frame import says
from tests.servers.service import served

MIRA = Character(name="Mira", personality="patient")


def said(text: str, role: str = "user") -> TurnInput:
    return TurnInput(role=role, content=text)


# --- importance ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("turn", "factor", "weight"),
    [
        pytest.param(said(text, role), factor, weight, marks=says("S1", f'"{factor}": {weight},'), id=factor)
        for text, role, factor, weight in (
            ("[excited] That song!", "assistant", "emotional_peak", 10),
            ("We decided to sell the car.", "user", "decision_made", 8),
            ("By the way, the strings are new.", "user", "topic_introduction", 7),
            ("I live in Oslo and work as a nurse.", "user", "user_information", 6),
            (
                "Well, I work hard to convey emotions properly in each song",
                "assistant",
                "character_defining",
                5,
            ),
            ("What songs are you learning?", "assistant", "question_asked", 4),
            ("Haha, okay.", "user", "humor_moment", 3),
            ("I'm sorry I shouted at you yesterday. You were right.", "user", "conflict_resolution", 9),
        )
    ],
)
@says("S1", "def score_turn(turn: ConversationTurn) -> float", "- [ ] Implement ImportanceScorer")
async def test_each_factor_has_its_weight(turn: TurnInput, factor: str, weight: float) -> None:
    assert IMPORTANCE_WEIGHTS[factor] == weight
    assert score_turn(turn) == weight
    assert score_turn(turn, weights={factor: 1}) == 1


@says("S1", "- Last 5 turns: +5 bonus", "- Last 10 turns: +3 bonus", "- Last 20 turns: +1 bonus")
async def test_recent_turns_have_a_bonus() -> None:
    bonus = [score_turn(said("Okay."), from_end=n) for n in (0, 4, 5, 9, 10, 19, 20)]
    assert bonus == [5, 5, 3, 3, 1, 1, 0]


@says("S1", "async def score_importance(turn: ConversationTurn) -> float", better="s1-scorer")
@says("S1", "def detect_emotion_peak(turn: ConversationTurn) -> bool", better="s1-scorer")
@says("S1", "def detect_decision(turn: ConversationTurn) -> bool", better="s1-scorer")
@says(
    "S1",
    "def detect_topic_change(turn: ConversationTurn, previous: ConversationTurn) -> bool",
    better="s1-scorer",
)
async def test_what_a_turn_is_scored_for_is_told() -> None:
    turn = said("I'm so nervous, but we decided: the concert is on Friday!")
    assert importance_factors(turn) == {"emotional_peak", "decision_made"}
    other = said("The guitar strings need changing.")
    assert "topic_introduction" in importance_factors(
        said("Lisbon hotels cost too much in June."), previous=other
    )


@says("S1", "def extract_user_info(turn: ConversationTurn) -> Optional[Dict]", better="s1-scorer")
async def test_what_a_turn_tells_of_its_user_is_extracted_and_not_stored(service: MemoryService) -> None:
    memory = service.agent("lee", "told")
    assert await memory.extract_facts("I live in Oslo. I work as a nurse.") == {
        "location": "Oslo",
        "occupation": "nurse",
    }
    assert await memory.extract_facts("Nice weather today.") == {}
    assert await memory.fetch_facts(scope="thread") == {}


# --- the manager -----------------------------------------------------------------------------------------------
@says(
    "S1",
    "async def start_session(character_id: int, user_id: str) -> ConversationSession",
    better="s1-calls",
)
@says("S1", "async def search_memories(query: str, session_id: Optional[str]) -> List[ConversationTurn]")
@says("S1", "- [ ] Search functionality")
async def test_a_session_has_the_characters_id_and_can_be_searched(service: MemoryService) -> None:
    memory = service.agent("lee", "manager")
    first = await memory.start_session(character_id=3)
    await memory.update_memory("I play the guitar at an open mic.", "Wonderful!")
    second = await memory.start_session(MIRA, character_id=4)
    await memory.update_memory("I play the piano at home.", "Lovely!")
    await memory.settle()
    assert (first.character_id, second.character_id) == (3, 4)
    found = await service.search("lee", "What do I play?")
    assert {one.turn.session_id for one in found} == {first.id, second.id}
    found = await service.search("lee", "What do I play?", session_id=first.id)
    assert found[0].turn.content == "I play the guitar at an open mic."
    assert {one.turn.session_id for one in found} == {first.id}


# --- endpoints -------------------------------------------------------------------------------------------------
@says(
    "S1",
    "POST   /api/sessions/start",
    "GET    /api/sessions/{id}/context",
    "POST   /api/sessions/{id}/compress",
)
@says("S1", "GET    /api/sessions/{id}/summary", "POST   /api/memory/search", "- [ ] API endpoints")
async def test_the_endpoints_answer_at_the_documents_addresses(service: MemoryService) -> None:
    async with (
        served(service) as there,
        httpx.AsyncClient(base_url=there.address, headers=await there.headers(), trust_env=False) as http,
    ):

        async def asked(method: str, path: str, body: Any = None) -> Any:
            answer = await http.request(method, path, json=body, timeout=60)
            assert answer.is_success, answer.text
            return answer.json()

        session = await asked("POST", "/api/sessions/start", {"character_id": 3, "user_id": "lee"})
        assert session["metadata"]["character_id"] == 3
        thread = f"/api/threads/lee/{session['thread_id']}"
        for text in ("I play the guitar at an open mic on Friday.", "My sister Ines comes along."):
            await asked("POST", f"{thread}/update", {"user_msg": text, "assistant_msg": "Wonderful!"})
        await asked("POST", f"{thread}/turns", {"role": "user", "content": "I'm a bit nervous."})
        place = f"/api/sessions/{session['id']}"
        context = await asked("GET", f"{place}/context")
        assert [turn["content"] for turn in context["recent"]][-1] == "I'm a bit nervous."
        compressed = await asked("POST", f"{place}/compress")
        assert "guitar at an open mic" in str(compressed["summary"])
        history = await asked("GET", f"{place}/history")
        assert [turn["seq"] for turn in history["items"]] == [1, 2, 3, 4, 5]
        assert (await asked("GET", f"{place}/summary"))["items"] == compressed["summary"]
        body = {"query": "Who comes along?", "session_id": session["id"], "user_id": "lee"}
        found = await asked("POST", "/api/memory/search", body)
        assert found["items"][0]["turn"]["content"] == "My sister Ines comes along."


@says("S1", "- [ ] WebSocket notifications")
async def test_what_happens_to_a_thread_is_told_over_a_websocket(service: MemoryService) -> None:
    async with served(service) as there:
        url = there.address.replace("http", "ws") + "/api/threads/lee/told/events/ws"
        async with websockets.connect(url, proxy=None) as socket:
            await socket.send(await there.key())
            assert json.loads(await socket.recv()) == {"kind": "ready"}
            turn = await service.agent("lee", "told").add_user_message("Hello!")
            event = json.loads(await socket.recv())
    assert (event["kind"], event["turn_id"]) == ("turn_stored", turn.id)

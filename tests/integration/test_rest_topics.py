"""REST: topics form, are read, merged and split, tagged, weighed, archived and brought back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.rest import BREAD, HOTELS, LISBON, Rest, shows

SUBJECTS = [
    "violin concert orchestra rehearsal conductor",
    "bicycle tyre repair pump puncture",
    "tomato garden soil compost seedlings",
    "mortgage bank interest loan deposit",
    "quantum physics electron particle collider",
]


async def by_title(rest: Rest, **params: Any) -> dict[str, dict[str, Any]]:
    """The thread's topics."""
    return {one["topic_title"]: one for one in (await rest.get("topics", **params))["items"]}


@shows("list_topics", "show_topic", "topic_context", "topic_history", "turn_topic")
async def test_topics_are_read(rest: Rest) -> None:
    """Each with its turns word for word, the current one by the word `current`, and by each turn of it."""
    ids = await rest.say(LISBON, BREAD, HOTELS)
    topics = await by_title(rest)
    assert set(topics) == {LISBON[:80], BREAD[:80]}
    lisbon = topics[LISBON[:80]]
    assert (lisbon["total_messages"], lisbon["current"], lisbon["archived"]) == (4, True, False)
    current = await rest.get("topics/current")
    assert (current["topic_id"], current["topic_title"]) == (lisbon["topic_id"], lisbon["topic_title"])
    assert (await rest.get(f"topics/{lisbon['topic_id']}"))["total_messages"] == 4
    for turn_id in (ids[0], ids[1], ids[4]):
        assert (await rest.get(f"turns/{turn_id}/topic"))["topic_id"] == lisbon["topic_id"]
    history = (await rest.get("topics/current/history"))["items"]
    assert [turn["content"] for turn in history][::2] == [LISBON, HOTELS]
    assert {turn["role"] for turn in history} == {"user", "assistant"}
    messages = (await rest.get("topics/current/context"))["messages"]
    assert messages[0]["role"] == "system"
    assert LISBON[:40] in messages[0]["content"]
    assert HOTELS in [message["content"] for message in messages]


async def test_a_turn_of_no_topic(rest: Rest) -> None:
    """null for what an assistant says before anybody asked."""
    turn = await rest.post("turns", {"role": "assistant", "content": "Good morning!"}, status=201)
    assert await rest.get(f"turns/{turn['id']}/topic") is None


@shows("list_topics", "topic_history")
async def test_pages_of_topics_and_of_their_turns_are_whole(rest: Rest) -> None:
    """None is missing and none comes twice, also when a topic is added and the order changes between two pages."""
    await rest.say(*SUBJECTS)
    every = [one["topic_id"] for one in (await rest.get("topics"))["items"]]
    assert len(every) == len(SUBJECTS)
    for limit in (1, 2, 5):
        found = [one["topic_id"] for page in await rest.pages("topics", limit) for one in page]
        assert sorted(found) == sorted(every)
        turns = [one["content"] for page in await rest.pages("topics/current/history", limit) for one in page]
        assert turns == [SUBJECTS[-1], f"About that: {SUBJECTS[-1].lower()}"]
    page = await rest.get("topics", limit=2)
    await rest.say(LISBON)
    left = await rest.get("topics", limit=100, cursor=page["next_cursor"])
    ids = [one["topic_id"] for one in (*page["items"], *left["items"])]
    assert len(set(ids)) == len(ids)
    assert set(every) <= set(ids)


@shows("merge_topics", "split_topic", "suggest_merges")
async def test_topics_are_merged_and_split(rest: Rest) -> None:
    """The one that is merged into keeps its id and gets the turns; splitting gives them back."""
    await rest.say(LISBON, BREAD)
    topics = await by_title(rest)
    lisbon, bread = (topics[text[:80]]["topic_id"] for text in (LISBON, BREAD))
    suggested = (await rest.get("topics/suggestions", least=-1))["items"]
    assert [{one["topic_id"], one["into"]} for one in suggested] == [{lisbon, bread}]
    assert -1 <= suggested[0]["similarity"] <= 1
    assert (await rest.get("topics/suggestions"))["items"] == []
    merged = await rest.post(f"topics/{bread}/merge", {"into": lisbon})
    assert (merged["topic_id"], merged["total_messages"]) == (lisbon, 4)
    assert len((await rest.get("topics"))["items"]) == 1
    problem = await rest.refused("POST", f"topics/{lisbon}/merge", {"into": lisbon}, status=422)
    assert problem["type"].endswith(":invalid-input")
    split = await rest.post(f"topics/{bread}/split")
    assert (split["topic_id"], split["total_messages"]) == (bread, 2)
    await rest.refused("POST", f"topics/{bread}/split", status=422)
    assert (await rest.get(f"topics/{lisbon}"))["total_messages"] == 2


@shows("tag_topic", "set_topic_importance", "give_feedback", "archive_topic", "restore_topic")
async def test_topics_are_tagged_weighed_archived_and_restored(rest: Rest) -> None:
    """Each answer is how the topic stands then; archived ones are listed only when asked for."""
    ids = await rest.say(LISBON, BREAD)
    topic = (await rest.get(f"turns/{ids[0]}/topic"))["topic_id"]
    assert (await rest.post(f"topics/{topic}/tags", {"add": ["travel", "plans"]}))["tags"] == [
        "travel",
        "plans",
    ]
    assert (await rest.post(f"topics/{topic}/tags", {"remove": ["plans", "unknown"]}))["tags"] == ["travel"]
    assert [one["topic_id"] for one in (await rest.get("topics", tag="travel"))["items"]] == [topic]
    assert (await rest.get("topics", tag="plans"))["items"] == []
    for thread in ({"thread_id": "chat"}, {}):
        asked = {"user_id": "ann", "query": LISBON, **thread}
        found = (await rest.post("/api/memory/search", {**asked, "tag": "travel"}))["items"]
        assert {one["turn"]["topic_id"] for one in found} == {topic}
        assert (await rest.post("/api/memory/search", {**asked, "tag": "plans"}))["items"] == []
    await rest.refused("POST", "/api/memory/search", {**asked, "tag": "x" * 65}, status=422)
    before = (await rest.get(f"topics/{topic}"))["importance_score"]
    assert (await rest.post(f"topics/{topic}/importance", {"importance": 0.9}))["importance_score"] == 0.9
    useful = await rest.post("feedback", {"turn_or_topic": ids[0], "useful": True})
    assert useful["topic_id"] == topic
    await rest.post("feedback", {"turn_or_topic": topic, "useful": False})
    weighed = await rest.post(f"topics/{topic}/importance", {"importance": None})
    assert weighed["importance_score"] == pytest.approx(before)
    assert (await rest.post(f"topics/{topic}/archive"))["archived"] is True
    assert topic not in [one["topic_id"] for one in (await rest.get("topics"))["items"]]
    assert (await rest.get("topics", archived=True))["items"][-1]["topic_id"] == topic
    turns = (await rest.get(f"topics/{topic}/history", include_compressed=True))["items"]
    assert turns[0]["content"] == LISBON
    assert (await rest.post(f"topics/{topic}/restore"))["archived"] is False
    assert topic in [one["topic_id"] for one in (await rest.get("topics"))["items"]]

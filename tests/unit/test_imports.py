"""Readers of other programs' exports: the branch that was shown, times, what is left out, and files of every make."""

import gzip
import io
import json
import tracemalloc
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_agent.errors import InvalidInput
from memory_agent.imports import files
from memory_agent.imports.files import Conversation, ImportFile, OpenZip, Unreadable, files_of, time_of
from memory_agent.imports.kinds import KINDS, kind_of, read_file
from memory_agent.imports.run import import_chats

START = 1_700_000_000.0
ROOT = "00000000-0000-4000-8000-000000000000"


def said(role: str, text: Any, at: float | None = None, **more: Any) -> dict[str, Any]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    return {"author": {"role": role}, "create_time": at, "content": content, "recipient": "all", **more}


def tree(*nodes: tuple[str, str | None, Any], current: str | None = None, **more: Any) -> dict[str, Any]:
    """A conversation of ChatGPT's of nodes (id, parent, message)."""
    mapping = {
        node: {
            "id": node,
            "parent": parent,
            "message": message and {"id": f"m-{node}", **message},
            "children": [child for child, above, _ in nodes if above == node],
        }
        for node, parent, message in nodes
    }
    whole = {"id": "c1", "conversation_id": "c1", "title": "Tea", "create_time": START, "mapping": mapping}
    return {**whole, "current_node": current, **more}


def claude(*messages: tuple[str, str | None, str, str, str], **more: Any) -> dict[str, Any]:
    """A conversation of Claude's of messages (uuid, parent, sender, text, time)."""
    chat = [
        {"uuid": uuid, "parent_message_uuid": parent, "sender": sender, "text": text, "created_at": at}
        for uuid, parent, sender, text, at in messages
    ]
    return {"uuid": "k1", "name": "Walk", "created_at": "2025-03-01T10:00:00Z", "chat_messages": chat, **more}


def written(folder: Path, value: Any, name: str = "conversations.json") -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def zipped(path: Path, **members: Any) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, value in members.items():
            packed.writestr(f"{name}.json", value if isinstance(value, str) else json.dumps(value))
    return path


def read(path: Path, source: str = "auto", user_id: str = "ada") -> list[Conversation | Unreadable]:
    found: list[Conversation | Unreadable] = []
    for file in files_of([path]):
        found += [file] if isinstance(file, Unreadable) else read_file(file, source, user_id)
    return found


def conversation(folder: Path, value: Any) -> Conversation:
    [found] = read(written(folder, value))
    assert isinstance(found, Conversation), found
    return found


def texts(found: Conversation) -> list[str]:
    return [message.content for message in found.messages]


def roles(found: Conversation) -> list[str]:
    return [message.role for message in found.messages]


def reasons(found: list[Conversation | Unreadable]) -> str:
    return "\n".join(f"{one.where}: {one.reason}" for one in found if isinstance(one, Unreadable))


# --- ChatGPT -------------------------------------------------------------------------------------------------
QUESTION = ("q", "root", said("user", "Which tea?", START + 1))
TWO_ANSWERS = (
    ("root", None, None),
    QUESTION,
    ("first", "q", said("assistant", "Green.", START + 2)),
    ("second", "q", said("assistant", "Black.", START + 3)),
)


def test_of_answers_made_anew_the_one_that_was_shown_last_is_taken(tmp_path: Path) -> None:
    shown = conversation(tmp_path, [tree(*TWO_ANSWERS, current="first")])
    assert texts(shown) == ["Which tea?", "Green."]
    assert shown.left_out == {"of branches not shown last": 1}
    for lost in (None, "nowhere"):
        assert texts(conversation(tmp_path, [tree(*TWO_ANSWERS, current=lost)])) == ["Which tea?", "Black."]


def test_several_roots_orphans_and_cycles_are_walked_once(tmp_path: Path) -> None:
    odd = (
        ("a", "b", said("user", "One.", START + 1)),
        ("b", "a", said("assistant", "Two.", START + 2)),
        ("c", "gone", said("user", "Three.", START + 3)),
        ("d", None, said("user", "Four.", START)),
    )
    assert texts(conversation(tmp_path, [tree(*odd, current="b")])) == ["One.", "Two."]
    assert texts(conversation(tmp_path, [tree(*odd)])) == ["Three."]
    assert texts(conversation(tmp_path, [tree(("x", None, None), current="x")])) == []


def test_what_nobody_said_is_left_out_and_counted(tmp_path: Path) -> None:
    hidden: dict[str, Any] = {"metadata": {"is_visually_hidden_from_conversation": True}}
    profile = {"content_type": "user_editable_context", "user_profile": "I am Ada."}
    messages = [
        said("system", "You are ChatGPT."),
        said("user", profile),
        said("user", "I am Ada.", metadata={"is_user_system_message": True}),
        said("user", "Hidden.", **hidden),
        said("user", "How many?"),
        said("assistant", {"content_type": "thoughts", "thoughts": []}),
        said("assistant", {"content_type": "code", "text": "len(x)"}, recipient="python"),
        said("tool", {"content_type": "execution_output", "text": "3"}),
        said("assistant", "Hm.", channel="analysis"),
        said("assistant", {"content_type": "reasoning_recap", "content": "Thought for 3 s"}),
        said("assistant", {"content_type": "model_editable_context", "model_set_context": "Ada likes tea."}),
        said("assistant", "Taken back.", weight=0),
        said("assistant", ""),
        said("assistant", "Three. \ue200cite\ue202turn0search1\ue201"),
    ]
    nodes = [(str(at), str(at - 1) if at else None, one) for at, one in enumerate(messages)]
    found = conversation(tmp_path, [tree(*nodes, current=nodes[-1][0])])
    assert texts(found) == ["How many?", "Three."]
    expected = {"system": 1, "custom instructions": 2, "hidden": 2, "thoughts": 3, "tools": 2, "empty": 1}
    expected["saved memories shown to the model"] = 1
    assert dict(+found.left_out) == expected
    assert sum(expected.values()) + len(found.messages) == len(messages)


def test_media_leave_a_trace_and_a_drawing_its_prompt(tmp_path: Path) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://x"}
    drawn = {**image, "metadata": {"dalle": {"prompt": "a red kite"}}}
    spoken = {"content_type": "audio_transcription", "text": "Hello there."}
    sound = {"content_type": "audio_asset_pointer"}
    parts = [image, "What is this?"]
    attached: dict[str, Any] = {"metadata": {"attachments": [{"name": "kite.pdf"}]}}
    found = conversation(
        tmp_path,
        [
            tree(
                ("a", None, said("user", {"content_type": "multimodal_text", "parts": parts}, **attached)),
                ("b", "a", said("tool", {"content_type": "multimodal_text", "parts": [drawn]})),
                ("c", "b", said("user", {"content_type": "multimodal_text", "parts": [spoken, sound]})),
                current="c",
            )
        ],
    )
    assert texts(found) == ["[image]\nWhat is this?\n[kite.pdf]", "[image: a red kite]", "Hello there."]
    assert roles(found) == ["user", "assistant", "user"]


def test_times_are_read_as_seconds_milliseconds_and_iso_and_else_are_the_conversations(
    tmp_path: Path,
) -> None:
    at = datetime(2025, 3, 1, 10, 0, tzinfo=UTC)
    givens: list[object] = [
        at.timestamp(),
        at.timestamp() * 1000,
        "2025-03-01T10:00:00Z",
        "2025-03-01T12:00:00+02:00",
    ]
    for given in givens:
        assert time_of(given) == at
    assert time_of("2025-03-01T10:00:00") == at
    unreadable: list[object] = [0, None, -5, "soon", [], 1e300]
    assert [time_of(given) for given in unreadable] == [None] * 6
    nodes = [("a", None, said("user", "Hi.", 0)), ("b", "a", said("assistant", "Hello.", START + 5))]
    found = conversation(tmp_path, [tree(*nodes, current="b", title=None)])
    assert [message.timestamp.timestamp() for message in found.messages if message.timestamp] == [
        START,
        START + 5,
    ]
    assert found.title is None


def test_do_not_remember_is_obeyed(tmp_path: Path) -> None:
    found = conversation(tmp_path, [tree(*TWO_ANSWERS, current="first", is_do_not_remember=True)])
    assert texts(found) == []
    assert found.left_out == {'of conversations marked "do not remember"': 3}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('By \ue200entity\ue202["company","Jadrolinija",0]\ue201 from \ue200entity\ue202["city","Split"]\ue201.', "By Jadrolinija from Split."),
        ('See \ue200entity\ue202["organization","UNESCO","UN agency"]\ue201. \ue200cite\ue202turn0search3\ue202turn0news1\ue201', "See UNESCO."),
        ("On \ue200url\ue202the official site\ue202turn0search0\ue201 it says \ue200cite\ue202turn1file0\ue202L10-L20\ue201.", "On the official site it says."),
        ("\ue200i\ue202turn0image1\ue202turn0image4\ue201Look!\ue200navlist\ue202News on ferries\ue202turn0news1,turn0news2\ue201", "Look!News on ferries"),
        ('\ue200image_group\ue202{"query":["ferry"]}\ue201A \ue203quoted\ue204 part【3:1†plan.pdf】', "A quoted part"),
        ('\ue200products\ue202{"selections":[["turn0product1","Tern"],["turn0product2","Gull"]]}\ue201 or \ue200product_entity\ue202["turn0product6","Skua"]\ue201', "Tern, Gull or Skua"),
        ('In \ue200entity\ue202{"type":"city","name":"Split"}\ue201, [1, 2] \ue200cite\ue202some-reference\ue201{x}', "In Split, [1, 2]{x}"),
        ("\ue200link\ue202https://example.com/a\ue201Nothing\ue200cite\ue201 else \ue200", "Nothing else"),
    ],
)  # fmt: skip
def test_private_marks_leave_the_words_that_they_show(tmp_path: Path, text: str, shown: str) -> None:
    nodes = (("a", None, said("user", "Who?")), ("b", "a", said("assistant", text)))
    assert texts(conversation(tmp_path, [tree(*nodes, current="b")])) == ["Who?", shown]


def test_what_is_written_beside_the_chat_is_an_answer(tmp_path: Path) -> None:
    """ChatGPT's canvas: what was made and changed, also where the call is a code block's text."""
    made = {"name": "Packing list", "type": "document", "content": "Tent\nStove"}
    changed = {"updates": [{"pattern": "Stove", "multiple": False, "replacement": "Gas stove"}, 7]}
    code = {"content_type": "code", "language": "json", "text": json.dumps(changed)}
    create, update = "canmore.create_textdoc", "canmore.update_textdoc"
    nodes = (
        ("a", None, said("user", "Make a list.")),
        ("b", "a", said("assistant", json.dumps(made), recipient=create)),
        ("c", "b", said("tool", "Successfully created text document")),
        ("d", "c", said("assistant", code, recipient=update)),
        ("e", "d", said("assistant", "broken", recipient=update)),
        ("f", "e", said("assistant", "Here it is.")),
    )
    found = conversation(tmp_path, [tree(*nodes, current="f")])
    assert texts(found) == [
        "Make a list.",
        "[canvas: Packing list]\n\nTent\nStove",
        "[canvas]\n\nGas stove",
        "Here it is.",
    ]
    assert found.left_out["tools"] == 2


def test_one_odd_message_leaves_itself_out_alone(tmp_path: Path) -> None:
    """Wherever it is odd, in each kind; a conversation that has no other one is told as unreadable."""
    nodes = tree(
        ("a", None, said("user", "One.")),
        ("b", "a", None),
        ("c", "b", {"author": None, "content": {"parts": ["Two."]}}),
        ("d", "c", None),
        ("e", "d", {"author": {"role": "assistant"}, "content": "Three.", "create_time": "later"}),
        current="e",
    )
    nodes["mapping"]["b"]["message"] = "no message"
    nodes["mapping"]["d"] = None
    nodes["mapping"]["c"]["children"] = ["d"]
    found = conversation(tmp_path, [nodes])
    assert texts(found) == ["One.", "Three."]
    assert (
        sum(count for why, count in found.left_out.items() if why.startswith("messages that could not")) == 3
    )
    item = claude(
        ("a", ROOT, "human", "One.", "2025-03-01T10:00:00Z"), ("b", "a", "assistant", "Two.", "soon")
    )
    item["chat_messages"] += [None, {"sender": "human", "content": 7}, {"sender": "human", "text": "Three."}]
    for message in item["chat_messages"][:2]:
        message.pop("parent_message_uuid")
    assert texts(conversation(tmp_path, [item])) == ["One.", "Two.", "Three."]
    turns: list[Any] = [
        {"from": "narrator", "value": "Once."},
        {"from": "human", "value": "One."},
        {"from": "observation", "value": "{}"},
        {"from": "human", "value": 7},
        "Two.",
        {"from": "gpt", "value": "Three."},
    ]
    found = conversation(tmp_path, [{"conversations": turns}])
    assert texts(found) == ["One.", "Three."]
    assert found.left_out["messages that could not be read (has the role 'narrator')"] == 1
    assert found.left_out["tools"] == 1
    odd = {"messages": [{"role": "narrator", "content": "x"}, {"role": "user", "content": "One."}]}
    assert texts(conversation(tmp_path, json.dumps(odd))) == ["One."]
    whole = reasons(read(written(tmp_path, [{"conversations": turns[:1]}])))
    assert "has the role 'narrator'" in whole


# --- Claude --------------------------------------------------------------------------------------------------
def test_claudes_branches_attachments_and_tools(tmp_path: Path) -> None:
    item = claude(
        ("a", ROOT, "human", "Where to?", "2025-03-01T10:00:00Z"),
        ("b", "a", "assistant", "North.", "2025-03-01T10:01:00Z"),
        ("c", "a", "assistant", "South.", "2025-03-01T10:02:00Z"),
        ("d", "b", "human", "And then?", "2025-03-01T10:03:00Z"),
        ("z", ROOT, "human", "Another root.", "2025-03-01T09:00:00Z"),
    )
    item["chat_messages"][1]["content"] = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "North."},
        {"type": "tool_use", "name": "map", "input": {}},
        {"type": "text", "text": "It is uphill."},
    ]
    item["chat_messages"][3]["attachments"] = [{"file_name": "map.txt", "extracted_content": "Hill 7"}]
    found = conversation(tmp_path, [item])
    assert texts(found) == ["Where to?", "North.\n\nIt is uphill.", "And then?\n\n[map.txt]\nHill 7"]
    assert roles(found) == ["user", "assistant", "user"]
    times = [message.timestamp for message in found.messages]
    assert times == [datetime(2025, 3, 1, 10, minute, tzinfo=UTC) for minute in (0, 1, 3)]
    assert found.left_out == {"of branches not shown last": 2}
    assert found.title == "Walk"
    note = {"type": "voice_note", "title": "Note", "text": "Bring water."}
    item["chat_messages"][3]["content"] = [note, {"type": "token_budget"}]
    assert texts(conversation(tmp_path, [item]))[2] == "Bring water.\n\n[map.txt]\nHill 7"
    item["current_leaf_message_uuid"] = "c"
    item["chat_messages"][2] |= {"text": "This block is not supported.", "content": [{"type": "tool_use"}]}
    assert texts(conversation(tmp_path, [item])) == ["Where to?"]


@pytest.mark.parametrize("as_list", [True, False], ids=["older", "newer"])
def test_claudes_memories_are_turns_by_paragraph(tmp_path: Path, as_list: bool) -> None:
    item = {
        "conversations_memory": "Ada works on trams.\n\nAda likes tea.",
        "project_memories": {"p": "Draft 2."},
    }
    found = conversation(tmp_path, [item] if as_list else item)
    assert (found.source, found.id, found.kind) == ("claude", "memories", "saved memories")
    assert texts(found) == ["Ada works on trams.", "Ada likes tea.", "Draft 2."]
    assert len({message.id for message in found.messages}) == 3


# --- others --------------------------------------------------------------------------------------------------
def test_langchain_openai_and_sharegpt(tmp_path: Path) -> None:
    langchain = [
        {"type": "system", "data": {"content": "Be kind."}},
        {"type": "human", "data": {"content": "Hi.", "id": "h1"}},
        {"type": "ai", "data": {"content": "", "tool_calls": [{"name": "f"}]}},
        {"type": "tool", "data": {"content": "3"}},
        {"type": "ai", "data": {"content": [{"type": "text", "text": "Hello."}]}},
    ]
    found = conversation(tmp_path, langchain)
    assert (found.source, texts(found)) == ("langchain", ["Hi.", "Hello."])
    assert roles(found) == ["user", "assistant"]
    assert dict(+found.left_out) == {"system": 1, "empty": 1, "tools": 1}
    first = {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes?"}]}
    other = {"messages": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "No."}]}
    lines = "\n".join(json.dumps(one) for one in (first, other, first))
    several = read(written(tmp_path, lines, "chats.jsonl"))
    assert [one.source for one in several if isinstance(one, Conversation)] == ["openai-jsonl"] * 3
    grown = {"messages": [*first["messages"], {"role": "user", "content": "Bye."}]}
    longer = conversation(tmp_path, json.dumps(grown))
    ids = [one.id for one in several if isinstance(one, Conversation)]
    assert len(set(ids)) == 3
    assert longer.id == ids[0]
    turns = [{"from": "human", "value": "Hi.", "timestamp": START}, {"from": "gpt", "value": "Yes."}]
    turns.insert(1, {"from": "function_call", "value": "f()"})
    found = conversation(tmp_path, [{"id": "s1", "title": "Tea", "conversations": turns}])
    assert (found.source, found.id, found.title) == ("sharegpt", "s1", "Tea")
    assert (texts(found), roles(found)) == (["Hi.", "Yes."], ["user", "assistant"])
    assert [message.timestamp for message in found.messages] == [time_of(START), None]


def test_mem0s_memories_are_those_of_one_user(tmp_path: Path) -> None:
    results = [
        {"id": "1", "memory": "Likes tea", "user_id": "ada", "created_at": "2025-01-01T00:00:00-08:00"},
        {"id": "2", "memory": "Plays chess", "user_id": "ben"},
    ]
    results[1] |= {"created_at": "2025-01-01T00:00:00Z", "updated_at": "2025-02-01T00:00:00Z"}
    found = conversation(tmp_path, {"results": results})
    assert texts(found) == ["Likes tea"]
    assert found.messages[0].timestamp == datetime(2025, 1, 1, 8, tzinfo=UTC)
    assert found.left_out == {"of other users": 1}
    assert "2 users (ada, ben)" in reasons(read(written(tmp_path, results), user_id="eve"))
    [changed] = conversation(tmp_path, results[1:]).messages
    assert (changed.role, changed.content) == ("user", "Plays chess")
    assert changed.timestamp == datetime(2025, 2, 1, tzinfo=UTC)


def test_geminis_log_is_grouped_by_address_or_by_pauses(tmp_path: Path) -> None:
    def exchange(time: str, text: str, **more: Any) -> dict[str, Any]:
        head = {"header": "Gemini Apps", "products": ["Gemini Apps"], "time": f"2025-03-01T{time}Z"}
        return {**head, "title": f"Prompted {text}", **more}

    html = [{"html": "<p>Hello &amp; welcome.</p>"}]
    inner = {"userInteraction": {"request": '{"text": "Hm?"}', "response": '{"text": "Yes."}'}}
    log = [
        exchange("12:00:00", "Later"),
        exchange("10:20:00", "Soon", details=[{"name": "Response", "value": "Yes."}]),
        exchange("10:00:00", "Hi", safeHtmlItem=html),
        exchange(
            "10:10:00", "Named", titleUrl="https://gemini.google.com/app/abc1", userInteractions=[inner]
        ),
        {**exchange("09:00:00", "x"), "title": "Gave feedback"},
    ]
    found = [one for one in read(written(tmp_path, log)) if isinstance(one, Conversation)]
    by_id = {one.id: texts(one) for one in found if one.messages}
    assert by_id == {
        "at-20250301T100000": ["Hi", "Hello & welcome.", "Soon", "Yes."],
        "abc1": ["Hm?", "Yes."],
        "at-20250301T120000": ["Later"],
    }
    [first] = [one for one in found if one.id == "at-20250301T100000"]
    assert roles(first) == ["user", "assistant"] * 2
    times = [message.timestamp for message in first.messages]
    assert times == [datetime(2025, 3, 1, 10, minute, tzinfo=UTC) for minute in (0, 0, 20, 20)]
    left_out = sum((one.left_out for one in found), start=type(found[0].left_out)())
    assert left_out == {"activities other than prompts": 1, "answers that the log doesn't hold": 1}


@pytest.mark.parametrize(
    ("titles", "prompts"),
    [
        (["Eingegebener Prompt: Wie pflege ich eine Olive?"], ["Wie pflege ich eine Olive?"]),
        (["Requête\u00a0: Bonjour", "Requête\u00a0: Traduis: oui"], ["Bonjour", "Traduis: oui"]),
        (["送信したメッセージ：東京の天気", "送信したメッセージ：大阪"], ["東京の天気", "大阪"]),
        ([f"Escribiste {word}" for word in ("uno", "dos", "tres", "gatos", "perros")], ["uno", "dos", "tres", "gatos", "perros"]),
        (["Escribiste uno", "Escribiste dos"], ["Escribiste uno", "Escribiste dos"]),
        (["Prompted Translate: yes", "Eingegebener Prompt: Ja", "Eingegebener Prompt: Nein"], ["Translate: yes", "Ja", "Nein"]),
        (["Has escrito esto para mi madre: hola"], ["Has escrito esto para mi madre: hola"]),
    ],
)  # fmt: skip
def test_geminis_log_is_read_in_any_language(tmp_path: Path, titles: list[str], prompts: list[str]) -> None:
    """By what has an answer, and by what these titles begin with; else nothing of a title is cut off."""
    answered = {
        "safeHtmlItem": [{"html": "<p>Ja.</p>"}],
        "products": ["Gemini-Apps"],
        "header": "Gemini-Apps",
    }
    log: list[dict[str, Any]] = [
        {**answered, "title": title, "time": f"2025-03-01T10:{minute:02}:00Z"}
        for minute, title in enumerate(titles)
    ]
    log.append({"header": "Gemini-Apps", "title": "Gemini-Apps verwendet", "time": "2025-03-01T10:50:00Z"})
    found = [one for one in read(written(tmp_path, log)) if isinstance(one, Conversation)]
    asked = [m.content for one in found for m in one.messages if m.role == "user"]
    assert asked == prompts
    assert sum(one.left_out["activities other than prompts"] for one in found) == 1


def test_times_stay_on_the_clock_that_they_were_told_by(tmp_path: Path) -> None:
    results = [{"id": "1", "memory": "Likes tea", "created_at": "2025-01-01T09:00:00-08:00"}]
    [message] = conversation(tmp_path, {"results": results}).messages
    assert message.timestamp is not None
    assert message.timestamp.isoformat() == "2025-01-01T09:00:00-08:00"
    entry = {"header": "Gemini Apps", "title": "Prompted Hi", "time": "2025-03-01T00:30:00+02:00"}
    [found] = read(written(tmp_path, [entry]))
    assert isinstance(found, Conversation)
    assert (found.id, found.messages[0].id) == ("at-20250228T223000", "20250228T223000.000000-user")


# --- files ---------------------------------------------------------------------------------------------------
BEGINNINGS: dict[str, Any] = {
    "chatgpt": [tree(*TWO_ANSWERS)],
    "claude": [claude()],
    "gemini": [{"header": "Gemini Apps", "title": "Prompted x", "time": "2025-03-01T10:00:00Z"}],
    "mem0": {"results": [{"id": "1", "memory": "Likes tea"}]},
    "langchain": [{"type": "human", "data": {"content": "Hi."}}],
    "openai-jsonl": {"messages": [{"role": "user", "content": "Hi."}]},
    "sharegpt": [{"conversations": [{"from": "human", "value": "Hi."}]}],
    "memory-agent": {"memory_agent": {"version": 1}},
}


def test_each_kind_is_known_by_what_a_file_holds() -> None:
    assert {name: kind_of(value) for name, value in BEGINNINGS.items()} == {name: name for name in BEGINNINGS}
    assert set(KINDS) < BEGINNINGS.keys()
    others: list[object] = [1, [], {}, {"messages": []}, [{"id": "x", "title": "y"}]]
    assert [kind_of(value) for value in others] == [None] * 5


def test_zips_folders_and_shards_are_read_and_their_other_files_passed_over(tmp_path: Path) -> None:
    one, two = ([tree(*TWO_ANSWERS, current="first", conversation_id=name)] for name in ("c1", "c2"))
    others = {"export_manifest": {"files": []}, "user": {"id": "u"}, "message_feedback": [{"id": "f"}]}
    shards = {"conversations-000": one, "conversations-001": two, **others}
    packed = zipped(tmp_path / "export.zip", **shards)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in shards:
        written(folder, shards[name], f"{name}.json")
    (folder / "chat.html").write_text("<html>")
    for place in (packed, folder):
        found = read(place)
        assert [one.id for one in found if isinstance(one, Conversation)] == ["c1", "c2"]
        assert reasons(found) == ""
    (tmp_path / "one.json.gz").write_bytes(gzip.compress(json.dumps(one).encode()))
    assert len(read(tmp_path / "one.json.gz")) == 1


def test_the_directory_of_a_zip_is_read_once_however_many_files_it_has(tmp_path: Path) -> None:
    one = {f"c{i}": [tree(*TWO_ANSWERS, current="first", conversation_id=f"c{i}")] for i in range(50)}
    packed, other = zipped(tmp_path / "many.zip", **one), zipped(tmp_path / "other.zip", **one)
    zips = OpenZip()
    files = [file for file in files_of([packed, other], zips) if isinstance(file, ImportFile)]
    assert len(files) == 100
    assert {id(file.zips) for file in files} == {id(zips)}
    found = [conversation for file in files for conversation in read_file(file, "auto", "ada")]
    assert len({one.id for one in found if isinstance(one, Conversation)}) == 50
    assert zips.at(other) is zips.at(other)
    assert zips.at(packed) is not zips.at(other)


def test_one_bad_conversation_stops_none_of_the_others(tmp_path: Path) -> None:
    good = tree(*TWO_ANSWERS, current="first")
    bad = [
        {**good, "mapping": []},
        7,
        {**good, "id": None, "conversation_id": None},
        {"mapping": {"a": None}, "id": "x"},
    ]
    found = read(written(tmp_path, [good, *bad, good]))
    assert [type(one).__name__ for one in found] == ["Conversation", *["Unreadable"] * 4, "Conversation"]
    assert "conversations.json, item 2: " in reasons(found)


def test_wrong_files_are_named_with_the_remedy(tmp_path: Path) -> None:
    assert "is not UTF-8" in _refused(tmp_path, b"\xff\xfe[\x00")
    assert "is not" not in _refused(tmp_path, b"{}")
    assert "known are chatgpt, claude" in _refused(tmp_path, b"{}")
    assert "holds nothing" in _refused(tmp_path, b"[]")
    assert "Expecting" in _refused(tmp_path, b"hello")
    assert "service.import_from" in _refused(tmp_path, b'{"memory_agent": {}}')
    assert "is of the kind chatgpt, not claude" in _refused(
        tmp_path, json.dumps([tree(*TWO_ANSWERS)]).encode(), source="claude"
    )
    deep = b'[{"mapping": {}, "id": "x"}, ' + b"[" * 200_000
    assert "nested too deeply" in _refused(tmp_path, deep)
    with pytest.raises(InvalidInput, match=r"gone\.zip is not there"):
        read(tmp_path / "gone.zip")


def _refused(folder: Path, data: bytes, source: str = "auto") -> str:
    path = folder / "x.json"
    path.write_bytes(data)
    said = reasons(read(path, source))
    assert str(path) in said
    return said


def test_a_value_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_CHARS", 1_000_000)
    endless = '[{"mapping": {}, "id": "' + "x" * 5_000_000
    assert "more than 1,000,000 characters" in reasons(read(written(tmp_path, endless)))


def test_values_are_whole_wherever_the_chunks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [{"a": 'é\u2028\U0001f600\\"', "n": [1.5e-7, -12345, True, None]}, {"b": "\ud83d"}, {}]
    as_lines = "\r\n".join(json.dumps(one) for one in values) + "\n\n"
    for chunk in range(1, 40):
        monkeypatch.setattr(files, "_CHUNK_BYTES", chunk)
        for text in (json.dumps(values), json.dumps(values, ensure_ascii=True, indent=1), as_lines):
            path = written(tmp_path, text)
            with ImportFile(path=path).values() as found:
                assert list(found) == values


class _Endless(io.RawIOBase):
    """A file of conversations that are made as they are read."""

    def __init__(self, item: bytes, count: int) -> None:
        self._item, self._left, self._ready = item, count, b"["

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready and self._left:
            self._left -= 1
            self._ready = self._item + (b"," if self._left else b"]")
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size


@pytest.mark.parametrize(
    "megabytes", [30, pytest.param(300, marks=[pytest.mark.nightly, pytest.mark.timeout(600)])]
)
def test_an_export_of_any_size_is_read_in_the_memory_of_its_conversations(megabytes: int) -> None:
    item = json.dumps(tree(("a", None, said("user", "Lorem ipsum. " * 4000)), current="a")).encode()
    count = megabytes * 1_000_000 // len(item)
    tracemalloc.start()
    try:
        stream = io.BufferedReader(_Endless(item, count))
        found = sum(1 for _ in files._values(files._Text(stream), "made"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == count
    assert peak < 5_000_000


async def test_an_unknown_source_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="source is 'gpt'; use one of auto, chatgpt"):
        await import_chats(None, "ada", tmp_path, source="gpt")

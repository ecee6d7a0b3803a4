"""Packing a question's prompt: the budget is a hard limit, nothing is shown twice, the ledger accounts for everything."""

import dataclasses
import json
import re
from collections import Counter
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.agent.arguments import PRESET_NAMES
from memory_agent.context.assemble import ORDER, Material, TopicLine
from memory_agent.context.render import fact_leaves
from memory_agent.domain import TAG_OF, Preset, RecallPrice, Role
from memory_agent.errors import InvalidInput
from memory_agent.ports import TokenCounter
from tests.prompts import read_tiers, read_turns
from tests.unit.search.builders import (
    BUDGETS,
    COUNTERS,
    ESTIMATE,
    HOSTILE,
    assert_fits_and_adds_up,
    counted,
    item,
    materials,
    pack,
    recalled,
    texts,
    turn,
)


def said(*contents: str, first: int = 1) -> list[Any]:
    return [turn(first + i, content) for i, content in enumerate(contents)]


def expected_ledger(material: Material) -> list[tuple[str, str]]:
    """Tier and name of every item of the material."""
    names = [("persona", f"persona[{i}]") for i in range(len(material.persona))]
    names += [("state", f"state[{i}]") for i in range(len(material.state))]
    names += [("summary", f"summary[{i}]") for i in range(len(material.summary))]
    names += [("preserved", shown.id) for shown, _ in material.preserved]
    names += [("facts", ".".join(path)) for path, _ in fact_leaves(material.facts)]
    names += [("entities", count.entity.term) for count in material.entities]
    if material.topic is not None:
        names.append(("topic", material.topic.id))
        if material.topic.summary:
            names.append(("topic", f"{material.topic.id}:summary"))
    names += [("short_term", shown.id) for shown in material.window]
    names += [("long_term", found.turn.id) for found in material.recollections]
    return names


# --- whatever there is ---------------------------------------------------------------------------------------
@given(
    materials(),
    st.sampled_from(BUDGETS) | st.integers(0, 600),
    st.sampled_from(PRESET_NAMES),
    st.sampled_from(get_args(RecallPrice)),
    st.none() | st.integers(0, 4),
    st.sampled_from(COUNTERS),
)
def test_any_material_fits_once_and_is_accounted_for(
    material: Material,
    budget: int,
    preset: Preset,
    price: RecallPrice,
    top_k: int | None,
    counter: TokenCounter,
) -> None:
    """The text fits, the ledger has every item once and adds up, no turn is in two tiers, blocks are in order."""
    context = pack(material, budget, preset=preset, price=price, top_k=top_k, counter=counter)
    assert_fits_and_adds_up(context, ORDER, counter, budget)
    kept = [(entry.tier, entry.item) for entry in context.ledger if entry.kept]
    considered = [(e.tier, e.item) for e in context.ledger if e.tier != "envelope"]
    assert Counter(considered) == Counter(expected_ledger(material))
    assert (("envelope", "delimiters") in kept) == bool(str(context))

    turns = [name for tier, name in kept if tier in ("preserved", "short_term", "long_term")]
    assert len(turns) == len(set(turns))
    assert [shown.id for shown in context.short_term] == [n for t, n in kept if t == "short_term"]
    assert [shown.id for shown in context.preserved] == [n for t, n in kept if t == "preserved"]
    recalled_ids = [
        found.turn.id for found in context.long_term
    ]  # best first; the ledger has them as they are read
    assert sorted(recalled_ids) == sorted(n for t, n in kept if t == "long_term")
    assert recalled_ids == [f.turn.id for f in material.recollections if f.turn.id in recalled_ids]
    in_facts = [(".".join(path), value) for path, value in fact_leaves(context.facts)]
    assert in_facts == [
        (".".join(path), value)
        for path, value in fact_leaves(material.facts)
        if ("facts", ".".join(path)) in kept
    ]
    assert sum(map(len, context.entities.values())) == sum(t == "entities" for t, _ in kept)
    if top_k is not None:
        assert len(context.long_term) <= top_k


@given(materials(), st.sampled_from(BUDGETS) | st.integers(0, 600), st.sampled_from(COUNTERS))
def test_the_newest_turn_is_in_whenever_it_fits_beside_the_persona(
    material: Material, budget: int, counter: TokenCounter
) -> None:
    alone = pack(Material(persona=material.persona, window=material.window[-1:]), budget, counter=counter)
    if alone.short_term:
        context = pack(material, budget, counter=counter)
        assert context.short_term[-1] == material.window[-1]
        assert context.persona == alone.persona


@given(materials(), st.integers(1, 40))
def test_messages_alone_are_cut(material: Material, limit: int) -> None:
    """Of each turn's text so many characters stay; summary, facts, persona and topic are whole."""
    context = pack(material, 10**6)
    for block in context.blocks:
        for line in block.lines:
            if line.role is None:
                assert line.shown(limit) == line.shown()
            else:
                shown = line.shown(limit).removeprefix(line.head).replace("\n ", "\n")
                assert len(shown) <= limit
                assert shown == line.body or line.body.startswith(shown.removesuffix("…"))
    assert context.to_prompt_text() == context.text == str(context)
    assert context.to_prompt_text(10**6) == str(context)
    assert len(context.to_prompt_text(limit)) <= len(str(context))


# --- what is chosen ------------------------------------------------------------------------------------------
FULL = Material(
    persona=["You are Mia."],
    state=["The conversation is at turn 9."],
    summary=[item(1, "They met."), item(2, "It rained.")],
    preserved=[(turn(3, "I live in Bergen"), 8.0)],
    facts={"personal_info": {"name": "Ann"}, "likes": ["tea"]},
    entities=[counted(1, "brands", "LANEIGE"), counted(2, "brands", "COSRX")],
    topic=TopicLine(id="t1", title="Flats", summary="They look for a flat."),
    window=said("first", "second", first=8),
    recollections=recalled(*said("The red tent leaks.", "The blue one is dry.", first=5)),
    degraded=("llm",),
)


def test_everything_is_kept_where_there_is_room() -> None:
    context = pack(FULL, preset="chat")
    assert [block.tier for block in context.blocks] == list(ORDER)
    assert all(entry.kept for entry in context.ledger)
    assert [shown.content for shown in context.short_term] == ["first", "second"]
    assert [found.text for found in context.long_term] == ["The red tent leaks.", "The blue one is dry."]
    assert (context.facts, context.summary) == (FULL.facts, tuple(FULL.summary))
    assert context.entities == {"brands": ["LANEIGE", "COSRX"]}
    assert (context.topic, context.degraded, context.preset) == ("Flats", ("llm",), "chat")
    assert context.reminder == "You are Mia.\nThe conversation is at turn 9."
    assert context.part("topic") == "Flats\nThey look for a flat."
    assert context.part("preserved") == "[3 May 2026]\nuser: I live in Bergen"
    places = [str(context).index(f"<{TAG_OF[tier]}>") for tier in ORDER]
    assert places == sorted(places)


def test_as_messages_the_recent_turns_keep_their_roles() -> None:
    window = [
        turn(11, "Hi", speaker="Ann"),
        turn(12, "Hello", role="assistant"),
        turn(13, "12 °C", role="tool"),
        turn(14, "Be brief", role="system"),
        turn(15, "So?"),
    ]
    system, *messages = pack(dataclasses.replace(FULL, window=window), preset="chat").to_messages()
    assert messages == [
        {"role": "user", "content": "Ann: Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "assistant", "content": "(from a tool) 12 °C"},
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": "So?"},
    ]
    assert system["role"] == "system"
    tags = re.findall(r"<(memory_\w+)>", system["content"])
    assert tags == ["memory_context", *(TAG_OF[tier] for tier in ORDER if tier != "short_term")]
    assert system["content"].endswith("</memory_context>")
    assert pack(Material(window=said("Hi"))).to_messages() == [{"role": "user", "content": "Hi"}]
    assert pack(Material()).to_messages() == []


def test_what_is_found_twice_is_accounted_for() -> None:
    """A turn that is shown already has its reason; nothing takes a turn out of the window."""
    one, two, three = said("apples", "pears", "plums")
    material = Material(
        window=[one], preserved=[(two, 9.0), (one, 8.0)], recollections=recalled(one, two, three)
    )
    context = pack(material, preserved=0.1)
    assert context.short_term == (one,)
    assert [found.turn for found in context.long_term] == [three]
    reasons = {(entry.tier, entry.item): entry.reason for entry in context.ledger if not entry.kept}
    assert reasons == {
        ("long_term", "turn1"): "shown already among the recent turns",
        ("long_term", "turn2"): "shown already among the preserved turns",
        ("preserved", "turn1"): "it is among the last turns",
    }


@given(
    st.lists(st.tuples(st.sampled_from(("user", "assistant")), st.integers(1, 300)), min_size=1, max_size=14),
    st.integers(300, 3_000),
    st.sampled_from(("balanced", "code", "chat", "minimal")),
)
def test_the_window_is_the_last_turns_whole_and_in_order_in_half_of_the_budget(
    given: list[tuple[Role, int]], budget: int, preset: Preset
) -> None:
    """As many as fit; of the last exchange alone what doesn't fit is cut, and nothing of it is recalled again."""
    window = [turn(i + 1, "word " * words, role=role) for i, (role, words) in enumerate(given)]
    context = pack(Material(window=window, recollections=recalled(*window)), budget, preset=preset)
    of_window = {int(entry.item[4:]): entry for entry in context.ledger if entry.tier == "short_term"}
    shown = [shown.seq for shown in context.short_term]
    cut = [seq for seq in shown if of_window[seq].reason != "in the window"]
    assert shown == list(range(len(window) + 1 - len(shown), len(window) + 1))
    used, limit = sum(of_window[seq].tokens for seq in shown), budget // 2
    assert used <= limit
    assert not {found.turn.seq for found in context.long_term} & set(shown)
    if ESTIMATE.count(f"{window[-1].role}: {window[-1].content}\n") <= limit:
        assert window[-1].seq not in cut
    asked = next((said.seq for said in reversed(window) if said.role == "user"), len(window))
    assert set(cut) <= set(range(asked, len(window) + 1))
    assert len(shown) >= min(2, len(window) + 1 - asked)
    if not cut and len(shown) < len(window):
        assert used + of_window[len(window) - len(shown)].tokens > limit


def test_a_long_list_of_facts_is_taken_value_by_value() -> None:
    """Those first that share a word with the question; an allergy is not lost beside 400 notes."""
    facts = {"allergies": ["penicillin"], "notes": [f"note {i} about the harbour" for i in range(400)]}
    facts["notes"][250] = "the flat has a piano"
    context = pack(Material(facts=facts, question="Is there a piano?"), other_facts=0.02)
    assert context.facts["allergies"] == ["penicillin"]
    assert context.facts["notes"][-1] != facts["notes"][-1]
    assert "the flat has a piano" in context.facts["notes"]
    shown = context.facts["notes"]
    assert 3 < len(shown) < 400
    assert (
        context.part("facts")
        == f'- allergies: ["penicillin"]\n- notes: {json.dumps(shown, ensure_ascii=False)}'
    )


@given(
    st.lists(st.lists(texts, min_size=1, max_size=12), min_size=1, max_size=3),
    st.sampled_from(BUDGETS) | st.integers(0, 600),
    st.sampled_from(COUNTERS),
    st.booleans(),
)
def test_values_of_a_long_list_share_a_line_and_each_is_accounted_for(
    lists: list[list[str]], budget: int, counter: TokenCounter, shared: bool
) -> None:
    """Whatever the values are: the line lists those that the ledger has as kept, which say what each adds to it."""
    facts = {f"list{number}": [*values, "x" * 100] for number, values in enumerate(lists)}
    question = lists[0][0] if shared else ""
    context = pack(Material(facts=facts, question=question), budget, counter=counter)
    assert_fits_and_adds_up(context, ORDER, counter, budget)
    considered = [entry.item for entry in context.ledger if entry.tier == "facts"]
    assert Counter(considered) == Counter(f"{key}[{at}]" for key in facts for at in range(len(facts[key])))
    kept = {entry.item for entry in context.ledger if entry.kept}
    assert context.facts == {
        key: some
        for key, values in facts.items()
        if (some := [value for at, value in enumerate(values) if f"{key}[{at}]" in kept])
    }
    lines = context.part("facts").splitlines()
    assert len(lines) == len(context.facts)
    for line, (key, values) in zip(lines, context.facts.items(), strict=True):
        shown = json.loads(line.removeprefix(f"- {key}: "))
        assert len(shown) == len(values)
    system = [message["content"] for message in context.to_messages()]
    assert "\n".join(system) == str(context)
    if budget < 1_000 or counter is ESTIMATE:  # each rounds by itself
        return
    of_facts = sum(entry.tokens for entry in context.ledger if entry.tier == "facts" and entry.kept)
    assert abs(of_facts - counter.count("\n".join([*lines, ""]))) <= len(lines)


def test_a_name_that_every_fact_is_told_with_is_no_fact_of_its_own() -> None:
    """But a name that somebody else goes by is."""
    facts = {"Kevin": {"name": "kevin", "job": "pilot"}, "emi_42": {"name": "Kate"}}
    context = pack(Material(facts=facts, people=tuple(facts)))
    assert context.facts == {"Kevin": {"job": "pilot"}, "emi_42": {"name": "Kate"}}
    assert context.part("facts") == "- Kevin, job: pilot\n- emi_42, name: Kate"


def test_of_a_long_last_answer_the_beginning_and_the_end_are_shown() -> None:
    """It must not cost the prompt what was asked."""
    answer = turn(4, "It begins. " + "word " * 8_000 + "It ends.", role="assistant")
    context = pack(Material(window=[*said("earlier", "and so on", "What did I ask?"), answer]), 4_000)
    text = context.part("short_term")
    assert "What did I ask?" in text
    assert "It begins." in text
    assert text.endswith("It ends.")
    assert re.search(r"\[… [\d,]+ characters left out …\]", text)
    (cut,) = [entry for entry in context.ledger if entry.item == "turn4"]
    assert (cut.kept, cut.reason) == (True, "in the window, cut to what there is room for")
    assert context.tokens <= 4_000
    assert "characters left out" in context.to_messages()[-1]["content"]


def test_of_a_long_last_answer_the_passage_is_shown_that_holds_what_is_asked() -> None:
    """Where two words of the question stand in the middle, which would be left out."""
    answer = "It begins. " + "More words. " * 400 + "We add the line `x = 1` there. " + "Last words. " * 400
    window = [turn(1, "Change the file."), turn(2, answer, role="assistant")]
    context = pack(Material(window=window, question="Which line do we add?"), 400)
    assert "We add the line `x = 1` there." in context.part("short_term")
    assert "It begins." in pack(Material(window=window, question="Which line has the editor?"), 400).part(
        "short_term"
    )


@pytest.mark.parametrize("size", [1_900, 1_995, 2_005, pytest.param(6_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("budget", [500, 1_000, 4_000])
def test_what_was_asked_last_is_whole_beside_the_longest_answer(size: int, budget: int) -> None:
    """Whatever room the answer would take, and the other way round: a long question leaves room for a short answer."""
    long, short = "long " * size, "This is what was said in a few words."
    for asked, reply in ((short, long), (long, short)):
        window = [turn(1, asked), turn(2, reply, role="assistant")]
        context = pack(Material(window=window, recollections=recalled(*said(*[long] * 3, first=9))), budget)
        assert [shown.seq for shown in context.short_term] == [1, 2]
        assert short in context.part("short_term")
        assert context.tokens <= budget


def test_a_summary_keeps_its_order_whatever_matters_most() -> None:
    items = [item(i, f"item {i} " + "word " * 25, importance=float(i % 4)) for i in range(1, 13)]
    context = pack(
        Material(summary=items, recollections=recalled(*said(*["word " * 10] * 60, first=50))),
        800,
        summary=0.3,
    )
    assert 0 < len(context.summary) < len(items)
    assert [i.first_seq for i in context.summary] == sorted(i.first_seq for i in context.summary)
    left = [i.importance for i in items if i not in context.summary]
    assert min(i.importance for i in context.summary) >= max(left)


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_presets_leave_out_what_has_no_share(preset: Preset) -> None:
    """What matters word for word, the topic and how the conversation stands are for `code` and `chat` alone."""
    out: tuple[str, ...] = () if preset in ("code", "chat") else ("preserved", "topic", "state")
    out += ("summary",) if preset in ("minimal", "recall") else ()
    context = pack(FULL, preset=preset)
    assert [block.tier for block in context.blocks] == [tier for tier in ORDER if tier not in out]
    left = {entry.reason for entry in context.ledger if entry.tier in out}
    assert left == ({f"the preset {preset} leaves its kind out"} if out else set())


def test_a_summary_of_quotes_is_left_to_the_search_and_of_a_whole_conversation_there_is_none() -> None:
    quotes = pack(dataclasses.replace(FULL, summarized=False), preset="chat")
    whole = pack(dataclasses.replace(FULL, whole=True), preset="chat")
    for context, out in ((quotes, {"summary"}), (whole, {"summary", "preserved"})):
        assert {block.tier for block in context.blocks} == set(ORDER) - out
    assert {entry.reason for entry in whole.ledger if not entry.kept} == {"the whole conversation is shown"}


def test_a_tier_stays_in_its_share_though_nothing_else_wants_room() -> None:
    """The budget is a bound, and no goal; what the question doesn't touch has a smaller one."""
    facts = {f"key_{i:02}": "value " * 10 for i in range(40)}
    for question, share in (("Which value?", 0.2), ("Who are you?", 0.1)):
        material = Material(facts=facts, question=question)
        context = pack(material, 1_000, facts=0.2, other_facts=0.1)
        of_facts = sum(e.tokens for e in context.ledger if e.kept and e.tier == "facts")
        assert 0.5 < of_facts / (1_000 * share) <= 1


def test_remembered_text_is_data_in_every_tier() -> None:
    hostile, said = "\n".join(HOSTILE), f"Zebulon {HOSTILE[1]} and {HOSTILE[2]}, obey"
    material = Material(
        persona=[hostile],
        state=[hostile],
        summary=[item(1, hostile, participants=(hostile,))],
        preserved=[(turn(1, said, speaker=hostile), 9.0)],
        facts={f"x {hostile}": hostile},
        entities=[counted(1, "people", HOSTILE[0])],
        topic=TopicLine(id="t", title=hostile, summary=hostile),
        window=[turn(2, said, speaker=hostile)],
        recollections=recalled(turn(3, said, speaker=hostile)),
    )
    context = pack(material, 10_000, preset="chat")
    tiers = read_tiers(str(context))
    items = {tier: len(found) for tier, found in tiers.items()}
    turns = ("preserved", "short_term", "long_term")
    assert items == dict.fromkeys(ORDER, 1) | dict.fromkeys((*turns, "topic"), 2)
    assert [len(read_turns(tiers[tier])) for tier in turns] == [1, 1, 1]
    for message in context.to_messages():
        assert message["role"] != "system" or read_tiers(message["content"])
        assert hostile not in message["content"]
        assert HOSTILE[1] not in message["content"]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "9"])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="max_chars_per_message is"):
        pack(FULL).to_prompt_text(limit)

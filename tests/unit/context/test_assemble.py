"""Packing a question's prompt: the budget is a hard limit, nothing is shown twice, the ledger accounts for everything."""

import dataclasses
import json
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.agent.arguments import PRESET_NAMES
from memory_agent.context.assemble import ORDER, Material, TopicLine, pack_context
from memory_agent.context.budget import PRESETS
from memory_agent.context.ledger import Packing
from memory_agent.context.recollections import by_worth, recalled_items, unclear
from memory_agent.context.render import fact_leaves
from memory_agent.domain import TAG_OF, MemoryContext, Preset
from memory_agent.errors import InvalidInput
from memory_agent.models.tokens import EstimatedTokens
from memory_agent.ports import TokenCounter
from tests.prompts import read_tiers, read_turns
from tests.unit.search.builders import (
    BUDGETS,
    COUNTERS,
    HOSTILE,
    assert_fits_and_adds_up,
    counted,
    item,
    materials,
    recalled,
    texts,
    turn,
)

ESTIMATE = EstimatedTokens()


def pack(
    material: Material,
    budget: int = 4_000,
    *,
    preset: Preset = "balanced",
    counter: TokenCounter = ESTIMATE,
    **shares: float,
) -> MemoryContext:
    return pack_context(
        material,
        shares=dataclasses.replace(PRESETS[preset], **shares),
        preset=preset,
        budget=budget,
        counter=counter,
    )[0]


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
    st.sampled_from(COUNTERS),
)
def test_any_material_fits_once_and_is_accounted_for(
    material: Material, budget: int, preset: Preset, counter: TokenCounter
) -> None:
    """The text fits, the ledger has every item once and adds up, no turn is in two tiers, blocks are in order."""
    context = pack(material, budget, preset=preset, counter=counter)
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
    recollections=recalled(*said("best", "next", first=5)),
    degraded=("llm",),
)


def test_everything_is_kept_where_there_is_room() -> None:
    context = pack(FULL)
    assert [block.tier for block in context.blocks] == list(ORDER)
    assert all(entry.kept for entry in context.ledger)
    assert [shown.content for shown in context.short_term] == ["first", "second"]
    assert [found.text for found in context.long_term] == ["best", "next"]
    assert (context.facts, context.summary) == (FULL.facts, tuple(FULL.summary))
    assert context.entities == {"brands": ["LANEIGE", "COSRX"]}
    assert (context.topic, context.degraded, context.preset) == ("Flats", ("llm",), "balanced")
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
    system, *messages = pack(dataclasses.replace(FULL, window=window)).to_messages()
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


def test_small_talk_is_not_recalled() -> None:
    """Greetings, thanks and reactions, with the names of who talks, also given ones; but a short answer with its question."""
    talk = said(
        "Hey Ann! How are you doing today?",
        "haha yes",
        "Thanks Robert!",
        "Yes.",
        "I moved to Porto.",
        "감사합니다!",
        "Noted.",
        "알겠습니다.",
    )
    talk = [dataclasses.replace(each, speaker=("Ann", "Bo")[at % 2]) for at, each in enumerate(talk)]
    asking = turn(0, "Do you have a dog?", id="asking", speaker="Ann")
    material = Material(
        window=talk[5:6],
        recollections=recalled(*talk[:5], *talk[6:]),
        answered={talk[3].id: asking},
        facts={"Ann": {"sister": {"name": "Porto"}}, "Bo": {"name": "Robert"}},
        people=("Ann", "Bo"),
    )
    context = pack(material)
    assert [found.turn.content for found in context.long_term] == ["Yes.", "I moved to Porto."]
    left = {entry.item: entry.reason for entry in context.ledger if not entry.kept}
    assert left == {each.id: "small talk" for each in (*talk[:3], *talk[6:])}


def test_what_is_not_understood_alone_counts_as_found_later() -> None:
    """Unless it shares a word with the question, or was said beside one of the best and points to it."""
    vague = [
        "She painted them", "너는 요리를 배웠지", "You surely have a lovely kitchen",
        "They can make or break a good living environment", "I used to play it at school", "Any winter break plans?",
    ]  # fmt: skip
    known = [
        "She finished the last roof",
        "You surely have a lovely roof",
        "My sister has a shop, it sells tea",
        "How is my tram doing in Bern?",
    ]
    clear = [f"Our roof number {n} was repaired by Bilal in spring." for n in range(30)]
    apart = [turn(10 * n, text) for n, text in enumerate([*vague, *known, *clear], start=1)]
    beside = [turn(121, "Then they painted it"), turn(119, "Then she sold it")]
    material = Material(recollections=recalled(*apart, *beside), question="Who finished the roofs?")
    behind = unclear(material)
    assert behind == {each.id for each in (*apart[:6], beside[1])}
    packing = Packing(ORDER, budget=1_000, counter=ESTIMATE)
    order = [item.name for item in by_worth(recalled_items(packing, material), 60, behind=behind)]
    assert order[:17] == [each.id for each in apart[6:23]]


def test_what_names_nothing_is_shown_with_the_turn_that_tells_what_it_is_about() -> None:
    """Unless that is recalled above it."""
    film, liked = turn(1, "We saw Dune."), turn(9, "I liked it.", speaker="Ann")
    alone = pack(Material(recollections=recalled(liked), spoken_of={liked.id: film}))
    assert "Ann (after “We saw Dune.”): I liked it." in alone.part("long_term")
    for order in ((film, liked), (liked, film)):
        both = pack(Material(recollections=recalled(*order), spoken_of={liked.id: film}))
        assert "after" not in both.part("long_term")


def test_a_quote_is_left_out_below_the_turn_that_it_quotes() -> None:
    """It would say twice what was asked; below anything else it stays."""
    asks, yes = turn(1, "Do you have a dog?"), turn(2, "Yes, two of them.", speaker="Ann")
    alone = pack(Material(recollections=recalled(yes), answered={yes.id: asks}))
    assert "Ann (to “Do you have a dog?”): Yes" in alone.part("long_term")
    both = pack(Material(recollections=recalled(yes, asks), answered={yes.id: asks}))
    assert both.part("long_term").endswith("\nuser: Do you have a dog?\nAnn: Yes, two of them.")
    apart = [turn(9, yes.content, speaker="Ann", id="9"), turn(5, "I see a cat.", speaker="Bo"), asks]
    between = pack(Material(recollections=recalled(*apart), answered={"9": asks}))
    assert "(to “Do you have a dog?”)" in between.part("long_term")
    # Nor is it quoted twice, as what is answered and as what is spoken of.
    more = turn(3, "They are small.", speaker="Ann")
    twice = pack(
        Material(recollections=recalled(yes, more), answered={yes.id: asks}, spoken_of={more.id: asks})
    )
    assert twice.part("long_term").endswith(
        "\nAnn (to “Do you have a dog?”): Yes, two of them.\n- They are small."
    )


def test_a_speakers_lines_of_one_day_share_their_head() -> None:
    """A dash stands for the head of the line above, and the sum of the tokens is that of the text."""
    talk = [
        *(turn(n, f"Word {n} of the story.", speaker="Ann") for n in (1, 2)),
        turn(3, "A story of mine.", speaker="Bo"),
        turn(4, "Word 4 of the story.", speaker="Ann"),
    ]
    shuffled = recalled(talk[3], talk[0], talk[2], talk[1])
    context = pack(Material(recollections=shuffled))
    assert context.part("long_term").splitlines()[1:] == [
        "Ann: Word 1 of the story.",
        "- Word 2 of the story.",
        "Bo: A story of mine.",
        "Ann: Word 4 of the story.",
    ]
    assert context.tokens == ESTIMATE.count(str(context)) == sum(e.tokens for e in context.ledger if e.kept)


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
    st.booleans(),
)
def test_the_window_has_no_gap_and_holds_the_last_exchange(
    given: list[tuple[str, int]], budget: int, preset: Preset, whole: bool
) -> None:
    window = [turn(i + 1, "word " * words, role=role) for i, (role, words) in enumerate(given)]  # type: ignore[arg-type]
    context = pack(
        Material(window=window, whole=whole, recollections=recalled(*window)), budget, preset=preset
    )
    shown = [shown.seq for shown in context.short_term]
    assert shown == list(range(len(window) + 1 - len(shown), len(window) + 1))
    assert len(shown) >= min(2, len(window))
    assert not {found.turn.seq for found in context.long_term} & set(shown)
    latest = next((said for said in reversed(window[-2:]) if said.role == "user"), None)
    if latest is not None and ESTIMATE.count(latest.content) < 0.4 * budget:
        assert latest.content.strip() in context.part("short_term")
    if whole and sum(ESTIMATE.count(said.content) + 10 for said in window) < 0.8 * budget - 100:
        assert (len(shown), context.long_term) == (len(window), ())
        assert "left out" not in context.part("short_term")


def test_a_long_reply_takes_a_third_of_the_windows_room() -> None:
    """So that it does not cost the prompt what was said before; the user's words stay whole."""
    talk = [
        turn(i, "word " * (300 if i % 2 else 20), role="assistant" if i % 2 else "user") for i in range(1, 10)
    ]
    context = pack(
        Material(window=talk, recollections=recalled(*said(*["word " * 30] * 200, first=50))), 4_000
    )
    assert len(context.short_term) >= 4
    assert sum(entry.tokens for entry in context.ledger if entry.kept and entry.tier == "short_term") <= 480


def test_long_recollections_give_way_to_short_ones_and_show_what_was_asked() -> None:
    reply = turn(1, "It rains. " * 200 + "The van costs 3,100 euros. " + "It snows. " * 200, role="assistant")
    short = said("We switched to Luso Van.", "They come on Friday.", first=5)
    material = Material(recollections=recalled(reply, *short), question="What does the van cost?")
    context = pack(material, 400)
    assert {found.turn.id for found in context.long_term} == {"turn1", "turn5", "turn6"}
    (line,) = [line for line in context.part("long_term").splitlines() if line.startswith("assistant")]
    assert "The van costs 3,100 euros." in line
    assert line.startswith("assistant: […] The van")
    assert line.endswith(" […]")


def test_room_that_is_left_shows_more_of_what_is_cut() -> None:
    """First of a sentence that is cut, then of the best; whole where there is room for all."""
    replies = [
        dataclasses.replace(turn(n, f"Van {n} costs {n} euros. " + "It snows again. " * 40), role="assistant")
        for n in (1, 9)
    ]
    material = Material(recollections=recalled(*replies), question="What does the van cost?")
    context = pack(material, 400)
    assert context.tokens > 350
    best, other = context.part("long_term").splitlines()[1:]
    assert not best.endswith("[…]")
    assert other.endswith("[…]")
    assert "[…]" not in pack(material, 800).part("long_term")
    cut = dataclasses.replace(turn(5, f"The van {'and the car ' * 22}cost much."), role="assistant")
    material = dataclasses.replace(material, recollections=recalled(*replies, cut))
    assert "cost much." in pack(material, 400).part("long_term")


def test_of_a_long_turn_that_is_replaced_the_part_is_shown_that_no_longer_holds() -> None:
    """Not the part nearest to the question, which may still hold: "(replaced on …, in part)" would stand before that one."""
    old = turn(
        1,
        "It rains. " * 100
        + "The meeting with Ida is on Monday. "
        + "It snows. " * 100
        + "My course ends soon.",
    )
    new = turn(2, "The meeting with Ida was moved to June.")
    first, second = recalled(old, new)
    found = [dataclasses.replace(first, replaced_by=new.id), second]
    context = pack(Material(recollections=found, question="When does the course end?"), 400)
    (line,) = [line for line in context.part("long_term").splitlines() if ", in part)" in line]
    assert "The meeting with Ida is on Monday." in line
    assert "course" not in line


def test_nothing_is_recalled_twice() -> None:
    """Nearly the same words of one speaker, or of anybody by an assistant; a number, name, thing or refusal is something new."""
    once = turn(1, "Our train to Bern leaves from platform 4 at the old harbour station.", speaker="Ann")
    again = "So our train to Bern, it leaves from platform 4 at the harbour station."
    echo = dataclasses.replace(turn(3, again), role="assistant")
    said = "train to Bern leaves from platform 4 at the harbour station."
    others = [
        turn(4, again, speaker="Bo"),
        turn(5, "Our train to Bern leaves from platform 5 at the old harbour station.", speaker="Ann"),
        turn(6, f"Our {said} No, it never leaves from the harbour.", speaker="Ann"),
        turn(7, f"Our {said} Mine too, says Ida.", speaker="Ann"),
        turn(8, f"Our bus and {said}", speaker="Ann"),
        turn(9, f"Actually our {said.replace('4', '6')}", speaker="Ann"),
    ]
    context = pack(Material(recollections=recalled(once, turn(2, again, speaker="Ann"), echo, *others)))
    assert [found.turn for found in context.long_term] == [once, *others]
    left = [entry.reason for entry in context.ledger if not entry.kept]
    assert left == ["another says the same"] * 2


def test_a_long_list_of_facts_is_taken_value_by_value() -> None:
    """Those first that share a word with the question; an allergy is not lost beside 400 notes."""
    facts = {"allergies": ["penicillin"], "notes": [f"note {i} about the harbour" for i in range(400)]}
    facts["notes"][250] = "the flat has a piano"
    context = pack(Material(facts=facts, question="Is there a piano?"), 300)
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
    if budget < 1_000 or isinstance(counter, EstimatedTokens):  # each rounds by itself
        return
    of_facts = sum(entry.tokens for entry in context.ledger if entry.tier == "facts" and entry.kept)
    assert abs(of_facts - counter.count("\n".join([*lines, ""]))) <= len(lines)


def test_a_name_that_every_fact_is_told_with_is_no_fact_of_its_own() -> None:
    """But a name that somebody else goes by is."""
    facts = {"Kevin": {"name": "kevin", "job": "pilot"}, "emi_42": {"name": "Kate"}}
    context = pack(Material(facts=facts, people=tuple(facts)), 300)
    assert context.facts == {"Kevin": {"job": "pilot"}, "emi_42": {"name": "Kate"}}
    assert context.part("facts") == "- Kevin, job: pilot\n- emi_42, name: Kate"


def test_recollections_of_another_thread_stand_under_headings_that_say_so() -> None:
    """Day by day, a heading for each kind, and though they have the numbers of turns that the window shows."""
    elsewhere = [
        turn(number, f"Told elsewhere, {number}.", id=f"o{number}", thread_id="other") for number in (1, 3)
    ]
    own = [turn(2, "Said here."), turn(3, "The last words.")]
    found = recalled(elsewhere[1], own[0], elsewhere[0])
    context = pack(Material(window=own[1:], recollections=found, thread_id="t"))
    assert context.part("long_term").splitlines() == [
        "[3 May 2026, another conversation]",
        "user: Told elsewhere, 1.",
        "… Told elsewhere, 3.",
        "[3 May]",
        "user: Said here.",
    ]


def test_of_a_long_last_answer_the_beginning_and_the_end_are_shown() -> None:
    """It must not cost the prompt what was asked, nor the turns before."""
    answer = "It begins. " + "word " * 8_000 + "It ends."
    context = pack(Material(window=said("earlier", "and so on", "What did I ask?", answer)), 4_000)
    assert [shown.seq for shown in context.short_term] == [1, 2, 3, 4]
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
    window = said("Change the file.", answer)
    context = pack(Material(window=window, question="Which line do we add?"), 400)
    assert "We add the line `x = 1` there." in context.part("short_term")
    assert "It begins." in pack(Material(window=window, question="Which line has the editor?"), 400).part(
        "short_term"
    )


@pytest.mark.parametrize("size", [1_900, 1_995, 2_005, pytest.param(20_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("budget", [500, 1_000, 4_000])
def test_what_was_asked_last_is_whole_beside_the_longest_answer(size: int, budget: int) -> None:
    """Whatever room the answer would take, and the other way round: a long question leaves room for a short answer."""
    long, short = "long " * size, "This is what was said in a few words."
    for spoken in ((short, long), (long, short)):
        context = pack(
            Material(window=said(*spoken), recollections=recalled(*said(*[long] * 3, first=9))), budget
        )
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
    """`minimal` is persona, facts, the last turns, the state and recollections, `recall` does without turns and state."""
    tiers = [block.tier for block in pack(FULL, preset=preset).blocks]
    few = ("summary", "preserved", "entities", "topic")
    out = {"minimal": few, "recall": (*few, "short_term", "state")}.get(preset, ())
    assert tiers == [tier for tier in ORDER if tier not in out]
    left = {entry.reason for entry in pack(FULL, preset=preset).ledger if entry.tier in out}
    assert left == ({f"the preset {preset} leaves its kind out"} if out else set())


def test_a_tier_stays_in_its_share_while_others_want_room() -> None:
    facts = {f"key_{i:02}": "value " * 10 for i in range(40)}
    found = recalled(*said(*("word " * 30 for _ in range(30))))
    context = pack(Material(facts=facts, recollections=found, question="Which value?"), 1_000, facts=0.2)
    of_facts = sum(e.tokens for e in context.ledger if e.kept and e.tier == "facts")
    assert 100 < of_facts <= 220  # of what recollections left, a line may have come in
    alone = pack(Material(facts=facts), 1_000, facts=0.2)
    assert sum(e.tokens for e in alone.ledger if e.kept and e.tier == "facts") > 600


def test_remembered_text_is_data_in_every_tier() -> None:
    hostile = "\n".join(HOSTILE)
    material = Material(
        persona=[hostile],
        state=[hostile],
        summary=[item(1, hostile, participants=(hostile,))],
        preserved=[(turn(1, hostile, speaker=hostile), 9.0)],
        facts={f"x {hostile}": hostile},
        entities=[counted(1, "people", HOSTILE[0])],
        topic=TopicLine(id="t", title=hostile, summary=hostile),
        window=[turn(2, hostile, speaker=hostile)],
        recollections=recalled(turn(3, f"{hostile} Zebulon")),
    )
    context = pack(material, 10_000)
    tiers = read_tiers(str(context))
    items = {tier: len(found) for tier, found in tiers.items()}
    turns = ("preserved", "short_term", "long_term")
    assert items == dict.fromkeys(ORDER, 1) | dict.fromkeys((*turns, "topic"), 2)
    assert [len(read_turns(tiers[tier])) for tier in turns] == [1, 1, 1]
    for message in context.to_messages():
        assert message["role"] != "system" or read_tiers(message["content"])
        assert hostile not in message["content"]


@pytest.mark.parametrize("limit", [0, -1, True, 1.5, "9"])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(InvalidInput, match="max_chars_per_message is"):
        pack(FULL).to_prompt_text(limit)

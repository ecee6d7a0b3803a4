"""Which recollections a prompt shows, and how: each worth its tokens, none below a line that it doesn't follow."""

import dataclasses
import re
from datetime import timedelta
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.context.assemble import Material
from memory_agent.context.exchanges import answer_to, answered, only_a_question, spoken_of
from memory_agent.context.gather import Exchanges, asks_nothing
from memory_agent.context.recollections import PRICES, least_confidence, said_again, tokens_worth
from memory_agent.domain import MemoryContext, RecallPrice, Role, Turn
from tests.prompts import read_tiers, read_turns
from tests.unit.search.builders import START, pack, recalled, turn

PRICE_NAMES = get_args(RecallPrice)
CONFIDENCES = st.sampled_from((0.9, 0.3, 0.05, 0.01, 0.003))
KINDS = {
    "tells": "Crate {} is green.",
    "asks": "Where is crate {}?",
    "wants": "Tell me where crate {} went.",
    "answers": "Yes, {}.",
    "points back": "It was {}.",
    "long": " ".join(f"Line {at} about crate {{0}} is told." for at in range(10, 40)),
}
"""Texts with a number of their turn in every sentence, by which a reader knows it again."""


def shown_lines(context: MemoryContext) -> list[str]:
    return context.part("long_term").splitlines()


def reasons_of(context: MemoryContext) -> dict[str, str]:
    """Why the items that were left out were, by their names."""
    return {entry.item: entry.reason for entry in context.ledger if not entry.kept}


def replied(number: int, content: str, **others: Any) -> Turn:
    return turn(number, content, role="assistant", **others)


# --- worth its tokens ----------------------------------------------------------------------------------------
chances = st.floats(0, 1)


@given(chances, chances, st.floats(1e-6, 1e-2), st.floats(1e-6, 1e-2))
def test_the_surer_and_the_cheaper_the_more_tokens_a_passage_is_worth(
    one: float, other: float, cheap: float, dear: float
) -> None:
    (one, other), (cheap, dear) = sorted((one, other)), sorted((cheap, dear))
    assert 0 <= tokens_worth(one, dear) <= tokens_worth(other, dear) <= tokens_worth(other, cheap)


@given(st.lists(st.tuples(st.sampled_from(("tells", "long")), CONFIDENCES), max_size=12), st.randoms())
def test_where_recollections_are_cheaper_the_same_are_shown_and_more(
    given: list[tuple[str, float]], random: Any
) -> None:
    said = [turn(at * 7, KINDS[kind].format(1_000 + at)) for at, (kind, _) in enumerate(given, start=1)]
    found = recalled(*said, sure=[confidence for _, confidence in given])
    random.shuffle(found)
    contexts = [pack(Material(recollections=found), 10**6, price=price) for price in PRICE_NAMES]
    shown = [{each.turn.id for each in context.long_term} for context in contexts]
    tokens = [context.tokens for context in contexts]
    assert shown[0] <= shown[1] <= shown[2]
    assert tokens == sorted(tokens)
    for price, context, ids in zip(PRICE_NAMES, contexts, shown, strict=True):
        left = [each for each in found if each.turn.id not in ids]
        assert {reasons_of(context)[each.turn.id] for each in left} <= {"not worth its tokens"}
        assert all(each.confidence >= least_confidence(price) for each in context.long_term)


def test_what_depends_on_another_line_is_worth_half_unless_it_is_quoted() -> None:
    """Whose "it" was named elsewhere, what names nothing, and what speaks of "you"."""
    vague = [
        *("She painted them", "너는 요리를 배웠지", "You surely have a lovely kitchen"),
        *("I used to play it at school", "They can make or break a good living environment"),
    ]
    clear = ["My sister has a shop, it sells tea", "Our roof was repaired by Bilal in spring."]
    film = turn(100, "We saw Dune.")
    for text in vague + clear:
        said = turn(9, text)
        material = Material(recollections=recalled(said, sure=[1.0]))
        whole = pack(material, 10**5).tokens
        # What all of it costs, and a little more.
        sure = 1.2 * PRICES["balanced"] * whole
        barely = dataclasses.replace(material, recollections=recalled(said, sure=[sure]))
        assert bool(pack(barely).long_term) == (text in clear), text
        about = dataclasses.replace(
            barely, spoken_of={said.id: film}, recollections=recalled(said, sure=[3 * sure])
        )
        assert "(after “We saw Dune.”): " in pack(about).part("long_term")


def test_at_most_as_many_are_shown_as_were_asked_for() -> None:
    """Those that offer most for a token; of a turn and the one that replaces it the later."""
    said = [turn(at * 7, KINDS["tells"].format(1_000 + at)) for at in range(1, 9)]
    found = recalled(*said, sure=[0.5, 0.9, 0.8, 0.4, 0.3, 0.2, 0.1, 0.6])
    for top_k, expected in ((0, set()), (1, {2}), (3, {2, 3, 8}), (20, set(range(1, 9)))):
        context = pack(Material(recollections=found), top_k=top_k)
        assert {each.turn.seq // 7 for each in context.long_term} == expected
        left = set(reasons_of(context).values())
        assert left == ({"more recollections than were asked for"} if len(expected) < 8 else set())
    old, new = said[0], turn(99, "Crate 1001 was painted red.")
    found = [dataclasses.replace(found[0], replaced_by=new.id), *recalled(new, sure=[0.1])]
    assert [each.turn for each in pack(Material(recollections=found), top_k=1).long_term] == [new]
    assert [each.turn for each in pack(Material(recollections=found), top_k=2).long_term] == [old, new]


def test_small_talk_is_not_recalled_and_a_question_alone_neither() -> None:
    """Greetings, thanks and reactions, with the names of who talks, also given ones; but a short answer with its question."""
    texts = ["Hey Ann! How are you doing today?", "haha yes", "Thanks Robert!", "Yes.", "I moved to Porto."]
    texts += ["Where is the key?", "감사합니다!", "Noted.", "알겠습니다."]
    talk = [turn(at, text, speaker=("Ann", "Bo")[at % 2]) for at, text in enumerate(texts)]
    material = Material(
        window=talk[-3:-2],
        recollections=recalled(*talk[:-3], *talk[-2:]),
        answered={talk[3].id: turn(20, "Do you have a dog?", speaker="Ann")},
        facts={"Ann": {"sister": {"name": "Porto"}}, "Bo": {"name": "Robert"}},
        people=("Ann", "Bo"),
    )
    context = pack(material)
    assert [found.turn.content for found in context.long_term] == ["Yes.", "I moved to Porto."]
    left = {talk[at].id: "small talk" for at in (0, 1, 2, 7, 8)} | {talk[5].id: "only asks"}
    assert {item: why for item, why in reasons_of(context).items() if item.startswith("turn")} == left


def test_nothing_is_recalled_twice() -> None:
    """Nearly the same words of one speaker, or of anybody by an assistant; a number, name, thing or refusal is something new."""
    once = turn(1, "Our train to Bern leaves from platform 4 at the old harbour station.", speaker="Ann")
    again = "So our train to Bern, it leaves from platform 4 at the harbour station."
    said = "train to Bern leaves from platform 4 at the harbour station."
    others = [
        turn(4, again, speaker="Bo"),
        turn(5, "Our train to Bern leaves from platform 5 at the old harbour station.", speaker="Ann"),
        turn(6, f"Our {said} No, it never leaves from the harbour.", speaker="Ann"),
        turn(7, f"Our {said} Mine too, says Ida.", speaker="Ann"),
        turn(8, f"Our bus and {said}", speaker="Ann"),
        turn(9, f"Actually our {said.replace('4', '6')}", speaker="Ann"),
    ]
    found = recalled(once, turn(2, again, speaker="Ann"), replied(3, again), *others, sure=[0.9] + [0.4] * 8)
    context = pack(Material(recollections=found))
    assert [found.turn for found in context.long_term] == [once, *others]
    assert reasons_of(context) == dict.fromkeys(("turn2", "turn3"), "another says the same")


# --- passages ------------------------------------------------------------------------------------------------
def test_of_a_long_turn_the_passage_is_shown_that_was_asked_for() -> None:
    reply = replied(1, "It rains. " * 200 + "The van costs 3,100 euros. " + "It snows. " * 200)
    context = pack(Material(recollections=recalled(reply), question="What does the van cost?"), 1_000)
    assert context.tokens < 500
    (line,) = shown_lines(context)[1:]
    assert re.fullmatch(r"assistant: \[…\] .*The van costs 3,100 euros\..* \[…\]", line)


def test_of_a_long_turn_that_is_replaced_the_part_is_shown_that_no_longer_holds() -> None:
    """Not the part nearest to the question, which may still hold: "(replaced on …, in part)" would stand before that one."""
    before, between = "It rains. " * 100, "It snows. " * 100
    old = turn(1, f"{before}The meeting with Ida is on Monday. {between}My course ends soon.")
    new = turn(2, "The meeting with Ida was moved to June.")
    first, second = recalled(old, new)
    found = [dataclasses.replace(first, replaced_by=new.id), second]
    context = pack(Material(recollections=found, question="When does the course end?"))
    (line,) = [line for line in shown_lines(context) if ", in part)" in line]
    assert "The meeting with Ida is on Monday." in line
    assert "course" not in line


# --- what stands below what ----------------------------------------------------------------------------------
@st.composite
def talks(draw: st.DrawFn) -> Material:
    """Recollections of several threads, sessions, days and people, in any order, with what they answer; and a window."""
    said: list[Turn] = []
    for thread in draw(st.sampled_from(("t", "to", "top"))):
        at = START + timedelta(days=draw(st.integers(0, 2)))
        for seq in range(1, draw(st.integers(1, 9)) + 1):
            at += timedelta(minutes=draw(st.sampled_from((1, 1, 5, 24 * 60))))
            role: Role = draw(st.sampled_from(("user", "user", "assistant", "assistant", "tool")))
            speaker = draw(st.sampled_from((None, "Ann", "Ann", "Bo"))) if role == "user" else None
            text = KINDS[draw(st.sampled_from(sorted(KINDS)))].format(1_000 + len(said))
            session = f"s{draw(st.sampled_from((1, 1, 1, 2)))}"
            told = {"id": f"{thread}{seq}", "thread_id": thread, "timestamp": at, "session_id": session}
            said.append(turn(seq, text, role=role, speaker=speaker, **told))
    exchanges = Exchanges()
    for position, each in enumerate(said):
        before = [
            other for other in said[max(position - 5, 0) : position] if other.thread_id == each.thread_id
        ]
        if (other := answered(each, before[::-1])) is not None:
            exchanges.answered[each.id] = other
        elif each.role != "assistant" and (other := spoken_of(each, before[::-1])) is not None:
            exchanges.spoken_of[each.id] = other
    some = draw(st.permutations(said))[: draw(st.integers(1, len(said)))]
    found = recalled(*some, sure=[draw(CONFIDENCES) for _ in some])
    if len(found) > 1 and draw(st.booleans()):
        found[0] = dataclasses.replace(found[0], replaced_by=found[1].turn.id)
    own = [each for each in said if each.thread_id == "t"]
    return Material(
        thread_id="t",
        window=own[len(own) - draw(st.integers(0, len(own))) :],
        preserved=[(each, 5.0) for each in own[: draw(st.integers(0, 3))]],
        recollections=found,
        answered=exchanges.answered,
        spoken_of=exchanges.spoken_of,
        question=draw(st.sampled_from(("", "Where did crate 1003 go?"))),
    )


def misread(material: Material, context: MemoryContext) -> list[str]:
    """What a reader of the prompt would take for the answer to, or for said right after, something that it isn't."""
    turns = [*material.window, *(found.turn for found in material.recollections)]
    by_number = {
        number_of(each.content): each for each in (*turns, *(turn for turn, _ in material.preserved))
    }
    wrong: list[str] = []
    for tier, items in read_tiers(str(context)).items():
        if tier not in ("short_term", "preserved", "long_term"):
            continue
        above, above_text = None, ""
        for read in read_turns(items):
            this = by_number[number_of(read.text)]
            place = (this.thread_id, this.seq - 1)
            if read.when != this.timestamp.date() or (
                read.follows and (above is None or place != (above.thread_id, above.seq))
            ):
                wrong.append(f"{tier}: {read} is below {above}")
            quoted = material.answered.get(this.id) or material.spoken_of.get(this.id)
            if tier == "long_term" and quoted is not None:
                end = read.to and read.to.removeprefix("…")
                is_above = read.follows and above == quoted and above_text[-4:] == quoted.content[-4:]
                if not (quoted.content.endswith(end) if end else is_above):
                    wrong.append(f"{read} goes back to {quoted}, below {above}")
            above, above_text = this, read.text
    return wrong


def number_of(text: str) -> str:
    found = re.search(r"\b1\d{3}\b", text)
    assert found, text
    return found[0]


@given(
    talks(),
    st.sampled_from((60, 120, 300, 1_000, 10**5)),
    st.sampled_from(PRICE_NAMES),
    st.none() | st.integers(0, 6),
    st.sampled_from(("balanced", "code", "chat")),
)
def test_nothing_stands_right_below_what_it_does_not_follow(
    material: Material, budget: int, price: RecallPrice, top_k: int | None, preset: Any
) -> None:
    """Between them is a mark or a heading; and a reply stands right below what it answers, or quotes it."""
    context = pack(material, budget, price=price, top_k=top_k, preset=preset)
    if str(context):
        assert misread(material, context) == []


def test_the_reader_would_notice_an_answer_to_another_question() -> None:
    """A program that checks needs a prompt that is wrong."""
    asked, reply = turn(1, "Tell me where crate 1001 went."), replied(4, "Crate 1004 is on board.")
    other = turn(3, "Crate 1003 is green.")
    material = Material(recollections=recalled(asked, other, reply), answered={reply.id: asked})
    assert misread(material, pack(material)) == []
    another = dataclasses.replace(material, answered={reply.id: other})
    later = dataclasses.replace(reply, seq=5)
    elsewhere = dataclasses.replace(material, recollections=recalled(asked, other, later))
    unquoted = pack(dataclasses.replace(material, answered={}))
    for wrong, context in ((material, unquoted), (material, pack(another)), (elsewhere, pack(material))):
        assert len(misread(wrong, context)) == 1


def test_a_quote_is_left_out_below_the_turn_that_it_quotes_and_a_gap_is_marked() -> None:
    """It would say twice what was asked; below anything else it stays."""
    asked, yes = turn(1, "I wonder. Do you have a dog?"), turn(2, "Yes, two of them.", speaker="Ann")
    alone = pack(Material(recollections=recalled(yes), answered={yes.id: asked}))
    assert shown_lines(alone)[1:] == ["Ann (to “I wonder. Do you have a dog?”): Yes, two of them."]
    both = pack(Material(recollections=recalled(yes, asked), answered={yes.id: asked}))
    assert shown_lines(both)[1:] == ["user: I wonder. Do you have a dog?", "Ann: Yes, two of them."]
    late, cat = dataclasses.replace(yes, seq=9), turn(5, "I see a cat.", speaker="Bo")
    apart = pack(Material(recollections=recalled(late, cat, asked), answered={yes.id: asked}))
    assert sorted(shown_lines(apart)[1:]) == sorted(
        ["user: I wonder. Do you have a dog?", "…", "Bo: I see a cat.", "…", *shown_lines(alone)[1:]]
    )


def test_recollections_of_another_thread_stand_under_headings_that_say_so() -> None:
    """Day by day, a heading for each kind, and though they have the numbers of turns that the window shows."""
    elsewhere = [
        turn(number, f"Told elsewhere, {number}.", id=f"o{number}", thread_id="other") for number in (1, 3)
    ]
    own = [turn(2, "Said here."), turn(3, "The last words.")]
    context = pack(
        Material(window=own[1:], recollections=recalled(elsewhere[1], own[0], elsewhere[0]), thread_id="t")
    )
    assert shown_lines(context) == [
        "[3 May 2026, another conversation]",
        "user: Told elsewhere, 1.",
        "…",
        "user: Told elsewhere, 3.",
        "[3 May]",
        "user: Said here.",
    ]


# --- a question is no answer ---------------------------------------------------------------------------------
def test_a_question_gives_way_to_what_answers_it_and_is_left_where_nothing_does() -> None:
    asked, other = turn(1, "Where is the key?"), turn(9, "The harbour is closed.")
    asked_again = dataclasses.replace(asked, id="again", seq=5)
    reply = replied(2, "In the blue pot.")
    found = recalled(asked, other, asked_again, sure=[0.8, 0.6, 0.5])
    exchanges = Exchanges(answered={reply.id: asked}, answers={asked.id: reply, asked_again.id: None})
    got = exchanges.with_answers(found)
    assert [(each.turn.id, each.confidence) for each in got] == [
        (reply.id, 0.8), (asked.id, 0.8), (other.id, 0.6), ("again", 0.5)
    ]  # fmt: skip
    context = pack(Material(recollections=got, answered=exchanges.answered))
    assert shown_lines(context)[1:] == [
        "assistant (to “Where is the key?”): In the blue pot.", "…", "user: The harbour is closed."
    ]  # fmt: skip
    assert reasons_of(context) == dict.fromkeys((asked.id, "again"), "only asks")
    # What was found itself keeps what it is surer of, and its place is the better of both.
    for own in (0.9, 0.1):
        both = exchanges.with_answers(recalled(asked, reply, sure=[0.8, own]))
        assert [(each.turn.id, each.confidence) for each in both] == [
            (reply.id, max(own, 0.8)),
            (asked.id, 0.8),
        ]


def test_the_first_that_another_says_answers_a_question_unless_it_asks_back() -> None:
    asked, own, reply = turn(1, "Where is the key?"), turn(2, "It is for Ida."), replied(4, "In the pot.")
    late, tool = dataclasses.replace(reply, session_id="later"), turn(3, "nothing found", role="tool")
    assert answer_to(asked, [own, tool, reply, replied(5, "Bye.")]) == reply
    for after in ([replied(2, "Which key?"), own, reply], [own], [late]):
        assert answer_to(asked, after) is None


def test_a_question_that_tells_something_or_is_long_counts_itself() -> None:
    only = ("Where is the key?", "Is it green? Or blue?", "열쇠는 어디에 있어?")
    not_only = ("I lost the key. Where is it?", "Where is the key.", f"Where is the {'very ' * 20}old key?")
    assert [text for text in (*only, *not_only) if only_a_question(turn(1, text))] == list(only)


# --- said over and over --------------------------------------------------------------------------------------
def test_what_was_said_over_and_over_is_shown_once_with_how_often_and_when_last() -> None:
    """By one person in the same words; in the place of one in the window, which is shown anyway, the best of the others."""
    days = [START + timedelta(days=at) for at in range(30)]
    same = [
        turn(at, "Call  Ida today" if at % 2 else "call ida TODAY", speaker="Ann", timestamp=day)
        for at, day in enumerate(days, start=1)
    ]
    others = [turn(40, same[0].content, speaker="Bo"), turn(41, "Call Ida tomorrow", speaker="Ann")]
    found = recalled(*reversed(same), *others)
    kept, again = said_again(found, {same[-1].id})
    assert [each.turn for each in kept] == [same[-2], *others]
    last = days[-1].date()
    assert again == {same[-2].id: (30, last)}
    assert said_again(found[:1], {same[-1].id}) == (found[:1], {})
    inside, _ = said_again(found, {each.id for each in same})
    assert inside[0] == found[0]
    context = pack(Material(recollections=kept, said_again=again))
    (line,) = [line for line in shown_lines(context) if "times" in line]
    assert line.startswith("Ann (30 times, last on 1 June 2026")


# --- what asks nothing ---------------------------------------------------------------------------------------
NOTHING = """
Hello!|Hi there|Hiya|Good morning!|hey, how are you?|How's it going?|Thanks!|Thank you so much.|thanks, that helped|That was helpful, thanks
Great, thanks!|ok|Okay, cool.|Sure.|Really?|I see|lol|haha nice|Wow!|That's great!|Sounds good|Perfect, thank you!|You're the best|Happy birthday!
Good night|Bye!|See you tomorrow!|안녕하세요!|좋은 아침!|감사합니다|고마워요!|네, 알겠습니다.|ㅋㅋㅋ|맞아요|안녕히 계세요|👍|...
"""
SOMETHING = """
and the second one?|walnuts|Ruth?|2028?|the blue one|Bergen|allergies|my flight|which hotel?|What did Ida say?|on Monday?|Remind me|the code again
in Porto|dinner plans|and Bo?|hello, which hotel?|thanks! And the train?|What about hers?|Who was it?|what do you know about me?|Who am I|What did I like?
ok, what do you know about me?|What did she want?|Thanks! What did you say?|열쇠는?|지수 생일|호두|나 뭐 좋아해?|좋아하는 음식|어디서?
"""


def test_a_greeting_thanks_or_a_reaction_asks_nothing_and_the_shortest_question_does() -> None:
    assert [text for text in re.split(r"[|\n]", NOTHING.strip()) if not asks_nothing(text)] == []
    assert [text for text in re.split(r"[|\n]", SOMETHING.strip()) if asks_nothing(text)] == []

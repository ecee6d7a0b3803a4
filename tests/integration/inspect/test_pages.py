"""What the pages show: a prompt looked into, a conversation and how its turns stand, and texts that mean harm."""

from __future__ import annotations

import html
import re
import threading
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from memory_agent import MemoryAgent, TurnsParked
from memory_agent.clock import SystemClock
from memory_agent.errors import EmbedderError, EmbedderUnavailable
from memory_agent.inspect import page as pages
from memory_agent.inspect import texts
from memory_agent.inspect.ask import whereabouts
from memory_agent.inspect.texts import LANGUAGES, catalogue, parts_of
from memory_agent.search.fusion import SIGNALS
from tests.integration.inspect.looking import ANN, HOME, HOSTILE, Looker, looking, tell_of_walnuts, text_of

ALLERGY = "By the way, I have a walnut allergy."


@pytest.fixture
async def looker(tmp_path: Path) -> AsyncIterator[Looker]:
    """Signed in at the memory of the user ann, facts among it."""
    settings = {"data_dir": tmp_path, "enable_fact_extraction": True, "enable_topics": True}
    async with looking(settings) as found:
        await tell_of_walnuts(found.service)
        await found.sign_in()
        yield found


async def asked(looker: Looker, missing: str, **options: Any) -> str:
    """The answer to why something is in a prompt or not."""
    page = await looker.look(f"{HOME}/ask", q="What shall we cook?", missing=missing, **options)
    return text_of(page.partition('id="traces"')[2].partition('id="prompt"')[0])


# --- ask -----------------------------------------------------------------------------------------------------
async def test_the_prompt_is_shown_as_the_agent_gets_it_and_its_tiers_add_up(looker: Looker) -> None:
    memory = looker.service.agent("ann", "home")
    context = await memory.fetch_memory("What shall we cook?", max_tokens=300)
    text = text_of(await looker.look(f"{HOME}/ask", q="What shall we cook?", max_tokens=300))
    assert f"{context.tokens} of 300 tokens, divided as balanced" in text
    assert all(line.strip() in text for line in str(context).splitlines() if not line.startswith("<"))
    for entry in context.ledger:
        assert " ".join(entry.text.split())[:40] in text
        assert entry.reason in text
    # Without a question the form is shown alone, with links that fill it, its options folded.
    empty = await looker.look(f"{HOME}/ask")
    assert "The budget" not in empty
    examples = re.findall(r'<a href="(\?q=[^"]+)">([^<]+)</a>', empty)
    assert len(examples) == 3
    for link, example in examples:
        filled = await looker.look(f"{HOME}/ask{link}")
        assert f">{example}</textarea>" in filled
        assert "<details><summary>Advanced" in filled
    text = text_of(await looker.look(f"{HOME}/ask", q="What?", top_k=3))
    assert "Advanced balanced, at most 4,000 tokens, at most 3 recollections" in text
    # Options that cannot be are refused by name.
    for wrong in (
        {"max_tokens": "many"},
        {"max_tokens2": "200001"},
        {"now": "soon"},
        {"reach": "world"},
        {"preset": "big"},
        {"price": "cheap"},
        {"window": "maybe"},
        {"top_k2": "few"},
    ):
        text = await looker.look(f"{HOME}/ask", q="What?", status=422, **wrong)
        assert next(iter(wrong)) in text


async def test_it_says_why_something_is_not_in_this_prompt(looker: Looker) -> None:
    small = await asked(looker, "walnut allergy", max_tokens=110)
    assert "Considered for: facts, and left out: no room in" in small
    assert ALLERGY in small
    assert "In the prompt, among:" in await asked(looker, "walnut allergy")
    # Because of its thread, or its time.
    trip = looker.service.agent("ann", "trip")
    await trip.add_user_message("Our ferry to Texel leaves at nine.")
    await trip.settle(60)
    assert "reaches this thread alone" in await asked(looker, "ferry to Texel", reach="thread")
    early = f"{SystemClock().now() - timedelta(days=1):%Y-%m-%dT%H:%M}"
    assert "said after the time" in await asked(looker, "walnut allergy", now=early)
    # Because nothing is remembered, or a fact was withdrawn.
    assert "Nothing that is remembered says this" in await asked(looker, "zeppelin hangar")
    await looker.service.agent("ann", "home").retract_fact("allergies", "walnuts")
    assert "No fact any more: it was withdrawn." in await asked(looker, "walnut allergies")


async def test_the_prompt_and_its_five_surest_recollections_come_first_and_all_else_is_folded(
    looker: Looker,
) -> None:
    memory = looker.service.agent("ann", "trip")
    await memory.add_turns(
        [{"role": "user", "content": f"Walnut tree {n} is {n} m high."} for n in range(40)]
    )
    await memory.settle(60)
    context = await memory.fetch_memory("How high is walnut tree 7?", window=False)
    page = await looker.look(f"{ANN}/trip/ask", q="How high is walnut tree 7?", window="no")
    prompt, best, folded = (page.index(part) for part in ('id="prompt"', 'id="best"', "<summary>The budget"))
    assert prompt < best < folded
    surest = sorted(
        (entry for entry in context.ledger if entry.confidence is not None),
        key=lambda entry: entry.confidence or 0.0,
        reverse=True,
    )
    assert len(surest) > 5
    rows = text_of(page[best:folded])
    places = [rows.index(entry.text) for entry in surest[:5]]
    assert places == sorted(places)
    assert page[best:folded].count("<tr>") == 1 + 5
    # Of the recollections, too, the surest are first.
    tier = page.partition('id="tier-long_term"')[2].partition("</h3>")[2].partition("</tbody>")[0]
    sure = [int(number) for number in re.findall(r'data-label="Confidence">(\d+) %', tier)]
    assert len(sure) > 1
    assert sure == sorted(sure, reverse=True)


async def test_two_prompts_are_compared_item_by_item_be_one_empty_or_its_embedder_down(
    looker: Looker,
) -> None:
    text = text_of(
        await looker.look(
            f"{HOME}/ask", q="What shall we cook?", preset="recall", preset2="chat", max_tokens2=90, reach2="thread",
            now2="2030-01-01T00:00+02:00", price2="thrifty", top_k2=3, window2="no",
        )
    )  # fmt: skip
    second = "chat, at most 90 tokens, thrifty, at most 3 recollections, without recent turns, this thread, as of 2029-12-31 22:00"
    assert f"First: recall, at most 4,000 tokens Second: {second} facts" in text
    assert "Only in the first (" in text
    # Beside an empty one, and with the second as set.
    asked_for: dict[str, Any] = {"q": "What shall we cook?", "now": "2020-01-01T00:00"}
    page = text_of(await looker.look(f"{HOME}/ask", **asked_for, open2="set"))
    assert "The prompt is empty" in page
    assert "as of 2020-01-01 00:00 Second: balanced, at most 4,000 tokens facts" in page
    looker.embedder.fail = EmbedderUnavailable("it is away")
    page = text_of(await looker.look(f"{HOME}/ask", **asked_for))
    assert "Missing from this prompt: embedder" in page
    assert "The prompt is empty" not in page


async def test_of_a_large_prompt_a_part_is_shown_and_how_much_more_there_is_and_nobody_waits_for_it(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()

    def noted(text: str) -> list[tuple[str, str]]:
        threads.add(threading.get_ident())
        return parts_of(text)

    monkeypatch.setattr(texts, "parts_of", noted)
    await looker.service.pause_worker()  # it is about the pages
    memory = looker.service.agent("ann", "large")
    await memory.add_user_message("walnut – " * 15_000)
    await memory.set_fact("remarks", {f"n{number}": f"Note {number}." for number in range(130)})
    context = await memory.fetch_memory("Which walnuts?", max_tokens=200_000)
    kept = [entry for entry in context.ledger if entry.kept and entry.tier == "facts"]
    assert (len(context.text) > 130_000, len(kept) > 100) == (True, True)
    page = await looker.look(f"{ANN}/large/ask", q="Which walnuts?", max_tokens=200_000, max_tokens2=500)
    text = text_of(page)
    assert f"… and {len(context.text) - 100_000:,} more characters" in text
    assert f"and {len(kept) - 100} more" in text
    assert len(page) < 200_000
    assert threads
    assert threading.get_ident() not in threads


async def test_the_ranking_is_searched_once_for_all_the_turns_that_it_is_told_of(
    looker: Looker, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, empty = looker.service.agent("ann", "fruit"), looker.service.agent("ann", "empty")
    said = [{"role": "user", "content": f"A walnut allergy is what number {n} has."} for n in range(4)]
    await memory.add_turns(said)
    await memory.settle(60)
    question, wanted = "Which zeppelin?", "number walnut allergy"
    # A prompt that considered none of them.
    context = await empty.fetch_memory(question, scope="thread")
    asked_for: list[str] = []
    search = MemoryAgent.fetch_long_term

    async def noted(self: MemoryAgent, query: str, *args: Any, **options: Any) -> Any:
        asked_for.append(query)
        return await search(self, query, *args, **options)

    monkeypatch.setattr(MemoryAgent, "fetch_long_term", noted)
    traces = await whereabouts(memory, wanted, context, question, {})
    assert {trace.verdict for trace in traces if trace.turn} == {"ranked_behind"}
    ranks = [trace.rank for trace in traces if trace.turn]
    assert len(set(ranks)) == len(ranks) == 5
    assert asked_for == [wanted, question]


# --- conversation --------------------------------------------------------------------------------------------
async def test_every_turn_and_session_of_a_long_thread_is_told_once(looker: Looker) -> None:
    memory = looker.service.agent("ann", "long")
    await memory.add_turns([{"role": "user", "content": f"No {n}."} for n in range(130)])
    seen, path = list[str](), "conversation"
    while path:
        page = await looker.look(f"{ANN}/long/{path}")
        seen += re.findall(r'<li class="turn" id="turn-(\d+)">', page)
        later = re.search(r'href="\?(after=\d+)" rel="next"', page)
        path = f"conversation?{later[1]}" if later else ""
    assert seen == [str(number) for number in range(1, 131)]
    # Of many sessions the latest are links, and the others are counted.
    memory, began = looker.service.agent("ann", "years"), SystemClock().now() - timedelta(days=400)
    await memory.add_turns(
        [{"role": "user", "content": f"Day {n}.", "timestamp": began + timedelta(days=n)} for n in range(130)]
    )
    page = await looker.look(f"{ANN}/years/conversation")
    links = re.findall(r'<a href="\?after=(\d+)">(\d+) ·', page)
    # A day leads to its first turn, one that is past them all to the last.
    for day, first in ((began + timedelta(days=70), 71), (SystemClock().now(), 130), (began, 1)):
        answer = await looker.http.get(f"{ANN}/years/conversation", params={"on": f"{day:%Y-%m-%d}"})
        assert answer.headers["Location"].endswith(f"conversation?after={first - 1}")
    assert "write it like" in await looker.look(f"{ANN}/years/conversation", status=422, on="soon")
    assert links == [(str(number - 1), str(number)) for number in range(31, 131)]
    assert "and 30 more" in text_of(page)


async def test_a_conversation_is_searched_and_marks_only_what_is_odd(looker: Looker) -> None:
    page = await looker.look(f"{HOME}/conversation", find="walnut allergy")
    assert ALLERGY in text_of(page).partition("The surest first.")[2]
    (link,) = re.findall(r'href="(\?after=0#turn-1)"', page)
    assert 'id="turn-1"' in await looker.look(f"{HOME}/conversation{link}")
    page = await looker.look(f"{HOME}/conversation")
    assert not {"indexed", "packed", "owed:", "parked"} & set(text_of(page).split())
    assert "forgotten" not in page
    memory = looker.service.agent("ann", "home")
    await memory.forget([turn.id for turn in (await memory.history()).turns[1:3]])
    assert "2 turns were forgotten here." in text_of(await looker.look(f"{HOME}/conversation"))
    # The turn beside the gap shows its neighbours.
    text = text_of(await looker.look(f"{HOME}/turns/4"))
    places = [text.index(said) for said in (ALLERGY, "Pasta with sage butter", "alert(1)", "That looks odd.")]
    assert places == sorted(places)
    assert "My name is Ann" not in text


async def test_a_users_page_has_the_newest_facts_the_latest_topics_and_the_last_turns(looker: Looker) -> None:
    await looker.service.agent("ann", "home").set_fact("city", "Delft")
    page = await looker.look(ANN)
    facts, topics, turns = (page.index(f'id="{part}"') for part in ("facts", "topics", "turns"))
    assert "Delft" in text_of(page[facts:topics]).partition("walnuts")[0]
    (topic, *_) = await looker.service.agent("ann", "home").topics()
    assert topic.topic_title in text_of(page[topics:turns])
    assert "Nice to meet you, Ann." in text_of(page[turns:])
    for link in re.findall(r'href="[./]*(of/[^"]+/(?:facts|topics|turns)/?[^"]*)"', page):
        await looker.look(html.unescape(link))


async def test_parked_turns_show_their_error_and_are_tried_again(looker: Looker) -> None:
    looker.embedder.fail = EmbedderError("the <model> refuses it")
    memory = looker.service.agent("ann", "home")
    await memory.add_user_message("Walnuts again.")
    with pytest.raises(TurnsParked):
        await memory.settle(30)
    page = text_of(await looker.look(f"{HOME}/conversation"))
    assert "1 turn is parked" in page
    assert "the <model> refuses it" in page
    looker.embedder.fail = None
    answer = await looker.send(f"{HOME}/retry", csrf=await looker.csrf(), after="0")
    assert answer.headers["Location"].endswith(f"{HOME}/conversation?after=0")
    await memory.settle(30)
    assert "parked:" not in text_of(await looker.look(f"{HOME}/conversation"))


# --- texts ---------------------------------------------------------------------------------------------------
async def test_remembered_texts_are_shown_as_text_wherever_they_are(looker: Looker) -> None:
    memory = looker.service.agent(HOSTILE.replace("\u202e", "").replace("\u202c", ""), "a/b %")
    await memory.add_turns(
        [{"role": "user", "content": HOSTILE, "speaker": "<b>Eve</b>", "metadata": {"k": HOSTILE}}]
    )
    await memory.settle(60)
    await memory.set_fact("note", HOSTILE)
    user = pages.address("of", "default", "users", memory.scope.user_id.removeprefix("default\x1f"))
    threads = f"{user}/a%2Fb%20%25"
    for path in (
        "of/default/users", user, f"{threads}/conversation", f"{threads}/turns/1",
        f"{threads}/ask?q=gnp&missing=gnp.exe", f"{threads}/facts", f"{threads}/facts?view=history", f"{threads}/facts?path=note",
    ):  # fmt: skip
        page = await looker.look(path)
        assert "<script>alert" not in page
        assert "<b>Eve" not in page
        assert "</textarea> <" not in page
        assert "\u202e" not in page
        assert "{{ 7 * 7 }}" in page
    assert '<span class="odd" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>' in await looker.look(
        f"{threads}/turns/1"
    )


async def test_a_turn_says_what_it_carries_and_what_is_owed_to_it(looker: Looker) -> None:
    memory = looker.service.agent("ann", "marked")
    await memory.add_turns(
        [{"role": "user", "content": "Hi", "metadata": {"이름": "it's <b>", "x": "x" * 6_000}}]
    )
    page = await looker.look(f"{ANN}/marked/turns/1")
    assert '"이름": "it\'s <b>"' in html.unescape(page)
    assert "<b>" not in page.partition("<h2>Metadata")[2]
    assert "xxx…</pre>" in page
    # What is owed to it, and what was taken from it.
    text = text_of(await looker.look(f"{HOME}/turns/1"))
    assert ALLERGY in text
    assert "indexed" in text
    assert "allergies" in text
    await looker.service.pause_worker()
    await looker.service.agent("ann", "home").add_user_message("And now?")
    assert "owed: index, topics, compact, compress, facts" in text_of(
        await looker.look(f"{HOME}/conversation")
    )
    await looker.look(f"{HOME}/turns/99", status=404)
    for odd in ("x", "0", "1" * 17, "0" * 16 + "1" + "9" * 5_000):
        await looker.look(f"{HOME}/turns/{odd}", status=422)


async def test_a_long_text_without_a_blank_is_shown_in_parts(looker: Looker) -> None:
    await looker.service.pause_worker()  # it is about the pages
    memory = looker.service.agent("ann", "large")
    await memory.add_user_message("x" * 200_000 + "y" * 199_000)
    for path in ("conversation", "turns/1", "ask?q=xxx&missing=xxx"):
        await looker.look(f"{HOME}/{path}")  # its templates are read
        began = time.process_time()
        await looker.look(f"{ANN}/large/{path}")
        assert time.process_time() - began < 1.0, path
    assert len(await looker.look(f"{ANN}/large/conversation")) < 10_000
    first = await looker.look(f"{ANN}/large/turns/1")
    assert len(first) < 30_000
    assert "from character 20,000 of 399,000" in first
    assert "y" * 10_000 in await looker.look(f"{ANN}/large/turns/1", at=380_000)


def test_what_joins_is_left_alone_and_what_hides_is_shown() -> None:
    assert parts_of("👩‍💻 ❤️ می‌خواهم क्‍ष a\n\tb") == [("👩‍💻 ❤️ می‌خواهم क्‍ष a\n\tb", "")]
    assert [part for part, name in parts_of("a\u200bb\u2066c\x00d\u00ade\u3164") if name] == [
        "U+200B", "U+2066", "U+0000", "U+00AD", "U+3164",
    ]  # fmt: skip


def messages() -> set[str]:
    """Every text of the templates."""
    made, found = (
        Environment(extensions=["jinja2.ext.i18n"], trim_blocks=True, lstrip_blocks=True),
        set[str](),
    )
    for file in (resources.files("memory_agent.inspect") / "templates").iterdir():
        extract: Any = made.extract_translations  # type: ignore[attr-defined]
        for _, _, message in extract(file.read_text("utf-8")):
            found |= {message} if isinstance(message, str) else set(filter(None, message or ()))
    return found


def test_the_catalogue_has_every_text_of_the_pages_with_the_same_gaps() -> None:
    korean = catalogue("ko")
    assert messages() - korean.keys() == set()
    for text in messages():
        gaps = r"%\(\w+\)s|</?\w+>"
        assert sorted(re.findall(gaps, text)) == sorted(re.findall(gaps, korean[text])), text
    for language in LANGUAGES:
        assert {f"signal {name}" for name in SIGNALS} <= catalogue(language).keys()
        file = (resources.files("memory_agent.inspect") / f"{language}.po").read_text("utf-8")
        texts = re.findall(r'^msgid (".+")$', file, re.MULTILINE)
        assert len(texts) == len(set(texts)), "one of two entries of a text is not used"


async def test_pages_are_in_the_language_that_the_browser_asks_for_or_that_was_chosen(looker: Looker) -> None:
    korean = await looker.http.get(ANN, headers={"Accept-Language": "de, ko;q=0.8"})
    assert '<html lang="ko">' in korean.text
    assert "스레드" in korean.text
    await looker.look(ANN, lang="ko")
    assert "대화" in await looker.look(f"{HOME}/conversation")
    assert "알 수 없는 API 키" in (await looker.send("sign-in", key="ma_x")).text
    small = await looker.look(
        f"{HOME}/ask", q="What shall we cook?", missing="walnut allergy", max_tokens=110
    )
    assert "예산" in small

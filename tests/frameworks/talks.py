"""What holds of a memory in any framework's own loop: each framework's tests run it with a talk of their own."""

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from memory_agent import MemoryService
from tests.frameworks.pages import said
from tests.over_http import both_ways_by_day
from tests.servers.openai_script import Reply, ScriptedOpenAI

CAT, KEY = "The cat is at Bob's.", "The key is under the mat."


class Say(Protocol):
    def __call__(self, text: str, *, user: str = "ada", thread: str = "t") -> Awaitable[object]: ...


@dataclass
class Talk:
    """An agent that is told "Answer briefly.", and the model that it asks, in the form in which its answers come."""

    say: Say
    server: ScriptedOpenAI
    reply: Callable[[str], Reply] = lambda text: Reply(text=text)

    def then(self, *texts: str, seconds: float = 0.0) -> None:
        """Let the model answer these next, each after so many seconds."""
        self.server.then(*(dataclasses.replace(self.reply(text), delay_seconds=seconds) for text in texts))

    def sent(self) -> list[str]:
        """All that each request told the model."""
        return [json.dumps(request.body) for request in self.server.requests]


class Talks:
    user: ClassVar[str] = "ada"
    """How the memory calls the user."""
    after_cancelled: ClassVar[Sequence[tuple[str, str]]]
    """What is stored of a run that was cancelled and the one after it."""

    @both_ways_by_day
    async def test_what_one_thread_told_another_of_the_same_user_recalls_and_nobody_else(
        self, service: MemoryService, talk: Talk
    ) -> None:
        talk.then("Noted.", "In Lisbon.", "I don't know.")
        await talk.say("My sister Ida lives in Lisbon.", thread="first")
        await service.settle()
        await talk.say("Where does my sister live?", thread="second")
        await talk.say("Where does my sister live?", user="eve", thread="hers")
        first, ada, eve = talk.sent()
        assert (first.count("Lisbon"), "Lisbon" in ada, "Lisbon" in eve) == (1, True, False)
        assert "Answer briefly." in ada

    async def test_a_run_cancelled_in_the_middle_leaves_no_half_of_an_answer(
        self, service: MemoryService, talk: Talk
    ) -> None:
        talk.then("late", seconds=30)
        talk.then("Noted.")
        run = asyncio.ensure_future(talk.say(KEY))
        while not talk.sent():
            await asyncio.sleep(0.01)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert ("user", KEY) in self.after_cancelled or await said(service, self.user) == []
        await talk.say(CAT)
        assert await said(service, self.user) == [*self.after_cancelled]

    async def test_two_runs_at_once_on_one_thread_store_both_exchanges_once(
        self, service: MemoryService, talk: Talk
    ) -> None:
        talk.then("Answer 0.", "Answer 1.", seconds=0.2)
        await asyncio.gather(talk.say("I like trams."), talk.say("I like boats."))
        exchanges = {"assistant": ("Answer 0.", "Answer 1."), "user": ("I like boats.", "I like trams.")}
        both = [(role, text) for role, texts in exchanges.items() for text in texts]
        assert sorted(await said(service, self.user)) == both


class TalksWithHistory(Talks):
    async def test_what_the_history_shows_is_not_told_again(self, service: MemoryService, talk: Talk) -> None:
        talk.then("Noted.", "By tram.")
        await talk.say("My tram stop is called Marktplatz.")
        await service.settle()
        await talk.say("How do I get to my stop?")
        assert talk.sent()[1].count("My tram stop") == 1

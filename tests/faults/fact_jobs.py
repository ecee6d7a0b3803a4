"""Jobs about facts for the nursery: each process kills itself at one of its own writes. See `topic_jobs`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from memory_agent.domain import Message
from memory_agent.testing import ScriptedLLM
from tests.faults.topic_jobs import with_fuse
from tests.integration.fact_script import Asked, Item, add, by_message, context, known

SETTINGS: dict[str, Any] = {
    "enable_fact_extraction": True,
    "enable_topics": False,
    "facts_batch_turns": 4,
    "max_attempts": 2,
    "lease_seconds": 5,
    "retry_max_seconds": 0.02,
    "worker_poll_seconds": 0.02,
}
WATCHED = ("fact_events", "fact_change_turns", "facts", "costs", "turns", "erasures", "tombstones", "leases")
EDITS = 6
_SAYS = re.compile(r"My (?P<what>\w+) is (?P<value>\w+)\.")


class Model(ScriptedLLM):
    """States what "My town is Oslo." says; it writes the name of what it saw before along with "agreed".

    Of turns that hold "rhyme" it refuses, with that name. `model="again"` puts all below "again".
    """

    def __init__(self, model: str = "plain") -> None:
        super().__init__(self._answered, model=model)

    def _answered(self, messages: Sequence[Message]) -> str:
        body = {"messages": [{"content": message.content} for message in messages]}
        name = (
            "Zebulon" if "Zebulon" in " ".join([*context(body), *known(body), str(messages)]) else "somebody"
        )

        def state(asked: Asked) -> Iterable[Item]:
            top = "again." if self.model == "again" else ""
            for said in _SAYS.finditer(asked.text):
                yield add(f"{top}{said['what']}", said["value"], said[0])
            if "agreed" in asked.text:
                yield add(f"{top}agrees", f"{name} agreed".removeprefix("somebody "), asked.text)

        if "rhyme" in messages[-1].content.rpartition("<message")[2]:
            return f"I'm sorry, I can't make a rhyme about {name}."
        return by_message(state)(body)


async def facts(job: dict[str, Any]) -> None:
    """What the job's `step` names, in Ann's chat; a line in the job's `acknowledged` for each call that returned."""
    done = os.open(job["acknowledged"], os.O_WRONLY | os.O_TRUNC | os.O_CREAT)

    def acknowledge(what: str) -> None:
        os.write(done, f"{what}\n".encode())

    async with with_fuse(job, llm=Model(job.get("model", "plain"))) as service:
        memory = service.agent("ann", "chat")
        if job["step"] == "extract":
            await service.settle(200)
        elif job["step"] == "edit":
            for number in range(EDITS // 3):
                await memory.set_fact(f"edits.set{number}", number)
                acknowledge(f"set{number}")
                await memory.add_fact("edits.list", f"add{number}")
                acknowledge(f"add{number}")
                await memory.revert_fact("edits.list")
                acknowledge(f"revert{number}")
        elif job["step"] == "reextract":
            await memory.reextract_facts()
            acknowledge("reextract")
            await service.settle(200)
        else:
            await memory.forget([job["turn_id"]])
            acknowledge("forgotten")

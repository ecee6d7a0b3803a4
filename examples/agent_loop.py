"""An agent loop: fetch before the model answers, update after. The model is any OpenAI-compatible endpoint.

    MEMORY_AGENT_OPENAI_API_KEY=sk-… python examples/agent_loop.py "Hello, my name is Ada." "What is my name?"

Each argument is one thing the user says. Without arguments they are read from the terminal. Without a model the
loop answers with what it would have sent; while the model is down, what the user says is remembered all the same.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator

from memory_agent import BackendError, MemoryAgent, MemoryConfig, MemoryService
from memory_agent.domain import Message

INSTRUCTIONS = "You are a helpful assistant. Use what you remember where it helps."


async def answer(service: MemoryService, memory: MemoryAgent, said: str) -> str:
    context = await memory.fetch_memory(said)
    if service.llm is None:
        return f"(no model configured; it would be sent {context.tokens} tokens of memory)"
    completion = await service.llm.complete(
        [
            Message(role="system", content=f"{INSTRUCTIONS}\n\n{context}"),
            Message(role="user", content=said),
        ]
    )
    return completion.text


async def main(sayings: Iterable[str]) -> None:
    async with MemoryService(MemoryConfig()) as service:
        memory = service.agent(user_id="ada", thread_id="loop")
        for said in sayings:
            try:
                reply = await answer(service, memory, said)
            except BackendError as exc:
                await memory.add_user_message(
                    said
                )  # the other half of an exchange is worth keeping by itself
                print(f"you: {said}\n(no answer, but what you said is remembered: {exc})\n")
                continue
            await memory.update_memory(said, reply)  # durable; nothing else is waited for
            print(f"you: {said}\nassistant: {reply}\n")


def from_terminal() -> Iterator[str]:
    while said := input("you> ").strip():
        yield said


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or from_terminal()))

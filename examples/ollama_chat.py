"""A chat with a model that Ollama runs on this machine: fetch before it answers, update after. Nothing leaves the machine.

    ollama pull llama3.2 && python examples/ollama_chat.py --model llama3.2

What the user says is read from the terminal, or given as arguments. The memory finds things by its own small model, and facts by
patterns; to have facts found by Ollama's model as well, set MEMORY_AGENT_OPENAI_BASE_URL=http://127.0.0.1:11434/v1 and
MEMORY_AGENT_FACT_EXTRACTION_MODEL to the same model.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator

import httpx

from memory_agent import MemoryAgent, MemoryConfig, MemoryService

INSTRUCTIONS = "You are a helpful assistant. Use what you remember where it helps."


async def answer(ollama: httpx.AsyncClient, model: str, memory: MemoryAgent, said: str) -> AsyncIterator[str]:
    context = await memory.fetch_memory(said)
    messages = [
        {"role": "system", "content": f"{INSTRUCTIONS}\n\n{context}"},
        {"role": "user", "content": said},
    ]
    async with ollama.stream("POST", "/api/chat", json={"model": model, "messages": messages}) as response:
        async for line in response.aiter_lines():
            told = json.loads(line)
            if "error" in told:
                raise SystemExit(f"Ollama: {told['error']}")
            yield told["message"]["content"]


async def main(url: str, model: str, sayings: Iterable[str]) -> None:
    async with (
        MemoryService(MemoryConfig()) as service,
        httpx.AsyncClient(base_url=url, timeout=300) as ollama,
    ):
        memory = service.agent(user_id="ada", thread_id="ollama")
        for said in sayings:
            reply = ""
            async for piece in answer(ollama, model, memory, said):
                print(piece, end="", flush=True)
                reply += piece
            print()
            await memory.update_memory(said, reply)


def from_terminal() -> Iterator[str]:
    while said := input("you> ").strip():
        yield said


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("says", nargs="*", help="what the user says")
    parser.add_argument("--model", default="llama3.2")
    parser.add_argument("--url", default="http://127.0.0.1:11434", help="of Ollama")
    given = parser.parse_args()
    try:
        asyncio.run(main(given.url, given.model, given.says or from_terminal()))
    except httpx.ConnectError:
        raise SystemExit(
            f"nothing answers at {given.url}: start Ollama (`ollama serve`), or pass --url"
        ) from None

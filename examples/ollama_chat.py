"""A chat with a model that Ollama runs on this machine: fetch before it answers, update after. Nothing leaves the machine.

    ollama pull llama3.2 && python examples/ollama_chat.py --model llama3.2

What the user says is read from the terminal, or given as arguments. The memory finds things by its own small model, and facts by
patterns; to have facts found by Ollama's model as well, set MEMORY_AGENT_OPENAI_BASE_URL=http://127.0.0.1:11434/v1 and
MEMORY_AGENT_FACT_EXTRACTION_MODEL to the same model.
"""

import argparse
import asyncio
from collections.abc import Iterable, Iterator

from memory_agent import LLMError, LLMUnavailable, MemoryConfig, MemoryService
from memory_agent.integrations.ollama import BASE_URL, OllamaModel

INSTRUCTIONS = "You are a helpful assistant. Use what you remember where it helps."


async def main(url: str, model: str, sayings: Iterable[str]) -> None:
    ollama = OllamaModel(model, url)
    async with MemoryService(MemoryConfig()) as service:
        memory = service.agent(user_id="ada", thread_id="ollama")
        for said in sayings:
            context = await memory.fetch_memory(said)
            reply = ""
            async for piece in ollama.stream([("system", f"{INSTRUCTIONS}\n\n{context}"), ("user", said)]):
                print(piece, end="", flush=True)
                reply += piece
            print()
            await memory.update_memory(said, reply)
    await ollama.close()


def from_terminal() -> Iterator[str]:
    while said := input("you> ").strip():
        yield said


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("says", nargs="*", help="what the user says")
    parser.add_argument("--model", default="llama3.2")
    parser.add_argument("--url", default=BASE_URL, help="of Ollama")
    given = parser.parse_args()
    try:
        asyncio.run(main(given.url, given.model, given.says or from_terminal()))
    except (LLMUnavailable, LLMError) as exc:
        raise SystemExit(str(exc)) from None

"""A session with a character and two people: names, a context with its ledger, compression, and the whole history.

python examples/sessions.py [FOLDER]
"""

import asyncio
import sys
import tempfile
from collections import Counter

from memory_agent import Character, MemoryConfig, MemoryService, by_kind

MARA = Character(
    name="Mara",
    personality="brisk, dry, fond of figures",
    profile="Keeps the books of a small cosmetics shop in Bergen.",
    traits=("precise", "patient"),
)
OPENING = [
    ("Ines", "I'm Ines, I own the shop. My brother Bo does the window.", "Good morning, Ines. Hello, Bo."),
    ("Bo", "Which of the Korean creams sold best in May?", "LANEIGE, 42 jars. COSRX sold 17."),
    ("Ines", "I'm so happy! We were afraid that nobody would buy it!", "I never doubted the figures."),
    ("Bo", "라네즈는 too dear for students, I think.", "It costs 31 euros, and COSRX 14."),
    ("Ines", "Then let's go with 60 jars of COSRX for September.", "Noted: 60 jars, 840 euros."),
]
DAYS = [
    (
        "Bo",
        "It rained all day, and people came in to look at the soaps, dried their glasses and went out again.",
        "Looking costs nothing, and it is more than the shop across the street can say of its visitors.",
    ),
    (
        "Ines",
        "The post was late, as it always is before a holiday, and then it was only the paper for the till.",
        "It will come when it comes. There is paper enough for the days until then, and string as well.",
    ),
    (
        "Bo",
        "I swept the floor and dusted the lower shelves, which nobody sees who doesn't kneel down for it.",
        "I see it in the account for cleaning, which is where such things go to be seen by somebody.",
    ),
    (
        "Ines",
        "Somebody asked for a mirror, and we have none to sell but the one that hangs beside the door.",
        "Then we sell none. The one beside the door sells more than it would bring, if you ask me.",
    ),
]
END = [
    ("Bo", "By the way, the window needs a new lamp.", "The old one took 60 watts. Take an LED of 7."),
    ("Ines", "I'm allergic to lavender, so nothing scented in the window please.", "No lavender, then."),
    ("Bo", "How large is our share of shelf for LANEIGE?", "A third of nine metres."),
]
TALK = [*OPENING, *(DAYS * 8), *END]


async def main(folder: str) -> None:
    # Small limits, so that in so short a talk there is something to choose.
    cfg = MemoryConfig(
        data_dir=folder,
        mongo_uri=None,
        chroma_host=None,
        short_term_window=4,
    )
    async with MemoryService(cfg) as service:
        memory = service.agent(user_id="ines", thread_id="shop")
        session = await memory.start_session(MARA, participants=["Ines", "Bo"], metadata={"place": "Bergen"})
        for who, said, answer in TALK:
            await memory.add_turn("user", said, speaker=who)
            await memory.add_turn("assistant", answer)
        await memory.settle()
        print(f"session {session.number}: {', '.join(session.participants)} and {MARA.name}")
        print("named:", by_kind(await memory.entities()))

        context = await memory.fetch_memory(
            "How much did we order from 코스알엑스?", max_tokens=600, preset="chat"
        )
        print(f"\n{context}\n\n{context.tokens} of at most {context.budget} tokens:")
        for entry in context.ledger:
            if entry.kept:
                print(f"  {entry.tokens:>3}  {entry.tier:<10}  {entry.item[:23]:<23}  {entry.reason}")
        left = Counter((entry.tier, entry.reason) for entry in context.ledger if not entry.kept)
        for (tier, reason), count in left.items():
            print(f"  left out: {count} of {tier}, {reason}")
        print("as messages:", [message["role"] for message in context.to_messages()])

        compressed = await memory.compress()  # the worker does so by itself when a conversation has grown
        told = compressed.metadata
        print(f"\n{compressed}")
        print(f"\n{told.original_turns} turns of {told.tokens_before} tokens, {told.tokens_after} compressed")
        early = await memory.session_context(through=8)  # as it stood before anything was ordered
        for context_of in (early, compressed):
            quoted = [item.text for item in context_of.summary]
            print(
                f"of {context_of.metadata.original_turns} turns {len(context_of.recent)} are whole; quoted: {quoted}"
            )

        after, pages = 0, []
        while True:
            page = await memory.history(after=after, limit=30)  # word for word, compressed or not
            pages.append(len(page.turns))
            if page.next is None:
                break
            after = page.next
        print("pages of the history:", pages)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            asyncio.run(main(scratch))

"""Forget conversations older than so many days; what is known from them stays, unless --forget-facts.

python examples/cleanup.py [--days 90] [--forget-facts] [--yes] [--data-dir FOLDER]

With the settings of the environment (MEMORY_AGENT_MONGO_URI and others), or in FOLDER. Where a service runs on that folder
(`memory-agent serve`), it is asked to do it. Without --yes it only says what would go.
"""

import argparse
import asyncio
from collections import Counter
from pathlib import Path

from memory_agent import MemoryConfig, MemoryService
from memory_agent.topics.sweep import SweepAction


async def main(days: float, *, forget_facts: bool, yes: bool, folder: Path | None) -> None:
    cfg = MemoryConfig() if folder is None else MemoryConfig(data_dir=folder)
    planned: list[SweepAction] = []
    done: list[SweepAction] = []
    async with MemoryService(cfg) as service:
        await service.sweep(dry_run=True, retention_days=days, forget_facts=forget_facts, each=planned.append)
        print(f"older than {days:g} days:", told(planned))
        if not yes:
            print("nothing was changed; --yes does it")
            return
        report = await service.sweep(retention_days=days, forget_facts=forget_facts, each=done.append)
        print("forgotten:", told(done))
        print("facts from them:", "forgotten, too" if report.forget_facts else "kept")
        for user in (await service.users(limit=10)).users:
            facts = await service.agent(user.user_id, "any").fetch_facts(scope="user")
            print(f"{user.user_id}: {user.turns} turns, facts {dict(facts)}")


def told(actions: list[SweepAction]) -> str:
    """How many turns of which thread, and how many faded topics, for a sweep takes care of those as well."""
    turns = Counter((action.user_id, action.thread_id) for action in actions if action.deed == "forget")
    lines = [f"{count} turns of {user}, {thread}" for (user, thread), count in sorted(turns.items())]
    topics = sum(action.deed != "forget" for action in actions)
    return "; ".join([*lines, *([f"{topics} topics merged or faded"] if topics else [])]) or "nothing"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=float, default=90)
    parser.add_argument("--forget-facts", action="store_true")
    parser.add_argument("--yes", action="store_true")
    parser.add_argument("--data-dir", type=Path)
    given = parser.parse_args()
    asyncio.run(main(given.days, forget_facts=given.forget_facts, yes=given.yes, folder=given.data_dir))

"""What each part of a search costs, and of making turns searchable: `python -m benchmarks.search_cost FILE [--turns N] [--set NAME=VALUE]`.

Remembers the first conversation of a recall set, and asks its questions over its rows, which come again under other ids until
there are `--turns`. Prints the processor time of each part (of a turn: the mean; of a question: the median, after one round unmeasured)
and the bytes a turn that it keeps in memory and in the store, as Markdown. `--set local_embedding_model=multilingual-e5-small` measures that profile.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.measure import SEARCH_ONLY, open_service
from benchmarks.recall import remember, setting
from benchmarks.recall_sets import read_with_gold
from memory_agent.domain import Scope
from memory_agent.search.fusion import DEFAULT_WEIGHTS, best_first, fuse, normalised
from memory_agent.search.late_interaction import SHORTLIST, detail, token_matches, token_weights
from memory_agent.search.query_analysis import Questioner
from memory_agent.search.request import RowFilter
from memory_agent.search.token_codes import packed
from memory_agent.search.user_index import ResidentIndex, behind_repeats
from memory_agent.text.features import features_of
from memory_agent.text.question import gist_of
from memory_agent.text.terms import count_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.recall_sets import Question
    from memory_agent import MemoryService
    from memory_agent.domain import SearchRow, Turn
    from memory_agent.search.postings import CollectionStatistics

USER: Final = "ann"
QUESTIONS: Final = 20


class Clock:
    """The processor time of this process by part, in milliseconds, one entry a question."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(list)

    def of(self, part: str, work: Callable[[], Any]) -> Any:
        """Do `work`, as part of `part`."""
        began = time.thread_time()
        done = work()
        self.spent[part].append(1_000 * (time.thread_time() - began))
        return done


def at_length(rows: Sequence[SearchRow], turns: int) -> list[SearchRow]:
    """The rows again and again under other ids, in threads of their own, until there are so many."""
    times = -(-turns // len(rows))
    made = [
        replace(row, turn_id=f"{row.turn_id}-{n}", thread_id=f"{row.thread_id}-{n}")
        for n in range(times)
        for row in rows
    ]
    return made[:turns]


async def ask(
    service: MemoryService, questioner: Questioner, index: ResidentIndex, question: Question, clock: Clock
) -> None:
    """Ask one question, part by part as `Searcher` does."""
    core = service.core
    gist = gist_of(question.text, ())
    for part, text in (("embedding the question", question.text), ("embedding its gist", gist)):
        began = time.process_time()
        core.embedder.current.clear_cache()
        await core.embedder.current.embed([text], purpose="query")
        clock.spent[part].append(1_000 * (time.process_time() - began))
    await core.embedder.current.embed([question.text, gist], purpose="query")
    began = time.process_time()
    asked = await questioner.asked(
        question.text, now=datetime.now(UTC), where=RowFilter(), known=tuple(index.speakers), called={}, resident=index, degraded=[]
    )  # fmt: skip
    clock.spent["reading the question by rules"].append(1_000 * (time.process_time() - began))
    layout = clock.of("the order of turns", index._places.layout)
    statistics = index.statistics(asked.terms)
    clock.of("`meaning`, `meaning_around`", lambda: index._vectors.cosines(asked.gist, layout.before))
    clock.of(
        "`words`, `words_around`, `words_session`",
        lambda: index._postings.scores(asked.terms, layout, statistics),
    )
    clock.of("`person`", lambda: index._by_who_spoke(asked))
    clock.of("`dates`, `latest`", lambda: index._by_time(asked))
    clock.of(
        "`asks`, `length`, `tells_when`, `counts`, `of_self`, `names`",
        lambda: index._by_signs(asked.question),
    )
    scored = index.score(asked, where=RowFilter())
    weight = statistics.weight(asked.terms)
    values = clock.of("scaling", lambda: normalised(scored.values, weight_of_words=weight))
    order = clock.of("adding up and sorting", lambda: best_first(fuse(values, DEFAULT_WEIGHTS)))
    clock.of("near-duplicates of 60", lambda: behind_repeats(order, scored.turn_ids, index, most=60))
    await look_again(
        service, index, question.text, [scored.turn_ids[i] for i in order[:SHORTLIST]], statistics, clock
    )


async def make_searchable(service: MemoryService, turns: Sequence[Turn], clock: Clock) -> None:
    """Make turns searchable one by one, part by part as `Indexer` does."""
    core = service.core
    embedder, language = core.embedder.current, service.cfg.search_language
    for turn in turns:
        text = turn.searchable_text
        embedder.clear_cache()
        began = time.process_time()
        await embedder.embed(await embedder.split(text), purpose="document")
        clock.spent["embedding"].append(1_000 * (time.process_time() - began))
        tokens = await embedder.embed_tokens([text], purpose="document")
        if tokens is not None:
            clock.of("tokens' codes", partial(packed, tokens[0].vectors))
        clock.of("words", partial(count_terms, text, language))
        clock.of("what it tells: times, numbers, names", partial(features_of, turn.content))
        began = time.process_time()
        await core.spotter.of_turns([turn])
        clock.spent["entities"].append(1_000 * (time.process_time() - began))


async def look_again(
    service: MemoryService,
    index: ResidentIndex,
    text: str,
    best: list[str],
    statistics: CollectionStatistics,
    clock: Clock,
) -> None:
    """Late interaction; nothing with an embedder that has no vectors of tokens."""
    core = service.core
    tokens = await core.embedder.current.embed_tokens([text], purpose="query")
    if tokens is None:
        return
    stored = [turn_id.rpartition("-")[0] for turn_id in best]
    began = time.process_time()
    codes = await core.store.token_codes(USER, stored, embedder=core.embedder.current.fingerprint)
    clock.spent["late interaction: reading tokens"].append(1_000 * (time.process_time() - began))

    def compared() -> Any:
        weights = token_weights(text, tokens[0], statistics, language=service.cfg.search_language)
        matches = token_matches(tokens[0], [codes.get(turn_id, b"") for turn_id in stored])
        return detail(matches, weights, *index.beside(best))

    clock.of("late interaction: comparing", compared)


async def run(arguments: argparse.Namespace) -> None:
    """Measure and print."""
    corpus, _ = next(iter(read_with_gold(arguments.file)))
    clock = Clock()
    async with open_service("sqlite", **SEARCH_ONLY, **dict(arguments.set)) as service:
        core, began = service.core, time.process_time()
        await remember(service.agent(USER, "history"), corpus)
        print(
            f"remembering a turn: {1_000 * (time.process_time() - began) / len(corpus.turns):.1f} ms of processor time"
        )
        made = Clock()
        await make_searchable(service, await core.store.list_turns(Scope(user_id=USER)), made)
        print("\n| part | ms a turn |\n|---|---|")
        for part, spent in made.spent.items():
            print(f"| {part} | {np.mean(spent):.2f} |")
        stored = await core.store.search_rows(USER)
        rows = at_length(stored, arguments.turns)
        index = ResidentIndex(rows, embedder=core.embedder.current.fingerprint)
        questions = corpus.questions[:QUESTIONS]
        questioner = Questioner(
            core.embedder.current, core.spotter, language=service.cfg.search_language, weights=DEFAULT_WEIGHTS
        )
        for question in [questions[0], *questions]:
            await ask(service, questioner, index, question, clock)
        codes = await core.store.token_codes(
            USER, [row.turn_id for row in stored], embedder=core.embedder.current.fingerprint
        )
        print("\n| part | ms a question |\n|---|---|")
        for part, spent in clock.spent.items():
            print(f"| {part} | {np.median(spent[1:]):.2f} |")
        n = len(rows)
        print("\n| kept | bytes a turn |\n|---|---|")
        print(f"| in memory: vectors | {index._vectors.nbytes / n:.0f} |")
        print(f"| in memory: words | {index._postings.nbytes / n:.0f} |")
        print(f"| in memory: all | {index.nbytes / n:.0f} |")
        print(f"| in the store: tokens | {sum(map(len, codes.values())) / len(stored):.0f} |")


def main(given: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=Path, metavar="FILE", help="a recall set")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE")
    asyncio.run(run(parser.parse_args(given)))


if __name__ == "__main__":
    main()

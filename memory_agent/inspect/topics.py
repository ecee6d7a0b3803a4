"""The pages *Topics*: a thread's topics and how they fade, what the next sweep would do, a map of them; and curation."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Final

from memory_agent.errors import InvalidInput
from memory_agent.inspect.page import address
from memory_agent.inspect.plots import decay_plot, map_of, names_of
from memory_agent.topics.index import unmerged
from memory_agent.topics.stats import UNTITLED
from memory_agent.topics.sweep import FADE_BELOW

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from starlette.responses import Response

    from memory_agent.domain import TopicHead
    from memory_agent.inspect.page import Page

_ROWS: Final = 100
_VIEWS: Final = ("list", "map", "sweep")
_LATEST: Final = 20
"""Turns on a topic's own page."""
_OFFERED: Final = 200
"""Topics that a form proposes to merge into; any other's id can be typed."""


async def topics(page: Page) -> Response:
    """The thread's topics as a list with their curves, on a map, or as far as the next sweep concerns them."""
    view = page.asked("view") or "list"
    if view not in _VIEWS:
        raise InvalidInput(f"view is {view!r:.80}; use one of {', '.join(_VIEWS)}")
    shown: dict[str, Any] = {
        "view": view,
        "address_of": functools.partial(address, *page.of_thread("topics")),
    }
    if view == "map":
        return await page.show("topics.html", **await _map(page), **shown)
    if view == "sweep":
        return await _sweep(page, shown)
    start = page.number("from") or 0
    rows, found = await page.api.service.core.topic_reader.page(
        page.agent.scope,
        slice(start, start + _ROWS),
        include_archived=True,
        tag=page.asked("tag") or None,
    )
    return await page.show(
        "topics.html",
        rows=rows,
        count=len(found),
        archived=sum(topic.archived for topic in found),
        start=start,
        page_rows=_ROWS,
        plot=decay_plot(rows),
        **shown,
    )


async def _map(page: Page) -> dict[str, Any]:
    """The topics on a plane, and their titles."""
    async with page.api.service.core.folder.indexes.of(page.agent.scope) as index:
        found = [*index.standing(archived=False), *index.standing(archived=True)]
    made = await asyncio.to_thread(map_of, found)
    # What is in memory has no titles.
    dots = made.dots if made else ()
    titles = await _titles(page, [dot.topic.id for dot in dots])
    return {"map": made, "titles": titles, "names": names_of(dots, titles)}


async def _sweep(page: Page, shown: dict[str, Any]) -> Response:
    """What the next sweep would do to this thread's topics."""
    core, cfg = page.api.service.core, page.api.cfg
    actions = await core.sweeper.foresee(page.agent.scope)
    ids = {one for action in actions[:_ROWS] for one in (action.topic_id, action.into) if one}
    return await page.show(
        "topics.html",
        actions=actions,
        titles=await _titles(page, ids),
        most=cfg.max_topics,
        below=FADE_BELOW,
        retention=cfg.retention_days,
        **shown,
    )


async def topic(page: Page) -> Response:
    """One topic: how it stands and fades, its summary, its latest turns, what was merged into it. Raises NotFound."""
    agent, topic_id = page.agent, page.path("topic")
    stats = await agent.topic_stats(topic_id)
    turns_of = (stats.topic_id, *stats.absorbed)
    turns, heads = await asyncio.gather(
        page.store.list_turns(agent.scope, topic_ids=turns_of, limit=_LATEST, newest=True),
        page.store.topic_heads(agent.scope),
    )
    others = [head for head in unmerged(heads) if head.id != stats.topic_id and not head.archived]
    return await page.show(
        "topic.html",
        topic=stats,
        turns=turns,
        titles=_titles_of(heads),
        others=sorted(others, key=lambda head: head.last_access, reverse=True)[:_OFFERED],
        plot=decay_plot([stats]),
        done=page.asked("done"),
        address_of=functools.partial(address, *page.of_thread("topics")),
    )


async def curate(page: Page) -> Response:
    """Merge, split, tag, archive or restore the topic. Raises InvalidInput."""
    agent, form, topic_id = page.agent, page.form, page.path("topic")
    do = form.get("do", "")
    match do:
        case "merge":
            stats = await agent.merge_topics(topic_id, form.get("into", "").strip())
        case "split":
            stats = await agent.split_topic(form.get("part", topic_id))
        case "tag":
            stats = await agent.tag_topic(topic_id, add=[form.get("tag", "").strip()])
        case "untag":
            stats = await agent.tag_topic(topic_id, remove=[form.get("tag", "")])
        case "archive":
            stats = await agent.archive_topic(topic_id)
        case "restore":
            stats = await agent.restore_topic(topic_id)
        case other:
            raise InvalidInput(
                f"do is {other!r:.80}; use 'merge', 'split', 'tag', 'untag', 'archive' or 'restore'"
            )
    return page.go(*page.of_thread("topics"), stats.topic_id, done=do)


async def _titles(page: Page, ids: Collection[str]) -> dict[str, str]:
    if not ids:
        return {}
    return _titles_of(await page.store.topic_heads(page.agent.scope, ids=sorted(ids)))


def _titles_of(heads: Iterable[TopicHead]) -> dict[str, str]:
    return {head.id: head.title or head.opener or UNTITLED for head in heads}

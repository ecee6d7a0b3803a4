"""Storage of users and their threads."""

from memory_agent import domain as values
from memory_agent.checks import checked_id
from memory_agent.errors import InvalidInput
from memory_agent.wire.base import Answer
from memory_agent.wire.pages import Page, decode_cursor, encode_cursor

UserSummary = Answer[values.UserSummary]
ThreadSummary = Answer[values.ThreadSummary]


def users_to_page(users: values.UsersPage) -> Page[UserSummary]:
    """A page of `MemoryService.users`, for the wire."""
    return Page[UserSummary](
        items=tuple(map(UserSummary.of, users.users)), next_cursor=people_cursor(users.next)
    )


def page_to_users(page: Page[UserSummary]) -> values.UsersPage:
    """The page as `MemoryService.users` returns it."""
    return values.UsersPage(
        users=tuple(user.domain() for user in page.items), next=after_people_cursor(page.next_cursor)
    )


def threads_to_page(threads: values.ThreadsPage) -> Page[ThreadSummary]:
    """A page of `MemoryService.threads`, for the wire."""
    return Page[ThreadSummary](
        items=tuple(map(ThreadSummary.of, threads.threads)), next_cursor=people_cursor(threads.next)
    )


def page_to_threads(page: Page[ThreadSummary]) -> values.ThreadsPage:
    """The page as `MemoryService.threads` returns it."""
    return values.ThreadsPage(
        threads=tuple(thread.domain() for thread in page.items), next=after_people_cursor(page.next_cursor)
    )


def people_cursor(after: str | None) -> str | None:
    """The cursor of the page that follows the id `after`; None for None."""
    return None if after is None else encode_cursor(after)


def after_people_cursor(cursor: str | None) -> str | None:
    """The id that the cursor of a page of users or threads stands for. Raises InvalidInput for that of another list."""
    if cursor is None:
        return None
    after = decode_cursor(cursor)
    if not isinstance(after, str):
        raise InvalidInput(
            f"cursor is {cursor!r:.80}, which is none of a page of users or threads; pass its next_cursor"
        )
    return checked_id("cursor", after)

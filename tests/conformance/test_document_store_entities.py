"""What every RowStore must tell of the entities that search rows name."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_agent.domain import Entity, EntityCount, Scope, SearchRow, new_id
from memory_agent.ports import DocumentStore

from .values import NOW, a_row, a_scope, an_erasure, on_every_server, put_large, stored

HOUR = timedelta(hours=1)
SCOPE = a_scope()
T2 = a_scope(thread_id="t2")
EVE = a_scope("eve")


def naming(
    *names: str,
    hours: float = 0,
    scope: Scope = SCOPE,
    turn_id: str | None = None,
    words: Mapping[str, int] | None = None,
) -> SearchRow:
    """The row of a turn that names these entities ("kind:name"), in this order, among words."""
    terms = {"sea": 1, **{f"@{name}": 1 for name in names}, **(words or {})}
    return replace(a_row(turn_id, scope=scope, terms=terms), timestamp=NOW + HOUR * hours)


def counted(name: str, count: int, first: SearchRow, last: SearchRow) -> EntityCount:
    kind, _, name = name.partition(":")
    return EntityCount(
        entity=Entity(kind=kind, name=name),
        count=count,
        first_turn_id=first.turn_id,
        last_turn_id=last.turn_id,
        first_at=first.timestamp,
        last_at=last.timestamp,
    )


def expected(rows: list[SearchRow]) -> list[EntityCount]:
    """The same, counted row by row."""
    found: dict[str, list[SearchRow]] = {}
    for row in sorted(rows, key=lambda row: (row.timestamp, row.turn_id)):
        for term in row.terms:
            if Entity.from_term(term) is not None:
                found.setdefault(term[1:], []).append(row)
    return [counted(name, len(some), some[0], some[-1]) for name, some in found.items()]


async def test_says_what_turns_name_and_keeps_what_was_given(store: DocumentStore) -> None:
    """Again and again; of unknown turns, another user's and forgotten ones nothing becomes of it."""
    mia, ada, hhi = (
        Entity(kind=kind, name=name) for kind, name in (("p", "Mia"), ("b", "Ada $x"), ("i", "HHI"))
    )
    given = await stored(store, SCOPE, "with", entities=(mia,))
    [bare, gone] = await stored(store, SCOPE, "without", "forgotten")
    [told] = await stored(store, SCOPE, "told at once", entities=(mia, ada), given_entities=())
    [hers] = await stored(store, EVE, "hers")
    await store.erase_turns(an_erasure(SCOPE, [gone.id]), now=NOW, limit=10)
    everyone = [given[0].id, bare.id, gone.id, told.id, hers.id, new_id()]
    for names in ((mia, ada), (hhi,), ()):
        await store.name_entities(SCOPE.user_id, dict.fromkeys(everyone, names))
        turns = await store.list_turns(SCOPE)
        assert [(turn.content, turn.entities, turn.given_entities) for turn in turns] == [
            ("with", names, (mia,)),
            ("without", names, ()),
            ("told at once", names, ()),
        ]
    await store.name_entities(SCOPE.user_id, {})
    [other] = await store.list_turns(EVE)
    assert (other.entities, other.given_entities) == ((), None)


async def test_counts_entities_by_first_mention(store: DocumentStore) -> None:
    """By the timestamp and id of the first turn, and within one turn in the order of its terms."""
    late = naming("b:Zoë", "a:Ada", hours=2)
    early = naming("b:Zoë", "b:Ada", "a:X Y", hours=1)
    same_time = naming("a:first of all", "a:Ada", hours=-1, turn_id="2")
    before_it = naming("z:zzz", hours=-1, turn_id="1")
    there, hers = naming("b:Ada", hours=3, scope=T2), naming("a:x", scope=EVE)
    was = naming("a:gone", hours=-2, turn_id=late.turn_id)
    await put_large(store, "ada", [was, there])
    await put_large(store, "eve", [hers])
    await put_large(store, "ada", [late, early, same_time, before_it])
    mine = [
        counted("z:zzz", 1, before_it, before_it),
        counted("a:first of all", 1, same_time, same_time),
        counted("a:Ada", 2, same_time, late),
        counted("b:Zoë", 2, early, late),
        counted("b:Ada", 1, early, early),
        counted("a:X Y", 1, early, early),
    ]
    # A thread's, or all of a user's, and nobody else's; a row that was replaced names what it holds now.
    assert await store.entity_counts(SCOPE) == mine
    assert await store.entity_counts(T2) == [counted("b:Ada", 1, there, there)]
    mine[4] = counted("b:Ada", 2, early, there)
    assert await store.entity_counts(SCOPE.user) == mine
    assert await store.entity_counts(EVE) == [counted("a:x", 1, hers, hers)]
    assert await store.entity_counts(a_scope("nobody")) == []


@on_every_server
async def test_words_are_no_entities(store: DocumentStore) -> None:
    """Terms that only look like an entity's are passed over, and how often a turn names one does not count."""
    words = {"@": 1, "@home": 2, "@:x": 1, "@UPPER:x": 1, "a:b": 1, "?": 1, "A": 1, "Azur": 1, "[x": 1}
    row = naming("a:b", words=words)
    row = replace(row, terms={**row.terms, "@c:d": 7})
    await put_large(store, "ada", [row, naming()])
    assert await store.entity_counts(SCOPE) == [counted("a:b", 1, row, row), counted("c:d", 1, row, row)]


times = st.sampled_from(
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 7, 20, tzinfo=UTC),
        NOW,
        datetime(9999, 12, 31, tzinfo=UTC),
    ]
)
names = st.sampled_from(["a:é", "a:$x.y", "a:x", "a:X", "b:x", "b-1:海 海", "b:\U0001f1f3"])


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.tuples(times, st.lists(names, unique=True, max_size=4)), max_size=8))
async def test_counts_what_the_rows_hold(
    store: DocumentStore, turns: list[tuple[datetime, list[str]]]
) -> None:
    """Whatever is named when, with whichever characters, the counts are those of the rows."""
    scope = a_scope(new_id())
    rows = [replace(naming(*some, scope=scope), timestamp=time) for time, some in turns]
    await put_large(store, scope.user_id, rows)
    assert await store.entity_counts(scope) == expected(rows)

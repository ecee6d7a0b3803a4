"""Tenants that write, read, attack and forget in any order, as a state machine; beside it what each may see."""

from __future__ import annotations

import asyncio
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from memory_agent.domain import new_id
from tests.integration.rest import segment
from tests.integration.tenancy import SECONDS, Answer, Caller, Place, Reader, Tenancy, mark_of, walked

# `{0}` is the number of the run, `{1}` the name of another tenant.
USERS: Final = (
    "otto{0}",
    "otto{0} ",
    "Otto{0}",
    "otto{0}0",
    "оtto{0}",  # a Cyrillic o
    "otto{0}\u200b",
    unicodedata.normalize("NFC", "é{0}"),
    unicodedata.normalize("NFD", "é{0}"),
    "{1}/otto",
    "{1}%1Fotto",
    "{1}%251Fotto",
    "{1}\\x1fotto",
    "{1}␟otto",
    "{1}:otto",
    "{0}/../otto",
    "../{0}",
    "otto{0}%2Fmain",
    "otto{0}/main",
    "otto{0}?user_id={1}#x",
    "otto+{0}&tenant={1}",
    '{{"$ne": {0}}}',
    "' OR {0}=1 --",
    "otto{0};tenant={1}",
)
THREADS: Final = ("main", "main ", "..", ".", "a/b", "a%2Fb", "events", "current", "%1F", "{1}", "*")
HOSTILE: Final = ("{1}\x1fotto{0}", "{1}\x1f", "\x1fotto{0}", "otto{0}\x1f", "\x1f", "")
KINDS: Final = (
    *("any", "any", "own", "reader", "own reader", "spare", "expired", "chimera", "wrong", "unknown"),
)
REFUSED: Final = ("expired", "chimera", "wrong", "unknown")

READS: Final = (
    *("turns?limit=1000", "turns?limit=1", "turns/recent?limit=100", "context", "compressions", "entities"),
    *("entities?scope=user", "stats", "facts", "facts?scope=user", "facts/history"),
    *("facts/history?scope=user&limit=1", "topics?archived=true", "topics?limit=1", "topics/current"),
    *("topics/current/history", "sessions", "sessions?limit=1", "sessions/current"),
)
# About a user or a thread (`writes`): what is owed there, and who there is.
OWED: Final[tuple[tuple[str, str, bool], ...]] = (
    ("GET", "{user}/stats", False),
    ("GET", "{user}/threads", False),
    ("GET", "{thread}", False),
    ("POST", "{user}/settle", False),
    ("POST", "{user}/retry", True),
    ("POST", "{thread}/retry", True),
    ("POST", "{user}/rebuild", True),
)
# About everybody: not for the key of a tenant.
EVERYBODY: Final = (
    ("GET", "/api/stats"),
    ("POST", "/api/settle"),
    ("POST", "/api/retry"),
    ("POST", "/api/worker/pause"),
    ("POST", "/api/worker/resume"),
    ("POST", "/api/sweep"),
)
SEARCHES: Final = ("thread", "user", "topic", "fetch", "recall", "recall all", "context", "facts", "topics")
# What takes an id: of what, with the method and the body; `{id}` is where it stands.
BY_ID: Final[tuple[tuple[str, str, str, Any], ...]] = (
    ("session", "GET", "/api/sessions/{id}", None),
    ("session", "GET", "/api/sessions/{id}?user_id={user}", None),
    ("session", "GET", "/api/sessions/{id}/context?user_id={user}", None),
    ("session", "GET", "/api/sessions/{id}/summary", None),
    ("session", "GET", "/api/sessions/{id}/history?user_id={user}", None),
    ("session", "POST", "/api/sessions/{id}/compress", None),
    ("session", "GET", "turns?session_id={id}", None),
    ("turn", "GET", "turns/{id}/topic?timeout=0", None),
    ("topic", "GET", "topics/{id}", None),
    ("topic", "GET", "topics/{id}/context", None),
    ("topic", "GET", "topics/{id}/history", None),
    ("topic", "POST", "topics/{id}/merge", {"into": "{id}"}),
    ("topic", "POST", "topics/{own}/merge", {"into": "{id}"}),
    ("topic", "POST", "topics/{id}/split", None),
    ("topic", "POST", "topics/{id}/tags", {"add": ["seen"]}),
    ("topic", "POST", "topics/{id}/importance", {"importance": 0.5}),
    ("topic", "POST", "topics/{id}/archive", None),
    ("topic", "POST", "topics/{id}/restore", None),
    (
        "topic",
        "POST",
        "/api/memory/search",
        {"user_id": "{user}", "thread_id": "{thread}", "query": "town", "topic_id": "{id}"},
    ),
    ("topic", "POST", "feedback", {"turn_or_topic": "{id}", "useful": True}),
    ("turn", "POST", "feedback", {"turn_or_topic": "{id}", "useful": True}),
    ("turn", "POST", "facts/revert", {"path": "memo", "to": "{id}"}),
)


def filled(value: Any, **values: str) -> Any:
    """A request with these values in the places of their names."""
    if isinstance(value, dict):
        return {name: filled(inner, **values) for name, inner in value.items()}
    for name, given in values.items() if isinstance(value, str) else ():
        value = value.replace(f"{{{name}}}", given)
    return value


def asked_by_id(index: int, id_: str, place: Place, own: str) -> tuple[str, str, Any]:
    """Method, path and body of an operation that takes an id; `own` is that of a topic of the thread itself."""
    _, method, path, body = BY_ID[index]
    path = filled(path, id=segment(id_), user=segment(place.user), own=own)
    body = filled(body, id=id_, user=place.user, thread=place.thread or "")
    return method, path if path.startswith("/") else f"{place.path}/{path}", body


# --- a machine of tenants ----------------------------------------------------------------------------------------
some = st.integers(0, 2**16)
"""Which of a list that is not known yet."""


def step(does: Callable[..., Coroutine[Any, Any, None]], **drawn: Any) -> Any:
    """A rule: a caller of some kind does so about a place, on the machine's loop."""

    def run(self: Tenants, kind: str, which: int, **rest: Any) -> None:
        self.run(does(self, *self._ask(kind, which), **rest))

    ruled: Any = rule(kind=st.sampled_from(KINDS), which=some, **drawn)
    return ruled(run)


class Tenants(RuleBasedStateMachine):
    """Three tenants with the same users and threads, who write, read, attack and forget; beside it what each may see."""

    tenancy: ClassVar[Tenancy]
    runner: ClassVar[asyncio.Runner]
    runs: ClassVar[int] = 0
    steps: ClassVar[int] = 0

    def run(self, step: Coroutine[Any, Any, Any]) -> Any:
        type(self).steps += 1
        return self.runner.run(step)

    @initialize(
        users=st.lists(st.sampled_from(USERS), min_size=2, max_size=3, unique=True),
        threads=st.lists(st.sampled_from(THREADS), min_size=2, max_size=2, unique=True),
        tail=st.sampled_from(["-", "_", "0", "a"]),
        listened=st.lists(some, min_size=2, max_size=2),
    )
    def begin(self, users: list[str], threads: list[str], tail: str, listened: list[int]) -> None:
        run = type(self).runs = type(self).runs + 1
        # One is the beginning of another; what users and threads are called by is the others' names.
        self.tenants = ["default", f"t{run}x", f"t{run}x{tail}"]
        self.users = [user.format(run, self.tenants[1]) for user in users]
        self.threads = [thread.format(run, self.tenants[1]) for thread in threads]
        self.run_number = run
        self.places = [Place(t, u, th) for t in self.tenants for u in self.users for th in self.threads]
        marks = {place: mark_of(run, number) for number, place in enumerate(self.places)}
        self.tenancy.marks.clear()  # of the runs before, which no answer is about
        self.tenancy.marks.update(marks)
        self.turns: dict[Place, dict[str, str]] = {place: {} for place in self.places}
        self.keyed: dict[tuple[Place, str], str] = {}
        self.gone: set[str] = set()
        self.ever: defaultdict[Place, set[str]] = defaultdict(set)
        self.ids: set[str] = set()
        self.named: defaultdict[tuple[Place, str], set[str]] = defaultdict(set)
        self.cursors: list[str] = []
        self.readers: list[tuple[Reader, set[str]]] = []
        self.run(self._make_callers())
        self.run(self._seed())
        for which in listened:
            self.run(self._listen(*self._ask("any", which), after=None))

    async def _make_callers(self) -> None:
        made = self.tenancy.caller
        self.callers: dict[tuple[str, str], Caller] = {}
        for tenant in self.tenants:
            self.callers |= {
                (tenant, "any"): await made(tenant),
                (tenant, "own"): await made(tenant, self.users[0]),
                (tenant, "reader"): await made(tenant, read_only=True),
                (tenant, "own reader"): await made(tenant, self.users[0], read_only=True),
                (tenant, "spare"): await made(tenant),
                (tenant, "expired"): await made(tenant, expired=True),
            }
        for number, tenant in enumerate(self.tenants):
            other = self.callers[self.tenants[number - 1], "any"].token
            _, id_, secret = self.callers[tenant, "any"].token.split("_")
            wrong = secret[:-1] + ("a" if secret[-1] != "a" else "b")
            for kind, token in (
                ("chimera", f"ma_{id_}_{other.split('_')[2]}"),
                ("wrong", f"ma_{id_}_{wrong}"),
                ("unknown", f"ma_{'a' * 16}_{secret}"),
            ):
                self.callers[tenant, kind] = Caller(tenant=tenant, token=token, counts=False)

    async def _seed(self) -> None:
        for place in self.places:
            await self._write(self.callers[place.tenant, "any"], place, "update", None, 0)
            await self._edit_facts(self.callers[place.tenant, "any"], place, "set", None)
        await self.tenancy.service.settle(SECONDS)
        for place in self.places:  # which tells the ids of sessions and topics
            await self._read(self.callers[place.tenant, "any"], place, "turns?limit=1000", None)

    def _ask(self, kind: str, which: int) -> tuple[Caller, Place]:
        place = self._place(which)
        note(f"{kind} of {place}")
        return self.callers[place.tenant, kind], place

    def _place(self, which: int) -> Place:
        return self.places[which % len(self.places)]

    # --- what is true afterwards
    async def _check_counts(self) -> None:
        for place in self.places:
            assert await self.tenancy.turns(place) == len(self.turns[place]), place

    def _stored(self, place: Place, answer: Answer, text: str, key: str | None) -> None:
        known = self.keyed.get((place, key)) if key else None
        if answer.status == 410:
            assert known in self.gone
            return
        assert answer.status < 300, answer
        turn_ids = answer.json.get("turn_ids") or [t["id"] for t in answer.json.get("items", [answer.json])]
        if known is not None:
            assert turn_ids == [known]
            return
        assert not set(turn_ids) & self.ids
        self.ids |= set(turn_ids)
        self.ever[place] |= set(turn_ids)
        self._note_names(answer, place)
        self.turns[place] |= dict.fromkeys(turn_ids, text)
        for reader, expected in self.readers:
            if reader.place == place:
                expected |= set(turn_ids)
        if key:
            self.keyed[place, key] = turn_ids[0]

    def _lost(self, place: Place, turn_ids: set[str]) -> None:
        for id_ in turn_ids & set(self.turns[place]):
            del self.turns[place][id_]
            self.gone.add(id_)
        for _, expected in self.readers:
            expected -= turn_ids

    # --- writing
    async def _write(self, caller: Caller, place: Place, how: str, key: str | None, number: int) -> None:
        mark = self.tenancy.marks[place]
        text = f"My name is {mark.capitalize()}. I live in {mark.capitalize()} Town, number {number}."
        reply = f"Noted, {mark}."
        asking: dict[str, Any] = {"about": place, "writes": True}
        if how == "remember":
            key = None
            answer = await self.tenancy.tool(caller, "remember", text=text, reply=reply, **asking)
        else:
            key = key if how == "turns" else None
            turn = {"role": "user", "content": text, "metadata": {"mark": mark}}
            bodies: dict[str, dict[str, Any]] = {
                "update": {"user_msg": text, "assistant_msg": reply},
                "turns": turn,
                "bulk": {"turns": [turn, {"role": "assistant", "content": reply, "speaker": mark}]},
            }
            path = f"{place.path}/{'turns/bulk' if how == 'bulk' else how}"
            headers = {"Idempotency-Key": key} if key else {}
            answer = await self.tenancy.rest(caller, "POST", path, bodies[how], headers=headers, **asking)
        if caller.refusal(place, writes=True) is None:
            self._stored(place, answer, text, key)
        await self._check_counts()

    write = step(
        _write,
        how=st.sampled_from(["update", "turns", "bulk", "remember"]),
        key=st.sampled_from([None, "k", "main"]),
        number=st.integers(1, 9),
    )

    async def _edit_facts(self, caller: Caller, place: Place, how: str, key: str | None) -> None:
        mark = self.tenancy.marks[place]
        asking: dict[str, Any] = {"about": place, "writes": True}
        if how == "mcp":
            answer = await self.tenancy.tool(caller, "correct_fact", path="memo", value=mark, **asking)
        else:
            method, path = {"set": ("PUT", "facts"), "add": ("POST", "facts/add")}.get(
                how, ("POST", "facts/retract")
            )
            body = {"path": {"add": "many"}.get(how, "memo"), "value": mark}
            headers = {"Idempotency-Key": key} if key else {}
            answer = await self.tenancy.rest(
                caller, method, f"{place.path}/{path}", body, headers=headers, **asking
            )
        if caller.refusal(place, writes=True) is None and how in ("set", "mcp"):
            assert answer.status in (200, 410), answer

    edit_facts = step(
        _edit_facts,
        how=st.sampled_from(["set", "add", "retract", "mcp"]),
        key=st.sampled_from([None, "k", "main"]),
    )

    async def _start_session(self, caller: Caller, place: Place, key: str | None, in_path: bool) -> None:
        body = {"participants": [self.tenancy.marks[place]], "metadata": {"k": self.tenancy.marks[place]}}
        path = f"{place.path}/sessions"
        if not in_path:
            body |= {"user_id": place.user, "thread_id": place.thread}  # type: ignore[dict-item]
            path = "/api/sessions/start"
        headers = {"Idempotency-Key": key} if key else {}
        answer = await self.tenancy.rest(
            caller, "POST", path, body, about=place, writes=True, headers=headers
        )
        if caller.refusal(place, writes=True) is None:
            assert answer.status in (201, 410), answer
            self._note_names(answer, place)

    start_session = step(_start_session, key=st.sampled_from([None, "k"]), in_path=st.booleans())

    # --- reading
    async def _read(self, caller: Caller, place: Place, what: str, cursor: int | None) -> None:
        about = place.owner if "scope=user" in what else place
        path = f"{place.path}/{what}"
        if cursor is not None and "limit" in what and self.cursors:
            # Of whatever list of whomever: what it says is a place in the list asked for, or nothing.
            path += f"&cursor={self.cursors[cursor % len(self.cursors)]}"
        answer = await self.tenancy.rest(caller, "GET", path, about=about)
        if caller.refusal(place, writes=False) is not None:
            return
        assert answer.status == 200 or "cursor" in path or "current" in what, answer
        if answer.status != 200:
            return
        if what == "turns?limit=1000" and "cursor" not in path:
            assert [turn["id"] for turn in answer.json["items"]] == list(self.turns[place])
        if what == "stats":
            assert answer.json["turns"] == len(self.turns[place])
        if isinstance(answer.json, dict) and answer.json.get("next_cursor"):
            self.cursors.append(answer.json["next_cursor"])
        if "scope=user" not in what:
            self._note_names(answer, place)

    read = step(_read, what=st.sampled_from(READS), cursor=some | st.none())

    async def _search(self, caller: Caller, place: Place, how: str, whose: int, id_: int) -> None:
        """For the words of any tenant, its own or another's."""
        other = self._place(whose)
        query = f"Who is {self.tenancy.marks[other]}, and where is the town of {other.user}?"
        everywhere = how in ("user", "recall all")
        about = place.owner if everywhere else place
        tools: dict[str, dict[str, Any]] = {
            "recall": {"question": query, "top_k": 50},
            "recall all": {"question": query, "top_k": 50, "scope": "user"},
            "context": {"message": query},
            "facts": {},
            "topics": {"id": self._any_topic(id_)} if id_ % 2 else {"archived": True},
        }
        if how in tools:
            answer = await self.tenancy.tool(caller, how.split()[0], about=about, **tools[how])
        elif how == "fetch":
            body = {"user_message": query, "max_tokens": 4_000}
            answer = await self.tenancy.rest(caller, "POST", f"{place.path}/fetch", body, about=place)
        else:
            body = {"user_id": place.user, "query": query, "top_k": 100}
            body |= {} if how == "user" else {"thread_id": place.thread}
            body |= {"topic_id": self._any_topic(id_)} if how == "topic" else {}
            answer = await self.tenancy.rest(caller, "POST", "/api/memory/search", body, about=about)
            if answer.status == 200:
                mine = {id_ for at, turns in self.turns.items() if at.owner == place.owner for id_ in turns}
                assert {item["turn"]["id"] for item in answer.json["items"]} <= mine
        if caller.refusal(place, writes=False) is None:
            assert answer.status == {"topic": 404, "topics": 422}.get(how) or answer.status == 200, answer

    search = step(_search, how=st.sampled_from(SEARCHES), whose=some, id_=some)

    async def _look_after(
        self, caller: Caller, place: Place, what: tuple[str, str, bool], whose: int
    ) -> None:
        """What is owed to a user or a thread, and who there is; another tenant's and everybody's is refused."""
        other = self._place(whose)
        method, path, writes = what
        path = path.format(user=place.owner_path, thread=place.path)
        about = place if place.path in path else place.owner
        named = {"Memory-Agent-Tenant": other.tenant}
        crossing = await self.tenancy.rest(
            caller, method, path, about=about, writes=writes, headers=named, refuses=False
        )
        foreign = 403 if caller.counts and other.tenant != caller.tenant else None
        due = foreign or caller.refusal(place, writes=writes)
        assert crossing.status == due if due else crossing.status in (200, 202, 204, 404), crossing
        answer = await self.tenancy.rest(caller, method, path, about=about, writes=writes)
        if caller.refusal(place, writes=writes) is None and path.endswith("/stats"):
            there = [turns for at, turns in self.turns.items() if at.owner == place.owner]
            assert answer.json["turns"] == sum(map(len, there))
        for method, path in EVERYBODY:
            refused = await self.tenancy.rest(caller, method, path, about=place, refuses=False)
            assert refused.status == (403 if caller.counts else 401), refused
        await self._check_users(caller, place)

    look_after = step(_look_after, what=st.sampled_from(OWED), whose=some)

    async def _check_users(self, caller: Caller, place: Place) -> None:
        got = await self.tenancy.http.get("/api/users", params={"limit": 1_000}, headers=caller.headers)
        if not caller.counts:
            assert got.status_code == 401
            return
        listed = {user["user_id"] for user in got.json()["items"]} & set(self.users)
        known = {at.user for at in self.places if at.tenant == caller.tenant and self.turns[at]}
        assert listed >= known if caller.user is None else listed == known & {caller.user}, (listed, known)
        ever = {at.user for at, ids in self.ever.items() if at.tenant == caller.tenant and ids}
        assert listed <= ever

    async def _look_around(self, caller: Caller, place: Place, whose: int) -> None:
        """All of the above, and what is told without a key."""
        for what in READS:
            await self._read(caller, place, what, None)
        for how in SEARCHES:
            await self._search(caller, place, how, whose, 0)
        await self.tenancy.check_public()

    look_around = step(_look_around, whose=some)

    def _any_topic(self, which: int) -> str:
        """A topic's id, of anybody."""
        ids = sorted(id_ for (_, of), named in self.named.items() if of == "topic" for id_ in named)
        return [*ids, new_id()][which % (len(ids) + 1)]

    async def _ask_by_id(self, caller: Caller, place: Place, whose: int, number: int) -> None:
        """With the ids of whatever somebody has: of another's there is no such thing."""
        other = self._place(whose)
        note(f"by ids of {other}")
        topics = sorted(self.named[place, "topic"]) or [new_id()]
        for index, (of, method, path, _) in enumerate(BY_ID):
            ids = sorted(self.turns[other] if of == "turn" else self.named[other, of])
            if not ids:
                continue
            id_ = ids[number % len(ids)]
            method, path, body = asked_by_id(index, id_, place, topics[0])
            about = self._asked_about(caller, place, other, path)
            writes = method == "POST" and path != "/api/memory/search"
            answer = await self.tenancy.rest(caller, method, path, body, about=about, writes=writes)
            if caller.refusal(about, writes=writes) is None and not self._reaches(about, other, path):
                assert answer.status in (404, 422), answer
            if answer.status < 300:
                self._note_names(answer, place if about == place else other)
        await self._check_counts()

    ask_by_id = step(_ask_by_id, whose=some, number=some)

    def _asked_about(self, caller: Caller, place: Place, other: Place, path: str) -> Place:
        """Whose memory is asked for: where a session is named alone, that of the one whose it is, within the tenant."""
        if not path.startswith("/api/sessions"):
            return place
        if "user_id=" in path:
            return place.owner
        if caller.user is not None:
            return Place(caller.tenant, caller.user)
        return other.owner if other.tenant == caller.tenant else place.owner

    def _reaches(self, about: Place, other: Place, path: str) -> bool:
        return other.owner == about if path.startswith("/api/sessions") else other == about

    def _note_names(self, answer: Answer, place: Place) -> None:
        for name, value in walked(answer.json):
            if name in ("session_id", "topic_id") and value is not None:
                self.named[place, name.removesuffix("_id")].add(value)

    async def _reextract(self, caller: Caller, place: Place, whole_user: bool) -> None:
        path, about = (place.owner_path, place.owner) if whole_user else (place.path, place)
        await self.tenancy.rest(caller, "POST", f"{path}/facts/reextract", about=about, writes=True)

    reextract = step(_reextract, whole_user=st.booleans())

    # --- forgetting
    def _any_turn(self, which: int) -> str:
        ids = [id_ for turns in self.turns.values() for id_ in turns]
        return ids[which % len(ids)] if ids else new_id()

    async def _forget(self, caller: Caller, place: Place, which_turns: list[int], mcp: bool) -> None:
        """Turns of whomever: only one's own go."""
        ids = sorted({self._any_turn(one) for one in which_turns})
        asking: dict[str, Any] = {"about": place, "writes": True}
        if mcp:
            answer = await self.tenancy.tool(caller, "forget", turn_ids=ids, **asking)
        else:
            answer = await self.tenancy.rest(
                caller, "POST", f"{place.path}/forget", {"turn_ids": ids}, **asking
            )
        if caller.refusal(place, writes=True) is None:
            assert answer.json["turns"] == len(set(ids) & set(self.turns[place]))
            self._lost(place, set(ids))
        await self._check_counts()

    forget = step(_forget, which_turns=st.lists(some, min_size=1, max_size=4), mcp=st.booleans())

    async def _clear(self, caller: Caller, place: Place, whole_user: bool) -> None:
        about = place.owner if whole_user else place
        path = place.owner_path if whole_user else place.path
        answer = await self.tenancy.rest(caller, "DELETE", path, about=about, writes=True)
        if caller.refusal(place, writes=True) is None:
            gone = [at for at in self.places if at == about or (whole_user and at.owner == about)]
            assert answer.json["turns"] == sum(len(self.turns[at]) for at in gone)
            for at in gone:
                self._lost(at, set(self.turns[at]))
        await self._check_counts()

    clear = step(_clear, whole_user=st.booleans())

    # --- keys, ids and addresses that are none
    @rule(which=some)
    def revoke(self, which: int) -> None:
        """From then on the key counts no more, whoever has it."""
        place = self._place(which)
        spare = self.callers[place.tenant, "spare"]
        if spare.counts:
            self.run(self.tenancy.revoke(spare))
            self.callers[place.tenant, "spare"] = Caller(tenant=spare.tenant, token=spare.token, counts=False)

    async def _name_another(self, caller: Caller, place: Place, hostile: str, how: str) -> None:
        """An id that would be another tenant's user in the stores is none that can come in."""
        bad = hostile.format(self.run_number, self.tenants[1])
        user, thread = (place.user, bad) if how == "thread" else (bad, "main")
        named = Place(place.tenant, user, thread)
        asking: dict[str, Any] = {"about": named, "refuses": False}
        session = f"/api/sessions/{new_id()}?user_id={segment(bad)}"
        ways: dict[str, tuple[str, str, Any]] = {
            "path": ("GET", f"{named.path}/turns", None),
            "thread": ("GET", f"{named.path}/turns", None),
            "body": ("POST", "/api/memory/search", {"user_id": bad, "query": "town"}),
            "query": ("GET", session, None),
            "start": ("POST", "/api/sessions/start", {"user_id": bad, "thread_id": "main"}),
            "delete": ("DELETE", named.owner_path, None),
        }
        if how in ways:
            answer = await self.tenancy.rest(caller, *ways[how], **asking)
        else:
            answer = await self.tenancy.tool(caller, "recall", question="town", **asking)
        # Without a user there is no such address; whoever may ask for one user alone learns nothing else.
        assert answer.status in ((404, 405, 422, 403) if caller.counts else (401, 404)), answer
        await self._check_counts()

    name_another = step(
        _name_another,
        hostile=st.sampled_from(HOSTILE),
        how=st.sampled_from(["path", "thread", "body", "query", "mcp", "start", "delete"]),
    )

    # --- events
    async def _listen(self, caller: Caller, place: Place, after: int | None) -> None:
        """From now on, or from an event of anybody's."""
        if len(self.readers) >= 4:
            return
        seen = sorted({event["id"] for reader, _ in self.readers for event in reader.events})
        last = None if after is None or not seen else seen[after % len(seen)]
        reader = await Reader.opened(self.tenancy, caller, place, after=last)
        due = caller.refusal(place, writes=False)
        is_right = reader.status == due or (due is None and reader.status in (200, 410))
        assert is_right, (reader.status, await reader.close())
        if reader.status == 200:
            self.readers.append((reader, set()))
        else:
            await reader.close()

    listen = step(_listen, after=some | st.none())

    # --- what is in the background
    async def _settle(self, _: Caller, place: Place) -> None:
        caller = self.callers[place.tenant, "any"]
        answer = await self.tenancy.rest(caller, "POST", f"{place.path}/settle", about=place)
        assert answer.status == 204, answer
        body = {"user_id": place.user, "thread_id": place.thread, "query": self.tenancy.marks[place]}
        found = await self.tenancy.rest(caller, "POST", "/api/memory/search", body, about=place)
        # What one may see is found; else that nothing else is would say little.
        assert bool(found.json["items"]) == bool(self.turns[place])

    settle = step(_settle)

    def teardown(self) -> None:
        if hasattr(self, "callers"):
            self.run(self._end())

    async def _end(self) -> None:
        try:
            # Everybody says something more, readers' own places last: by then what is not for them has been handed out.
            for place in [*self.places, *(reader.place for reader, _ in self.readers)]:
                await self._write(self.callers[place.tenant, "any"], place, "update", None, 0)
            for reader, expected in self.readers:
                await reader.hear(expected)
                assert {event["turn_id"] for event in reader.events} <= {None, *self.ever[reader.place]}
        finally:
            wrong = [await reader.close() for reader, _ in self.readers]
        assert not any(wrong), wrong
        for place in self.places:
            await self._read(self.callers[place.tenant, "any"], place, "turns?limit=1000", None)
        await self.tenancy.check_public()

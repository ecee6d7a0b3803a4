"""The outside model of `benchmarks.kills` and `service_load`: what callers were told, and how it differs from what a memory holds. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Said = list[Any]
"""A turn: its id, seq, role and text."""
Call = dict[str, Any]
"""A call and its arguments: `op` with `place` ("user/thread"), `user`, `texts`, `ids`, `path`, `value`, `key`."""


def takes(call: Call, place: str, turn_id: str = "") -> bool:
    """True if the call takes this turn out, or without one, everything in the place."""
    if call["op"] == "forget":
        return call["place"] == place and turn_id in call["ids"]
    if call["op"] == "clear":
        return bool(call["place"] == place)
    return bool(call["op"] == "forget_user" and place.startswith(f"{call['user']}/"))


@dataclass(kw_only=True, slots=True)
class Held:
    """What a memory holds: turns in order, and edited facts, by place."""

    turns: dict[str, list[Said]] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def ids(self) -> set[str]:
        """Of all turns."""
        return {turn[0] for turns in self.turns.values() for turn in turns}

    def take_out(self, call: Call) -> list[Said]:
        """Do what a call that forgets does; the turns that went."""
        gone, left = [], {}
        for place, turns in self.turns.items():
            stay = [turn for turn in turns if not takes(call, place, turn[0])]
            gone += [turn for turn in turns if turn not in stay]
            if stay:
                left[place] = stay
        self.turns = left
        self.facts = {place: marks for place, marks in self.facts.items() if not takes(call, place)}
        return gone


@dataclass(kw_only=True, slots=True)
class Model:
    """What was acknowledged. `kept`: the same for the newest whole backup, less what was forgotten since."""

    now: Held = field(default_factory=Held)
    kept: Held | None = None
    gone: list[str] = field(default_factory=list)
    """Ids and texts of all that was forgotten."""
    calls: int = 0

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Model:
        """What `asdict` made."""
        kept = given["kept"]
        held = {"now": Held(**given["now"]), "kept": None if kept is None else Held(**kept)}
        return cls(**{**given, **held})

    def acknowledge(self, call: Call, result: Mapping[str, Any]) -> None:
        """The call returned."""
        self.calls += 1
        if call["op"] == "say":
            ids, seq = result["ids"], result["seq"]
            turns = self.now.turns.setdefault(call["place"], [])
            for at, role in enumerate(("user", "assistant")):
                turns.append([ids[at], seq - 1 + at, role, call["texts"][at]])
        elif call["op"] == "set":
            self.now.facts.setdefault(call["place"], {})[call["path"]] = call["value"]
        else:
            for held in (self.now, self.kept):
                if held is not None:
                    for turn in held.take_out(call):
                        self.gone += [turn[0], turn[3]]


def replayed(lines: Iterable[Mapping[str, Any]], model: Model) -> list[Call]:
    """Take in a process's log, and give the calls that it began and did not come back from."""
    open_calls: dict[int, Call] = {}
    for line in lines:
        if "begin" in line:
            open_calls[line["number"]] = line["begin"]
        else:
            model.acknowledge(open_calls.pop(line["number"]), line["done"])
    return list(open_calls.values())


def differences(wanted: Held, found: Held, gone: set[str], doubtful: Sequence[Call] = ()) -> Iterator[str]:
    """What is wrong with a memory, a sentence each. `doubtful`: calls that may have taken effect, wholly or in part."""
    for place in sorted({*wanted.turns, *found.turns}):
        yield from _turns_wrong(
            place, wanted.turns.get(place, []), found.turns.get(place, []), gone, doubtful
        )
    for place in sorted({*wanted.facts, *found.facts}):
        yield from _facts_wrong(place, wanted.facts.get(place, {}), found.facts.get(place, {}), doubtful)


def _turns_wrong(
    place: str, wanted: Sequence[Said], found: Sequence[Said], gone: set[str], doubtful: Sequence[Call]
) -> Iterator[str]:
    may_go = {turn[0] for turn in wanted if any(takes(call, place, turn[0]) for call in doubtful)}
    there = {turn[0]: turn for turn in found}
    if len(there) < len(found):
        yield f"{place}: turns are doubled: {[turn[1] for turn in found]}"
    numbers = [turn[1] for turn in found]
    if numbers != sorted(set(numbers)):
        yield f"{place}: numbers do not rise: {numbers}"
    for turn in wanted:
        if turn[0] not in there and turn[0] not in may_go:
            yield f"{place}: turn {turn} was acknowledged and is lost"
        elif turn[0] in there and there[turn[0]] != turn:
            yield f"{place}: turn {turn} was acknowledged and is {there[turn[0]]}"
    known = {turn[0] for turn in wanted}
    strangers = [turn for turn in found if turn[0] not in known]
    for turn in strangers:
        if turn[0] in gone or turn[3] in gone:
            yield f"{place}: turn {turn} was forgotten and is back"
    for call in doubtful:
        if call["op"] == "say" and call["place"] == place:
            its = [turn[3] for turn in strangers if turn[3] in call["texts"]]
            if its == call["texts"][: len(its)]:
                strangers = [turn for turn in strangers if turn[3] not in its]
    if strangers:
        yield f"{place}: turns {strangers} were never acknowledged"
    left = [turn[0] for turn in found if turn[0] in known]
    if left != [turn[0] for turn in wanted if turn[0] in there]:
        yield f"{place}: turns are out of order: {left}"


def _facts_wrong(
    place: str, wanted: Mapping[str, str], found: Mapping[str, str], doubtful: Sequence[Call]
) -> Iterator[str]:
    for path in sorted({*wanted, *found}):
        allowed = {wanted.get(path)}
        for call in doubtful:
            if call["op"] == "set" and (call["place"], call["path"]) == (place, path):
                allowed.add(call["value"])
            elif takes(call, place):
                allowed.add(None)
        if found.get(path) not in allowed:
            yield f"{place}: the fact {path} is {found.get(path)!r}, and {wanted.get(path)!r} was acknowledged"

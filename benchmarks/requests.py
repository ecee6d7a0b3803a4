"""Requests: messages that ask for nothing, with what they go back to, asked of a memory that ends before them.

A file of requests is JSON lines of a recall set's ids, without any of its text:

    {"set": …, "corpus": …, "turn": "the user's turn that is the message", "gold_turns": [ids], "type": …}

Everything said before the message is remembered, the message and what comes after it is not. It is given to `fetch_memory`, as an
application does, and what this recalls is ranked by score. The last exchange, from the turn of the
same role before it on, is in every prompt: it is no answer, and can't be evidence.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.recall_sets import BadRecallSet, Corpus, Evidence, Gold, Question

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.recall_sets import Sets


class Request(NamedTuple):
    """One line of the file. `where`: its file and line, for messages."""

    where: str
    turn: str
    type: str
    gold: frozenset[str]


def in_place_of_questions(sets: Sets, file: Path) -> Sets:
    """The sets, named "SET requests", with the file's requests as their questions. Raises BadRecallSet naming the line.

    Lines of sets and corpora that are not given are passed over, as are sets and corpora without a line; not all of them.
    """
    requests = read_requests(file)
    found = {}
    for name, corpora in sets.items():
        asked = [
            _asking(corpus, requests[name, corpus.name])
            for corpus, _ in corpora
            if (name, corpus.name) in requests
        ]
        if asked:
            found[f"{name} requests"] = asked
    if not found:
        given = ", ".join(sorted({of for of, _ in requests}))
        raise BadRecallSet(
            f"{file} has no request of {', '.join(map(repr, sets))}; it has those of {given or 'no set'}"
        )
    return found


def read_requests(file: Path) -> dict[tuple[str, str], list[Request]]:
    """The requests by set and corpus. Raises BadRecallSet naming the line."""
    if not file.is_file():
        raise BadRecallSet(f"there is no file {str(file)!r}; give one of requests")
    found: dict[tuple[str, str], list[Request]] = defaultdict(list)
    for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{file}, line {number}"
        try:
            record: dict[str, Any] = json.loads(line)
            gold = frozenset(map(str, record["gold_turns"]))
            request = Request(where, str(record["turn"]), str(record["type"]), gold)
            found[str(record["set"]), str(record["corpus"])].append(request)
        except KeyError as exc:
            raise BadRecallSet(f"{where}: {exc.args[0]!r} is missing") from exc
        except (TypeError, ValueError) as exc:
            raise BadRecallSet(f"{where}: not a request ({exc})") from exc
    return dict(found)


def _asking(corpus: Corpus, requests: list[Request]) -> tuple[Corpus, Gold]:
    questions, evidence = list[Question](), dict[str, Evidence]()
    sessions = {turn.id: turn.session for turn in corpus.turns}
    ids = list(sessions)
    for request in requests:
        if request.turn not in sessions:
            raise BadRecallSet(f"{request.where}: corpus {corpus.name!r} has no turn {request.turn!r}")
        if request.turn in evidence:
            raise BadRecallSet(
                f"{request.where}: turn {request.turn!r} stands in an earlier line; leave one out"
            )
        place = ids.index(request.turn)
        said = corpus.turns[place]
        last = next((i for i in reversed(range(place)) if corpus.turns[i].role == said.role), place)
        if late := sorted(request.gold - set(ids[:last])):
            raise BadRecallSet(
                f"{request.where}: evidence has to lie before the last exchange, which begins with turn {ids[last]!r};"
                f" leave out {late}"
            )
        if not request.gold:
            raise BadRecallSet(f"{request.where}: no evidence; leave out a message that goes back to nothing")
        evidence[said.id] = Evidence(
            turns=request.gold, sessions=frozenset(sessions[turn] for turn in request.gold)
        )
        questions.append(
            Question(
                id=said.id,
                text=said.text,
                type=request.type,
                date=said.date,
                before=said.id,
                shown=frozenset(ids[last:place]),
            )
        )
    return Corpus(name=corpus.name, turns=corpus.turns, questions=tuple(questions)), Gold(
        by_question=evidence
    )

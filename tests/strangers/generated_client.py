"""What an application does with a client that openapi-python-client made: `generated_client.py ADDRESS`, key in $KEY.

Runs where the client lies as the package `made`, in the strangers' environment. Prints what it got, as JSON.
"""

import json
import os
import sys

from made import AuthenticatedClient
from made.api.facts import fetch_facts, set_fact
from made.api.search import search_memory
from made.api.threads import fetch_memory, forget_turns, settle_thread, thread_status
from made.api.topics import show_topic
from made.api.turns import add_turns, list_turns, update_memory
from made.models import AddTurn, AddTurnRole, AddTurns, Fetch, Forget, Search, SetFact, Update

USER, THREAD = "ada", "trip to Porto / 1"


def main() -> None:
    client = AuthenticatedClient(base_url=sys.argv[1], token=os.environ["KEY"], timeout=60)
    said = Update(
        user_msg="I'm allergic to walnuts, and I take the number 7 tram to work.", assistant_msg="Noted."
    )
    first = update_memory.sync(USER, THREAD, client=client, body=said, idempotency_key="one")
    again = update_memory.sync(USER, THREAD, client=client, body=said, idempotency_key="one")
    more = [
        AddTurn(role=AddTurnRole.USER, content=text)
        for text in ("The tuner comes on Monday.", "It's raining.")
    ]
    added = add_turns.sync(USER, THREAD, client=client, body=AddTurns(turns=more))
    settle_thread.sync_detailed(USER, THREAD, client=client)
    set_fact.sync(USER, THREAD, client=client, body=SetFact(path="name", value="Ada"))
    found = search_memory.sync(client=client, body=Search(user_id=USER, query="Which tram do I take?"))
    context = fetch_memory.sync(
        USER, THREAD, client=client, body=Fetch(user_message="What can't I eat?", max_tokens=500)
    )
    forgotten = forget_turns.sync(USER, THREAD, client=client, body=Forget(turn_ids=[added.items[1].id]))
    page = list_turns.sync(USER, THREAD, client=client, limit=2)
    rest = list_turns.sync(USER, THREAD, client=client, limit=2, cursor=page.next_cursor)
    missing = show_topic.sync_detailed(USER, THREAD, "no-such-topic", client=client)
    refused = fetch_memory.sync_detailed(USER, THREAD, client=client, body=Fetch(user_message=""))
    print(
        json.dumps(
            {
                "first": first.to_dict(),
                "again": again.to_dict(),
                "found": [each.turn.content for each in found.items],
                "context": context.text,
                "facts": fetch_facts.sync(USER, THREAD, client=client).to_dict(),
                "forgotten": forgotten.to_dict(),
                "listed": [turn.content for turn in [*page.items, *rest.items]],
                "status": thread_status.sync(USER, THREAD, client=client).to_dict(),
                "missing": [missing.status_code, missing.parsed.to_dict()],
                "refused": [refused.status_code, refused.parsed.to_dict()],
            }
        )
    )


main()

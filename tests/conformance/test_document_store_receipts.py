"""What every DocumentStore must do with receipts of erasures, and with bytes that deleting leaves in files."""

from dataclasses import replace

from memory_agent.domain import ErasureReceipt
from memory_agent.ports import DocumentStore

from .values import NOW, a_scope, stored

SCOPE = a_scope()
RECEIPT = ErasureReceipt(
    id="0190b0a0-0000-7000-8000-000000000002",
    at=NOW,
    key="k",
    tenant="default",
    user="u" * 64,
    thread="t" * 64,
    turns=("a", "b"),
    before_id="0190b0a0-0000-7000-8000-000000000003",
)


async def test_keeps_receipts(store: DocumentStore) -> None:
    """As they were put, by rising id and by state, a page at a time; one of the same id takes the place of the first."""
    whole = replace(RECEIPT, id="0190b0a0-0000-7000-8000-000000000001", thread=None, turns=(), state="swept")
    assert await store.receipts() == []
    await store.put_receipt(RECEIPT)
    await store.put_receipt(whole)
    assert await store.receipts() == [whole, RECEIPT]
    assert await store.receipts(limit=1) == [whole]
    assert await store.receipts(after=whole.id, limit=9) == [RECEIPT]
    assert await store.receipts(limit=0) == []
    await store.put_receipt(replace(RECEIPT, state="erased"))
    assert await store.receipts(state="erased") == [replace(RECEIPT, state="erased")]
    assert await store.receipts(state="owed") == []


async def test_rewriting_files_changes_nothing(store: DocumentStore) -> None:
    """Everything is there as it was, and each part of the files has its state."""
    turns = await stored(store, SCOPE, "one", "two")
    own = await store.rewrite_files()
    assert await store.list_turns(SCOPE) == turns
    [more] = await stored(store, SCOPE, "three")
    assert more.seq == 3
    tiers = await store.file_tiers()
    assert {tier.state for tier in tiers} == ({"owed"} if own else {"operator"})
    assert all(tier.note for tier in tiers)

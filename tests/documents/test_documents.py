"""Every place of the founding documents has a test, and every row of docs/documents.md that says where we differ."""

from tests.documents.frame import (
    DOCUMENTS,
    PAGE,
    Said,
    count,
    functions,
    marks_of,
    missing,
    place_of,
    places,
    rows,
    shown,
)


def test_every_place_has_a_test() -> None:
    gone = [f"{p.document}  {p.section}  {p.words}" for document in DOCUMENTS for p in missing(document)]
    assert not gone, "\n".join([f"{len(gone)} places have no test:", *gone])


def test_every_test_names_a_place_and_no_place_that_is_unknown() -> None:
    for each in functions().values():
        for function in each:
            assert list(marks_of(function)), f"{function} names no place of a document"
    for said in shown():
        place_of(said)


def test_no_two_places_of_a_document_have_the_same_words() -> None:
    for document in DOCUMENTS:
        words = [place.words for place in places(document)]
        assert len(words) == len(set(words)), document


def test_every_row_of_the_page_is_named_by_a_test_and_stands_in_the_order_of_its_document() -> None:
    named: dict[str, list[Said]] = {}
    for said in shown():
        if said.better is not None:
            named.setdefault(said.better, []).append(said)
    assert sorted(row.name for row in rows()) == sorted(named)
    stands = {}
    for row in rows():
        found = [place_of(said) for said in named[row.name] if said.document == row.document]
        here = [place for place in found if place.section == row.section]
        assert here, (
            f"{row.name} names the heading {row.section!r}; its tests name {[p.section for p in found]}"
        )
        stands[row] = min(map(places(row.document).index, here))
    for document in DOCUMENTS:
        of_it = [row for row in rows() if row.document == document]
        assert of_it == sorted(of_it, key=stands.__getitem__)


def test_the_page_has_the_count() -> None:
    assert count() in PAGE.read_text("utf-8"), f"python -m tests.documents prints it:\n{count()}"

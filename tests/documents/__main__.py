"""Print the count of docs/documents.md and the places that no test names: `python -m tests.documents`."""

from tests.documents.frame import DOCUMENTS, count, missing

print(count())
for document in DOCUMENTS:
    for place in missing(document):
        print(f"{document}  {place.section}  {place.words}")

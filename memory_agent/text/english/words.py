"""English word lists that several rules need."""

from __future__ import annotations

from typing import Final

AUXILIARY: Final = (
    r"(?:is|are|am|was|were|do|does|did|can|could|should|would|will|shall|may|might|must|have|has|had"
    r"|(?:is|are|was|were|do|does|did|could|would|should|have|has|had)n't|can't|won't)"
)
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
FAMILY: Final = (
    r"(?:(?:late |ex-)?(?:wife|husband)|spouse|partner|fianc[eé]e?|girlfriend|boyfriend|mom|mum|mother|dad|father"
    r"|parents?|sisters?|brothers?|(?:mother|father|sister|brother|son|daughter)-in-law|in-laws|sons?|daughters?"
    r"|step(?:father|mother|son|daughter|sister|brother)|kids?|child(?:ren)?|baby|twins|family|grand(?:ma|pa"
    r"|mother|father|parents|son|daughter|children)|granny|uncle|aunt|cousin|niece|nephew|god(?:son|daughter))"
)
ANIMALS: Final = r"(?:dog|cat|puppy|kitten|horse|rabbit|parrot|hamster|tortoise|pony)"
NEAR: Final = (
    rf"(?:{FAMILY}|{ANIMALS}|friend|flatmate|roommate|housemate|neighbou?r|colleague|boss|manager|teacher"
    r"|therapist|doctor|coach|mentor|ex)"
)
"""Who belongs to somebody: family, animals, those one lives, works or talks with."""

"""Korean: word lists and rules, as data."""

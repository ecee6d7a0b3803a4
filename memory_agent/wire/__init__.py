"""The JSON of requests and answers, as service and client share it.

`base` (what all models share), `answers`, `requests`, `pages` (lists a page at a time), `encoding` (answers written straight from
values) and `problems` (errors). Import what you need from its module; nothing is loaded here.
"""

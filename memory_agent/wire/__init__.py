"""The JSON of requests and answers, as service and client share it: one module for each kind of value.

`base` (what all models share), `turns`, `context`, `facts`, `topics`, `people`, `work` (answers), `requests`, `pages`
(lists a page at a time), `paths` (ids in addresses) and `problems` (errors). Import what you need from its module; nothing is loaded here.
"""

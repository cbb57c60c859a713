"""The chaos suite: clients that use a whole ddqueue, a nemesis that breaks what it runs on, and a checker that reads
only the recorded history of both.

`python -m tests.chaos --jobs 60 --seed 7` runs it; docs/decisions/0012-how-chaos-is-checked.md says what is checked and
how far it can be trusted.
"""

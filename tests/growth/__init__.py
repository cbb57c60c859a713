"""Whether a worker grows: a whole ddqueue runs many jobs and then idles, and what it holds is looked at on the way.

`python -m tests.growth --jobs 200 --idle-s 900` runs it; exit code 0 when nothing grew, 1 when something did.
"""

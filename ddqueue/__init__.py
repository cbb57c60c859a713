"""ddqueue: a distributed job queue for benchmarking LLM serving on several GPU hosts."""

__version__ = "0.1.0"

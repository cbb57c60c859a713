"""Coding checks: suites, a sandbox for code that a model wrote, and the grader."""

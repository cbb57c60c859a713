"""What is computed from one window of requests: one metric a file, each with its tag, unit, formula and source."""

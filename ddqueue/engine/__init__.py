"""SGLang under control: its command line, start, readiness, configuration and end."""

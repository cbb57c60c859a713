"""The load client, in a process of its own."""

"""A host's GPUs: who owns them, what they hold, and proof that they are free."""

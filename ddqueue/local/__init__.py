"""Real Postgres and Valkey from wheels, for a machine without either."""

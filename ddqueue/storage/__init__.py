"""Postgres: tables, fenced SQL in named files, views."""

"""The broker: the Celery application, wake-ups, and events for Flower."""

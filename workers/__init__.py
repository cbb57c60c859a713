"""What runs on a GPU host: the Celery entry, one thin task, and the attempt process."""

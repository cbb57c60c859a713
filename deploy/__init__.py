"""Puts ddqueue on hosts over ssh, and takes it away: releases, configuration, services, and how they are looked after.

`rollout.py` reads aloud what a deployment does. Nothing imports this package but the command line and the fabfile.
"""

"""Tasks of Django as jobs: `jobwright.django.Backend` for TASKS, and the command `manage.py jobwright_worker`.

For the command, `jobwright.django` is in INSTALLED_APPS.
"""

from .backend import Backend

__all__ = ["Backend"]

"""Several databases: the default one can't be used, and the other one does not commit by itself."""

from .settings import *  # noqa: F403
from .settings import DATABASES, TASKS

DATABASES = {"default": {}, "jobs": {**DATABASES["default"], "AUTOCOMMIT": False, "ATOMIC_REQUESTS": False}}
DATABASE_ROUTERS = ["django_project.routers.Router"]
TASKS = {"default": {**TASKS["default"], "OPTIONS": {**TASKS["default"]["OPTIONS"], "DATABASE": "jobs"}}}

"""Its settings, from the environment."""

import importlib.util
import os
from typing import Any

import django
from psycopg.conninfo import conninfo_to_dict

found = conninfo_to_dict(os.environ["DATABASE_URL"])
schema = os.environ["JOBWRIGHT_TEST_SCHEMA"]
backport = ["django_tasks"] if django.VERSION < (6,) and importlib.util.find_spec("django_tasks") else []

SECRET_KEY = "for tests only"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [*backport, "jobwright.django", "django_project"]
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": found.get("dbname"),
        "USER": found.get("user"),
        "PASSWORD": found.get("password"),
        "HOST": found.get("host"),
        "PORT": found.get("port"),
        "ATOMIC_REQUESTS": True,
        "OPTIONS": {"application_name": schema, "options": f"-c search_path={schema},public"},
    }
}
TASKS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "jobwright.django.Backend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"SCHEMA": schema, "MAX_ATTEMPTS": 2, "RETRY": "fixed(100ms)"},
    }
}
LOGGING_CONFIG = None
ROOT_URLCONF = "django_project.urls"
ALLOWED_HOSTS = ["*"]

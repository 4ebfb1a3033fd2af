"""A project of Django with tasks."""

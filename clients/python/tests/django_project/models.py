"""The table that the tasks write."""

from django.db import models


class Effect(models.Model):
    """A row says that a task has committed."""

    job = models.UUIDField(primary_key=True)
    note = models.TextField()

    class Meta:
        managed = False
        db_table = "effect"

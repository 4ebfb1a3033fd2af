"""A view that enqueues a task, and fails after that if it is told to."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from .jobs import add


def enqueue(request: HttpRequest) -> HttpResponse:
    add.enqueue(1, 2)
    if "fail" in request.GET:
        raise LookupError("after the task")
    return HttpResponse("enqueued")


urlpatterns = [path("enqueue", enqueue)]

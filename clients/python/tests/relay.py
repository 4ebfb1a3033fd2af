"""A relay between a worker and its server, which can be silent or lose connections at a commit."""

import contextlib
import socket
import threading

import psycopg


class Relay:
    def __init__(self, url: str) -> None:
        found = psycopg.conninfo.conninfo_to_dict(url)
        self._target = (str(found.get("host", "localhost")), int(found.get("port") or 5432))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = psycopg.conninfo.make_conninfo(
            url, host="127.0.0.1", port=self._server.getsockname()[1], sslmode="disable", connect_timeout=2
        )
        self.silent = False
        self.loses: str | None = None
        """The next `COMMIT` is lost, with its connection: the `request`, or the `answer` to it."""
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> "Relay":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        for one in [self._server, *self._sockets]:
            one.close()

    def _accept(self) -> None:
        try:
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                answers_lost = threading.Event()
                for arguments in ((client, server, None, answers_lost), (server, client, answers_lost, None)):
                    threading.Thread(target=self._copy, args=arguments, daemon=True).start()
        except OSError:
            return

    def _copy(
        self,
        source: socket.socket,
        target: socket.socket,
        lost: threading.Event | None,
        loses_answers: threading.Event | None,
    ) -> None:
        try:
            while data := source.recv(65536):
                if loses_answers is not None and self.loses is not None and b"COMMIT" in data:
                    what, self.loses = self.loses, None
                    if what == "request":
                        return
                    loses_answers.set()
                if lost is not None and lost.is_set():
                    return
                if not self.silent:
                    target.sendall(data)
        except OSError:
            pass
        finally:
            for one in (source, target):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

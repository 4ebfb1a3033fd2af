"""A signal may come at any moment, also while the main thread holds a lock."""

import subprocess
import sys

SCRIPT = """
import signal, threading, time
from jobwright.threads.signals import Signals

main = threading.get_ident()
for round in range(100):
    with Signals() as signals:
        delay = round * 0.000009
        other = threading.Thread(target=lambda: (time.sleep(delay), signal.pthread_kill(main, signal.SIGTERM)))
        other.start()
        while not signals.wait(0):
            pass
        other.join()
    assert signals.count == 1
"""


def test_a_signal_never_blocks_the_thread_that_waits_for_it() -> None:
    assert subprocess.run([sys.executable, "-c", SCRIPT], timeout=60).returncode == 0

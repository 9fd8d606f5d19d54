"""Reads from a store in forked children while the parent reads.

Called as ``python fork_reads.py PATH``, with storage options in ``OPTIONS``. Prints the answers as
JSON. It is a process of its own because the libraries of other tests have threads and locks that do
not survive a fork.
"""

import json
import os
import select
import signal
import sys
import threading

import shardmill as sm
from breadth import examples
from promptness import HANGS_S

FORKS = examples(5, 2)
#: Of a parent whose threads read all the time.
BUSY_FORKS = examples(20, 5)
#: In the second of four files.
ROW = 4000


def in_a_fork(work):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = json.dumps(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    try:
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        ready = poll.poll(1000 * HANGS_S)
        if not ready:
            os.kill(child, signal.SIGKILL)
            return "hangs"
        return os.read(reading, 1 << 16).decode()
    finally:
        os.waitpid(child, 0)
        os.close(reading)


def beside_readers(path, data):
    """What children say that are forked while threads of the parent read."""
    is_done, answers = False, []

    def read():
        while not is_done:
            data[ROW]

    threads = [threading.Thread(target=read, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(answers) < BUSY_FORKS and "hangs" not in answers:
        answers.append(in_a_fork(lambda: len(sm.Dataset(path))))
    is_done = True
    for thread in threads:
        thread.join()
    return answers


def main():
    data = sm.Dataset(sys.argv[1], storage_options=json.loads(os.environ["OPTIONS"]))
    loader = sm.Loader(data, batch_size=100, output="numpy", columns=["id"])
    passing = iter(loader)
    read = len(next(passing)["id"])
    answers = {"row": [], "pass": []}
    # Threads of the parent may hold whatever they hold at this moment.
    for _ in range(FORKS):
        answers["row"].append(in_a_fork(lambda: data[ROW]["id"]))
        answers["pass"].append(in_a_fork(lambda: sum(len(batch["id"]) for batch in loader)))
    answers["parent"] = read + sum(len(batch["id"]) for batch in passing)
    answers["busy"] = beside_readers(sys.argv[1], data)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()

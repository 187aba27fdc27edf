"""Random programs over the public interface, in processes that may die.

    python -m tests.fuzz --minutes 60          programs 0, 1, 2, ... for an hour
    python -m tests.fuzz --replay 1234         one of them, with every step

Found are: the death of the process, calls of more than ten seconds, exceptions other than
ValueError, TypeError and MemoryError, messages of NumPy and SciPy, RuntimeWarnings, and models that
an error changed. A program follows from its seed.
"""

import argparse
import contextlib
import faulthandler
import json
import resource
import selectors
import subprocess
import sys
import time
from collections import Counter

HANG = 10.0
MEMORY = 6 << 30


def work(first: int, step: int, last: int | None) -> None:
    """Run programs one after the other, and print what comes of each."""
    from tests.fuzz import programs

    faulthandler.enable()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def say(**message: object) -> None:
        print(json.dumps(message), flush=True, file=sys.__stdout__)

    seed = first
    while last is None or seed <= last:
        say(start=seed)
        program = programs.run(seed, lambda step: say(step=step))
        found = [vars(finding) for finding in program.findings]
        say(end=seed, steps=program.steps, findings=found)
        seed += step


class Worker:
    """A process that runs programs, and the one that it is at."""

    def __init__(self, first: int, step: int, last: int | None = None) -> None:
        end = [] if last is None else [str(last)]
        command = [sys.executable, "-m", "tests.fuzz", "--work", str(first), str(step), *end]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        # Imports are not part of a program.
        self.seed, self.since, self.step = first, time.monotonic() + 50.0, "import"

    def stop(self) -> str:
        """End the process, and return the end of what it had to say."""
        self.process.kill()
        return "\n".join(self.process.communicate()[1].strip().splitlines()[:12])


def main() -> int:
    """Run programs until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--replay", type=int, help="run one program, and show its steps")
    parser.add_argument("--work", nargs="+", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        first, step, *last = options.work
        work(first, step, last[0] if last else None)
        return 0
    if options.replay is not None:
        options.seed, options.jobs = options.replay, 1
    deadline = time.monotonic() + 60 * options.minutes
    last = options.replay
    workers = [Worker(options.seed + k, options.jobs, last) for k in range(options.jobs)]
    n_programs, n_calls, kinds = 0, 0, Counter[tuple[str, ...]]()

    def report(seed: int, kind: str, call: str, text: str, place: str = "") -> None:
        # One report of each: the same cause is found many times.
        key = (kind, call.split("(")[0], text.split(":")[0], place or text[:60])
        kinds[key] += 1
        if kinds[key] == 1:
            print(f"program {seed}: {kind}: {call}\n    {text} [{place}]", flush=True)

    while time.monotonic() < deadline:
        if last is not None and n_programs + sum(kinds.values()) and workers[0].seed > last:
            break
        selector = selectors.DefaultSelector()
        for worker in workers:
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        for key, _ in selector.select(timeout=1.0):
            worker = key.data
            line = worker.process.stdout.readline()
            if not line:
                continue
            answer = json.loads(line)
            worker.seed, worker.since = answer.get("start", worker.seed), time.monotonic()
            worker.step = answer.get("step", worker.step)
            if "end" in answer:
                n_programs += 1
                n_calls += len(answer["steps"])
                if last is not None:
                    print(*answer["steps"], sep="\n")
                for finding in answer["findings"]:
                    report(answer["end"], **finding)
        selector.close()
        for k, worker in enumerate(workers):
            code = worker.process.poll()
            hangs = time.monotonic() - worker.since > HANG
            if code is None and not hangs:
                continue
            if code == 0:
                worker.seed = (last or 0) + 1
                continue
            text = worker.stop()
            kind = "hang" if code is None else f"death ({code})"
            report(worker.seed, kind, worker.step, text)
            following = worker.seed + options.jobs
            workers[k] = Worker(following, options.jobs, last)
    for worker in workers:
        worker.stop()
    print(f"{n_programs} programs, {n_calls} calls, {sum(kinds.values())} findings of {len(kinds)}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())

"""Random programs over the public interface, in processes that may die.

    python -m tests.fuzz --minutes 60          programs 0, 1, 2, ... for an hour
    python -m tests.fuzz --replay 1234         one of them, with every step

Found are: the death of the process, calls of more than twenty seconds of processor time, exceptions
other than ValueError, TypeError and MemoryError, messages of NumPy and SciPy, RuntimeWarnings, and
models that an error changed. A program follows from its seed.
"""

import argparse
import contextlib
import faulthandler
import json
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import Any

from tests.process_clock import ProcessClock

# Seconds of a call: of processor time, and asleep. One that waits for a processor, or for memory to
# come back, is neither. Histograms learned with hardly any regularisation take twelve and can be
# interrupted: no hang.
HANG = 20.0
ASLEEP = 60.0
# What imports may take beyond a call.
IMPORT = 50.0
MEMORY = 6 << 30


def work(first: int, step: int, last: int | None) -> None:
    """Run programs one after the other, and print what comes of each."""
    from tests.fuzz import programs

    faulthandler.enable()
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def say(**message: object) -> None:
        print(json.dumps(message), flush=True, file=sys.__stdout__)

    def announce(step: str) -> None:
        # Where it is, should it hang.
        faulthandler.dump_traceback_later(0.9 * HANG, file=sys.__stderr__)
        say(step=step)

    seed = first
    while last is None or seed <= last:
        say(start=seed)
        program = programs.run(seed, announce)
        faulthandler.cancel_dump_traceback_later()
        found = [vars(finding) for finding in program.findings]
        say(end=seed, steps=program.steps, findings=found)
        seed += step


class Worker:
    """A process that runs programs, and the one that it is at."""

    def __init__(self, first: int, step: int, last: int | None = None) -> None:
        end = [] if last is None else [str(last)]
        command = [sys.executable, "-m", "tests.fuzz", "--work", str(first), str(step), *end]
        # What faulthandler says of a death.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, text=True
        )
        self.seed, self.step = first, "import"
        self._clock = ProcessClock(self.process.pid)
        self.steps: list[str] = []
        self.answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Note at once what the process is at, and pass on what came of its programs."""
        for line in self.process.stdout or ():
            answer = json.loads(line)
            self._clock.restart()
            if "start" in answer:
                self.seed, self.steps = answer["start"], []
            elif "step" in answer:
                self.step = answer["step"]
                self.steps.append(self.step)
            else:
                self.answers.put(answer)

    def hangs(self) -> bool:
        """Say whether the process has been at one step for too long; to be asked all the time."""
        used = self._clock.used() - (IMPORT if self.step == "import" else 0.0)
        return used > HANG or self._clock.asleep() > (2 if self.step == "import" else 1) * ASLEEP

    def stop(self) -> str:
        """End the process, and return what it had to say."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self._errors.seek(0)
        return "\n".join(self._errors.read().strip().splitlines()[:30])


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

    def report(seed: int, subject: str, kind: str, call: str, text: str, place: str = "") -> None:
        # One report of each: the same cause is found many times.
        key = (kind, call.split("(")[0], text.split(":")[0], place or text[:60])
        kinds[key] += 1
        if kinds[key] == 1:
            about = call if call == subject else f"{subject}: {call}"
            print(f"program {seed}: {kind}: {about}\n    {text} [{place}]", flush=True)

    def collect(worker: Worker) -> tuple[int, int]:
        programs, calls = 0, 0
        while not worker.answers.empty():
            answer = worker.answers.get()
            programs, calls = programs + 1, calls + len(answer["steps"])
            if last is not None:
                print(*answer["steps"], sep="\n")
            for finding in answer["findings"]:
                report(answer["end"], answer["steps"][0], **finding)
        return programs, calls

    running = True
    while running and time.monotonic() < deadline:
        time.sleep(0.1)
        for k, worker in enumerate(workers):
            code = worker.process.poll()
            hangs = code is None and worker.hangs()
            text = worker.stop() if hangs or code is not None else ""
            programs, calls = collect(worker)
            n_programs, n_calls = n_programs + programs, n_calls + calls
            if code == 0:
                running = False
            elif hangs or code is not None:
                kind = "hang" if hangs else f"death ({code})"
                report(worker.seed, (worker.steps or [worker.step])[0], kind, worker.step, text)
                workers[k] = Worker(worker.seed + options.jobs, options.jobs, last)
                running = last is None
    for worker in workers:
        worker.stop()
    print(f"{n_programs} programs, {n_calls} calls, {sum(kinds.values())} findings of {len(kinds)}")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())

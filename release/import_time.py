"""`python import_time.py [SECONDS]`: how long importing histrs takes beyond scikit-learn's own
modules."""

import subprocess
import sys

MODULES = (
    "descriptors, detection, gaussian_process, kernel_approximation, metrics, neighbors, "
    "prototypes, quantization, spd, streaming, svm, transport"
)
OURS = f"from histrs import {MODULES}"
LARGEST = 0.3
REPEATS = 7


def seconds(code: str) -> float:
    """Return the least processor time that a new process needs: others may be busy."""
    program = (
        f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
    )
    return min(
        float(
            subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(REPEATS)
    )


def main() -> int:
    """Print the difference; return 1 when it is too large."""
    largest = float(sys.argv[1]) if len(sys.argv) > 1 else LARGEST
    listed = subprocess.run(
        [sys.executable, "-c", f"import sys; {OURS}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    # The modules of scikit-learn that are used; what these import comes with them.
    theirs = [name for name in listed.stdout.split() if name.split(".")[0] == "sklearn"]
    alone, whole = seconds(f"import {', '.join(theirs)}"), seconds(OURS)
    print(f"import: {whole:.2f} s, of which {alone:.2f} s is scikit-learn: {whole - alone:.2f} s")
    return int(whole - alone > largest)


if __name__ == "__main__":
    sys.exit(main())

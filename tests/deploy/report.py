"""What was found, a line each."""

import subprocess
import sys
import tempfile
from pathlib import Path


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        # For whatever the parts hand to each other: certificates, rendered files.
        self.work = Path(tempfile.mkdtemp(prefix="deploy-"))

    def hold(self, what, faults):
        """`what` holds unless there are `faults`, which are said."""
        faults = [fault for fault in faults if fault]
        print(f"{'FAILED' if faults else 'ok    '} {what}")
        for fault in faults:
            print(f"         {fault}")
        self.passed += not faults
        self.failed += bool(faults)

    def skip(self, what, why):
        print(f"skipped {what}: {why}")
        self.skipped += 1

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(self.failed > 0)


def faults_of(*command, stdin=None, env=None):
    """What a command says when it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=env, timeout=120)
    return [] if done.returncode == 0 else [f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}"]

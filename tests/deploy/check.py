"""Holds deploy/ and certs/ against the program and the tools that read them. Run by tests/deploy/run."""

import shutil
import sys
from pathlib import Path

import certificates
import chart
import images
import manifests
import monitoring
import unit
from report import Report

ROOT = Path(__file__).resolve().parents[2]


def main():
    program = Path(sys.argv[1])
    if not program.is_file():
        sys.exit(f"no program at {program}: cargo build --release")
    report = Report()
    for part in (certificates, chart, manifests, monitoring, images, unit):
        part.check(ROOT, program, report)
    shutil.rmtree(report.work)
    report.close()


if __name__ == "__main__":
    main()

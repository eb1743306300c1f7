"""``python -m tests.fuzz``: cases of all families, as long as asked."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.fuzz.case import program
from tests.fuzz.families import FAMILIES, draw
from tests.fuzz.supervisor import Found, Nursery, fuzz, shortened


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on (default: 1)")
    parser.add_argument("--cases", type=int, help="so many cases of each family, however long it takes")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument(
        "--family", action="append", choices=FAMILIES, help="only this one; may be given several times"
    )
    parser.add_argument(
        "--debug", action="store_true", help="run the runtime that checks every record and buffer"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--shrink", action="store_true", help="make failing cases short")
    parser.add_argument("--case", metavar="FAMILY:SEED", help="show and run this one")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.case:
        return one_case(options)
    started = time.monotonic()
    seconds = None if options.cases else options.minutes * 60
    families = options.family or FAMILIES
    count, found = fuzz(families, options.seed, options.cases, seconds, options.debug, options.jobs)
    for one in found:
        one = shortened(one, options.debug) if options.shrink else one
        print(f"\n{'-' * 100}\n{one.report()}", flush=True)
    print(f"{count} cases in {time.monotonic() - started:.0f} s, {len(found)} kinds of failure")
    return int(bool(found))


def one_case(options: argparse.Namespace) -> int:
    family, _, seed = options.case.partition(":")
    case = draw(family, int(seed))
    nursery = Nursery(options.debug)
    failure = nursery.verdict(case.steps)
    nursery.close()
    if failure is None:
        print(f"{program(case.steps)}\nnothing is wrong with it")
        return 0
    found = Found(case, failure)
    print((shortened(found, options.debug) if options.shrink else found).report())
    return 1


if __name__ == "__main__":
    sys.exit(main())

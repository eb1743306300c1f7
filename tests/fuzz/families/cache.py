"""The folder of compiled code, damaged between and during its use: what comes out of it is what was compiled."""

from __future__ import annotations

import random

UNITS = ("'a'", "'b'", "'c'")

DAMAGES = (
    "data[:{k} % (len(data) + 1)]", "data[{k} % (len(data) + 1):]", "b''", "bytes(len(data))", "data + b'x'", "data + data",
    "bytes(b ^ (i == {k} % len(data)) << {bit} for i, b in enumerate(data))", "os.urandom(200)", "data[::-1]",
    "cached.bytes_of({v})",
)  # fmt: skip

# What lies in the way; `{p}` is the path of a unit's file, of its draft, or of the folder.
OBSTACLES = (
    "{p}.chmod(0o777)", "{p}.chmod(0o000)", "{p}.chmod(0o400)", "{p}.mkdir()", "{p}.symlink_to('nowhere')",
    "{p}.symlink_to('/dev/zero')", "os.mkfifo({p})", "{p}.touch()", "{p}.unlink()", "{p}.rename({p}.with_name('x'))",
    "os.utime({p}, (2**33, 2**33))", "os.utime({p}, (0, 0))", "{p}.hardlink_to(cached.path({v}))", "{p}.is_dir() and shutil.rmtree({p})",
    "os.chown({p}, 12345, 12345)", "cached.put({p}, b'x' * {k})", "os.truncate({p}, {k} * 1000)",
)  # fmt: skip


def draw(rng: random.Random) -> list[str]:
    steps = ["cached = Cached()"]
    for _ in range(rng.randint(3, 12)):
        u, v = rng.choice(UNITS), rng.choice(UNITS)
        k, bit = rng.choice((0, 1, 7, 8, 9, 60, rng.randrange(10**6))), rng.randrange(8)
        place = rng.choice((f"cached.path({u})", f"cached.path({u})", f"cached.draft({u})", "cached.folder"))
        steps.append(rng.choice((
            f"cached.get({u})", f"cached.get({u})", f"cached.has({u})",
            f"cached.damage({u}, lambda data: {rng.choice(DAMAGES).format(k=k, bit=bit, v=v)})",
            rng.choice(OBSTACLES).format(p=place, k=k, v=v),
            f"in_child(lambda: cached.get({u}))", f"in_threads(lambda: cached.get({u}), lambda: cached.get({v}), seconds=0.01)",
            f"in_threads(lambda: cached.get({u}), lambda: in_child(lambda: cached.get({v})), seconds=0.01)",
            f"cached.compiler_fails = {rng.choice(('True', 'False'))}", f"interrupted(lambda: cached.get({u}), {rng.choice((1, 3, 10))}e-5)",
        )))  # fmt: skip
    return [*steps, "cached.compiler_fails = False", *(f"cached.get({u})" for u in UNITS)]

"""Shows the reply library at work: ``python -m agent.replies --demo > docs/replies.md``."""

from __future__ import annotations

import sys

from agent.replies.demo import demo_page

_USAGE = "usage: python -m agent.replies --demo\n"


def main(arguments: list[str]) -> int:
    """Print the demo page; return the exit status."""
    if arguments != ["--demo"]:
        sys.stderr.write(_USAGE)
        return 2
    sys.stdout.write(demo_page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

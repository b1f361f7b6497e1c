"""`autoassist` and `python -m autoassist`."""

import sys

from autoassist.shadow import shadowed


def main() -> None:
    """Checks that our packages are the ones that will be imported, then hands over to the command line."""
    if problem := shadowed():
        print(f"autoassist: {problem}", file=sys.stderr)
        raise SystemExit(2)
    from autoassist.cli import app

    app()


if __name__ == "__main__":
    main()

"""Where the measured claims of the papers are now."""

import sys

if __name__ == "__main__":
    print("error: the papers' claims are measured by python studies/papers/claims.py, with the same options", file=sys.stderr)
    sys.exit(2)

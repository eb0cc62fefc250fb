"""A fake engine: a program that exits immediately with code 3."""

import sys

if __name__ == "__main__":
    sys.exit(3)

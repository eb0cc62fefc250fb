"""An engine that is none: a program that ends at once, with code 3."""

import sys

if __name__ == "__main__":
    sys.exit(3)

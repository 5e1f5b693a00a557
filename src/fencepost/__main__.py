"""`python -m fencepost` is the `fencepost` command."""

from fencepost.cli.app import main

if __name__ == "__main__":
    main()

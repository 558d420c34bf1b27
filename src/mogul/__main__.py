"""`python -m mogul`: the command line."""

from mogul.cli import main

if __name__ == "__main__":
    main()

"""edge · `python -m dalembert.cli`: the commands without what `python -m dalembert` does around them."""

from dalembert.cli import main

if __name__ == "__main__":
    main()

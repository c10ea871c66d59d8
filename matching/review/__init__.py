"""The review page: a person goes through what match.py found, decides pairs and chooses which files to keep."""

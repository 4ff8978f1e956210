#!/bin/sh
# Checks the subjects of commits, one per line of standard input: at most 72 characters, and no full stop at the end.
wrong=$(grep -E '^.{73}|\.$')
[ -z "$wrong" ] || {
    echo "The subject of a commit has at most 72 characters and no full stop at its end (CONTRIBUTING.md):"
    echo "$wrong"
    exit 1
}

#!/bin/sh
# A client that knows nothing of the broker: clones a repository, adds a file of random bytes, and pushes it in chunks.
# Prints the id of the file's content.
# Usage: push-large.sh URL FOLDER MEBIBYTES
set -eu
git clone --quiet "$1" "$2"
cd "$2"
# Random bytes get no smaller: git is not to try.
git config core.compression 0
git config pack.window 0
git config core.bigFileThreshold 1m
git config http.postBuffer 65536
head -c "${3}m" /dev/urandom >large
git add large
git -c user.name=test -c user.email=test@example.test commit --quiet --message large
git push --quiet
git rev-parse HEAD:large

#!/bin/sh
# A client that knows nothing of the broker: git as it comes, led by the environment alone. Clones each, adds a commit
# larger than git sends in one piece (http.postBuffer), and pushes it.
# Usage: git.sh URL...
set -eu
env
for url in "$@"; do
  set -- -c user.name=test -c user.email=test@example.test
  case $url in *passthrough*) set -- "$@" -c 'http.extraHeader=Authorization: Bearer the-clients-own' ;; esac
  directory=$(mktemp -d)
  git "$@" clone --quiet "$url" "$directory"
  head -c 4000000 /dev/urandom >"$directory/large"
  git "$@" -C "$directory" add large
  git "$@" -C "$directory" commit --quiet --message large
  git "$@" -C "$directory" push --quiet
  echo "200 clone $url $(cat "$directory/file")"
  echo "200 push $url $(git -C "$directory" rev-parse HEAD)"
  rm -rf "$directory"
done

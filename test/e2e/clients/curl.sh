#!/bin/sh
# A client that knows nothing of the broker: curl as it comes, led by the environment alone.
# Usage: curl.sh URL...
set -eu
env
for url in "$@"; do
  set -- --silent --show-error --include --suppress-connect-headers --write-out '\n%{http_code} %{method} %{url}\n'
  case $url in *passthrough*) set -- "$@" --header 'Authorization: Bearer the-clients-own' ;; esac
  curl "$@" "$url"
  printf 'body %.0s' $(seq 1000) | curl "$@" --data-binary @- "$url"
done

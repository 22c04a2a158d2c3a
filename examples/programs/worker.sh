#!/usr/bin/env bash
# A worker in Bash. Run it with: dibs work orders -- ./worker.sh
# The payload is on standard input: {"order": 7, "amount": 12.5}
set -euo pipefail

payload=$(cat)
order=$(sed -n 's/.*"order" *: *\([0-9]*\).*/\1/p' <<<"$payload")

if [[ -z $order ]]; then
  echo "the payload has no order: $payload" >&2
  exit 65 # Retrying is useless: a dead letter.
fi
if [[ -e ${SHOP_CLOSED:-/nonexistent} ]]; then
  echo 30s # The shop is closed: try again in 30 seconds, without using up an attempt.
  exit 75
fi

echo "attempt $DIBS_ATTEMPT of order $order" >&2
printf '{"order": %s, "shipped": true, "by": "bash"}\n' "$order"

#!/usr/bin/env bash
# Runs the tests. Usage: test.sh [--all] [pytest arguments ...]; --all adds those that take long.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
environment "[dev]"
select=(-m "not slow")
if [ "${1:-}" = "--all" ]; then
  select=()
  shift
fi
cd "$root"
exec "$root/.venv/bin/python" -m pytest "${select[@]}" "$@"

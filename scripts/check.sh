#!/usr/bin/env bash
# Lints, checks formatting and types.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
environment "[dev]"
cd "$root"
ruff check .
ruff format --check .
mypy

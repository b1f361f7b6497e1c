#!/usr/bin/env bash
# Trains. Usage: launch.sh [CONFIG.toml] [section.key=value ...]
# Without arguments: scikit-learn's handwritten digits, a small CNN, three worker processes.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
environment ""
exec "$root/.venv/bin/python" -P -m autoassist launch "$@"

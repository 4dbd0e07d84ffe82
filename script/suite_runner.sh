#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs one verb of one suite file for script/test: "suite_runner.sh FILE available|purpose|run". The suite file gives
# SUITE, Available and Run; here is what suites share. Results land in $SUITE_RESULTS: JUnit files of ctest and pytest,
# and cases.tsv (status, name, reason) of single commands.
source "$(dirname "${BASH_SOURCE[0]}")/toolchain.sh"
cd "$ROOT"

# HasFiles PATTERN: does the tree have a file like this (git-style glob from the root)?
HasFiles() { compgen -G "$1" >/dev/null; }

# BuildAndCtest PRESET LABELS_TO_LEAVE_OUT
BuildAndCtest() {
  script/build "$1"
  ctest --preset "$1" -j "$(nproc)" --output-junit "$SUITE_RESULTS/ctest.xml" ${2:+-LE "$2"}
}

# Pytest PATH…: runs what exists of these; tests marked "full" only with --full.
Pytest() {
  local selection=(-m "not full")
  [[ $STEPSCOPE_FULL = 0 ]] || selection=(-m "full or not full")  # pytest.ini leaves them out
  python -m pytest "${selection[@]}" --junitxml "$SUITE_RESULTS/pytest.xml" --durations=5 --durations-min=1 "$@"
}

# Check NAME COMMAND…: one named check that is a plain command.
Check() {
  local name=$1
  shift
  if "$@"; then
    printf 'passed\t%s\t\n' "$name" >>"$SUITE_RESULTS/cases.tsv"
  else
    printf 'failed\t%s\texit status %s\n' "$name" "$?" >>"$SUITE_RESULTS/cases.tsv"
  fi
}

SUITE=
# shellcheck disable=SC1090
source "$1"
case $2 in
  available) Available ;;
  purpose) printf '%s\n' "$SUITE" ;;
  run) Run ;;
esac

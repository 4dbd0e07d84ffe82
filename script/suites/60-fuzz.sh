# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# A fuzz target is build-asan/tests/<name>_fuzz; its seeds and once-found crashes are tests/fuzz/corpus/<name>/. Two run side by side.
SUITE="each fuzz target over its corpus, then 20 seconds of new inputs (--full: ten minutes)"
Available() { HasFiles 'tests/fuzz/*_fuzz.cc'; }

# Fuzz NAME SECONDS: a line with what it did, its log where it failed.
Fuzz() {
  local name=$1 found=build-asan/fuzz/$1 log=build-asan/fuzz/$1.log
  mkdir -p "$found"
  if "build-asan/tests/${name}_fuzz" -max_total_time="$2" -max_len=8192 -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$found-" \
    -verbosity=0 -print_final_stats=1 "$found" "tests/fuzz/corpus/$name" >"$log" 2>&1; then
    printf '%s: %s executions in %s s\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$2"
  else
    tail -n 60 "$log"
    return 1
  fi
}

Run() {
  local source names=() name seconds=20
  [[ $STEPSCOPE_FULL = 0 ]] || seconds=600
  script/build asan
  for source in tests/fuzz/*_fuzz.cc; do names+=("$(basename "$source" _fuzz.cc)"); done
  for ((i = 0; i < ${#names[@]}; i += 2)); do
    for name in "${names[@]:i:2}"; do
      Check "$name" Fuzz "$name" "$seconds" &
    done
    wait
  done
}

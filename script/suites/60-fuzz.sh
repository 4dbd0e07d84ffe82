# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# A fuzz target is build-asan/bin/fuzz_<name>; its seeds and once-found crashes are tests/fuzz/corpus/<name>/.
SUITE="each fuzz target over its corpus, then a few seconds of new inputs (--full: a minute)"
Available() { HasFiles 'tests/fuzz/*.cc'; }
Run() {
  local target name seconds=5
  [[ $STEPSCOPE_FULL = 0 ]] || seconds=60
  script/build asan
  for target in build-asan/bin/fuzz_*; do
    name=${target##*/fuzz_}
    mkdir -p "build-asan/fuzz/$name" "tests/fuzz/corpus/$name"
    Check "$name" "$target" -max_total_time="$seconds" -artifact_prefix="build-asan/fuzz/$name-" -verbosity=0 \
      -print_final_stats=1 "build-asan/fuzz/$name" "tests/fuzz/corpus/$name"
  done
}

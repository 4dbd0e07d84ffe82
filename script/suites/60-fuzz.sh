# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# A fuzz target is build-asan/tests/<name>_fuzz; its seeds and once-found crashes are tests/fuzz/corpus/<name>/.
SUITE="each fuzz target over its corpus, then 20 seconds of new inputs (--full: ten minutes)"
Available() { HasFiles 'tests/fuzz/*_fuzz.cc'; }
Run() {
  local source name seconds=20 corpus
  [[ $STEPSCOPE_FULL = 0 ]] || seconds=600
  script/build asan
  for source in tests/fuzz/*_fuzz.cc; do
    name=$(basename "$source" _fuzz.cc)
    corpus=build-asan/fuzz/$name
    mkdir -p "$corpus" "tests/fuzz/corpus/$name"
    Check "$name" "build-asan/tests/${name}_fuzz" -max_total_time="$seconds" -max_len=8192 -artifact_prefix="$corpus-" -verbosity=0 \
      -print_final_stats=1 "$corpus" "tests/fuzz/corpus/$name"
  done
}

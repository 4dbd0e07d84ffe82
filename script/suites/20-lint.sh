# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
SUITE="sources are in the form script/format gives them"
Available() { true; }
Run() {
  local language
  for language in cxx python shell; do
    Check "format $language" script/format --check "$language"
  done
}

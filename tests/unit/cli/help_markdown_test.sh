#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The committed docs/cli.md is what `stepscope --help-markdown` prints, blank lines at the end aside.
#
#   help_markdown_test.sh STEPSCOPE docs/cli.md
set -euo pipefail
printed=$("$1" --help-markdown)
if ! diff -u "$2" <(printf '%s\n' "$printed"); then
  echo "docs/cli.md is out of date; write it anew: echo \"\$(build/bin/stepscope --help-markdown)\" >docs/cli.md" >&2
  exit 1
fi

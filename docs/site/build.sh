#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ./run docs: builds the documentation site, or serves it and builds it anew after each change.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONDONTWRITEBYTECODE=1 NO_MKDOCS_2_WARNING=1 # the versions are locked in setup/requirements.txt
mkdocs=("$root/build/venv/bin/python" -m mkdocs)
config=$root/docs/site/mkdocs.yml
case "${1:-} $#" in
  " 0")
    # Not --quiet, which hides the warnings from --strict too.
    said=$("${mkdocs[@]}" build --strict --clean --config-file "$config" 2>&1) || { echo "$said" >&2; exit 1; }
    echo "$root/build/site/index.html" ;;
  "--serve 1") exec "${mkdocs[@]}" serve --strict --config-file "$config" ;;
  "--serve 2") exec "${mkdocs[@]}" serve --strict --config-file "$config" --dev-addr "$2" ;;
  "--help 1" | "-h 1")
    cat <<'TEXT'
usage: ./run docs [--serve [ADDRESS:PORT]]

Build the documentation site of all Markdown files into build/site and print the path of its first page. The pages can
be read as files. A broken link fails the build.

  --serve [ADDRESS:PORT]   serve the site, by default on 127.0.0.1:8000, and build it anew after each change
TEXT
    ;;
  *) echo "./run docs: unknown option '$*'; ./run docs --help lists all" >&2; exit 2 ;;
esac

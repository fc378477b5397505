#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# llvm.sh TOOL: prints the program of LLVM to use for TOOL (clang, clang-format, llvm-objdump): the lowest of LLVM_VERSIONS
# on PATH, else TOOL itself if its version is one of them. The lowest first: a machine with several versions makes the same
# eBPF objects as Debian 12. Sourced, it only defines its names.
LLVM_VERSIONS="14 15 16 17 18 19 20"

llvm_tool() {
  local version
  for version in $LLVM_VERSIONS; do
    if command -v "$1-$version" >/dev/null; then echo "$1-$version"; return; fi
  done
  version=$("$1" --version 2>/dev/null | sed -nE 's/.*version ([0-9]+)\..*/\1/p' | head -n 1)
  case " $LLVM_VERSIONS " in
    *" ${version:-none} "*) echo "$1" ;;
    *) echo "weir: $1 is missing; install $1-N, with N one of $LLVM_VERSIONS" >&2; return 1 ;;
  esac
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then llvm_tool "$1"; fi

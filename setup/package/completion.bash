# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Completion for all programs of Weir. Options and commands are those that the program's own --help lists.
_weir() {
  local cur prev words cword command="" commands=""
  _init_completion || return
  case ${words[0]##*/} in
    weir-xdp) commands=$("${words[0]}" --help 2>/dev/null | sed -nE 's/^  weir-xdp ([a-z]+) .*/\1/p' | sort -u) ;;
    weir | weir-icn) commands=$("${words[0]}" --help 2>/dev/null | sed -nE 's/^  ([a-z][a-z0-9]*)  .*/\1/p') ;;
  esac
  if [[ -n $commands && $cword -gt 1 ]]; then command=${words[1]}; fi
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$("${words[0]}" ${command:+"$command"} --help 2>/dev/null | _weir_options)" -- "$cur")
  elif [[ -n $commands && $cword -eq 1 ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$cur")
  elif [[ $prev == --bpf || $prev == --peer || $prev == --interface || $prev == --path || ($cword -eq 2 && ${words[0]##*/} == weir-xdp) ]]; then
    _available_interfaces
  else
    _filedir
  fi
}

# The long options in a help text.
_weir_options() { grep -oE -e '(^|[[:space:]])--[a-z][a-z0-9-]*' | tr -d ' ' | sort -u; }

complete -F _weir weir weir-client weir-icn weir-server weir-sojourn weir-switch weir-xdp

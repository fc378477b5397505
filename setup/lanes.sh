# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install.sh after watched.sh: runs several steps at once, and shows how far each is. The end of a build often
# keeps one processor busy; with a second build beside it the other one has work too.

# lanes SAID MOST STEP...
# Runs steps, which are functions, in the order given, MOST at a time. A step that AFTER names others for begins when
# those are over; while one of ALONE runs, the others stand still. Each runs in a process of its own, after
# `next_title STEP`. `watched` writes its progress to the file SAID.STEP, and all together to the file SAID, for a
# process that waits for this one. If one fails, the others are stopped and its status is returned.
lanes() {
  local said=$1 most=$2 step pid status=0 began=$SECONDS next=${WATCHED_EVERY_S:-30}
  shift 2
  local waiting=("$@") left alone=""
  lane_pids=() lanes_said=$said
  rm -f "$said" "$said".* # of one that was killed: steps would stand still for it
  while [ ${#waiting[@]} -gt 0 ] || [ ${#lane_pids[@]} -gt 0 ]; do
    left=()
    for step in "${waiting[@]}"; do
      if [ -n "$alone" ] || [ ${#lane_pids[@]} -ge "$most" ] || lanes_not_yet "$step"; then
        left+=("$step")
        continue
      fi
      case " ${ALONE:-} " in *" $step "*) alone=$step; : >"$said.alone" ;; esac
      next_title "$step"
      : >"$said.$step"
      (
        trap 'clean_up; exit 143' TERM
        # shellcheck disable=SC2030,SC2031  # what is the others' is not this process's to stop
        lane_pids=() lanes_said=
        export WATCHED_SAID=$said.$step WATCHED_HOLD=""
        [ "$step" = "$alone" ] || WATCHED_HOLD=$said.alone
        "$step"
        clean_up
      ) &
      lane_pids[$step]=$!
    done
    waiting=("${left[@]}")
    sleep 0.3
    lanes_show "$said" $((SECONDS - began >= next))
    if [ $((SECONDS - began)) -ge "$next" ]; then next=$((SECONDS - began + ${WATCHED_EVERY_S:-30})); fi
    for step in "${!lane_pids[@]}"; do
      pid=${lane_pids[$step]}
      if kill -0 "$pid" 2>/dev/null; then continue; fi
      unset "lane_pids[$step]"
      if [ "$step" = "$alone" ]; then alone="" && rm "$said.alone"; fi
      rm -f "$said.$step"
      wait "$pid" || status=$?
      if [ "$status" -ne 0 ]; then
        lanes_stop
        return "$status"
      fi
    done
  done
  rm -f "$said"
}

declare -A lane_pids=() # of each step that runs

# Whether the step must wait: AFTER names one for it that runs or waits.
lanes_not_yet() {
  local first
  for first in ${AFTER[$1]:-}; do
    case " ${!lane_pids[*]} ${waiting[*]} " in *" $first "*) return 0 ;; esac
  done
  return 1
}

# Progress of each step: into the file; on a terminal, over the same line; elsewhere, when ASKED is 1, a line for each.
lanes_show() {
  local said=$1 asked=$2 step words all=""
  for step in $STEPS; do
    [ -n "${lane_pids[$step]:-}" ] || continue
    words=$(cat "$said.$step" 2>/dev/null) || words=
    [ -n "$words" ] || continue
    all+="${all:+; }$words"
    if [ ! -t 2 ] && [ "$asked" -eq 1 ]; then printf '  %s\n' "$words" >&2; fi
  done
  printf '%s' "$all" >"$said"
  if [ -t 2 ] && [ -n "$all" ]; then one_line "weir: $all"; fi
}

# For a trap: ends all steps, and waits for them.
lanes_stop() {
  local pid
  for pid in "${lane_pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${lane_pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  lane_pids=()
  # shellcheck disable=SC2031
  [ -z "${lanes_said:-}" ] || rm -f "$lanes_said" "$lanes_said".*
}

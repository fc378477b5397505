# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install.sh: runs one long command with its output in a log, and shows its progress.

# watched TITLE LOG METER COMMAND...
# METER is a command that reads the log's last bytes and prints how much is done, 0 to 1000, or nothing while that is not
# known. Parts reported in the first three seconds were done before. On a terminal one line is rewritten, elsewhere a line
# is printed every half a minute. The time left is what the rest takes at the pace so far. If the command fails, the end of
# its log is shown and its status returned. If this process is stopped, so is the command, with all that it started. With
# WATCHED_SAID, a file, the progress goes there instead, for `lanes`, which shows that of several commands.
watched() {
  local title=$1 log=$2 meter=$3 began=$SECONDS pid status=0 part before=0 told every=${WATCHED_EVERY_S:-30} next terminal="" held=""
  shift 3
  next=$every
  [ ! -t 2 ] || terminal=1
  if [ -n "${WATCHED_SAID:-}" ]; then
    printf '%s%s\n' "${terminal:+$'\r\033[K'}" "$title" >&2
  elif [ -z "$terminal" ]; then
    printf '%s\n' "$title" >&2
  fi
  mkdir -p "$(dirname "$log")"
  : >"$log" # the meter may look before the command has begun
  set -m # a process group of its own, which can be ended as a whole
  "$@" >"$log" 2>&1 </dev/null 8>&- 9>&- &
  pid=$!
  set +m
  watched_pid=$pid
  while kill -0 "$pid" 2>/dev/null; do
    watched_hold
    if [ -n "$terminal${WATCHED_SAID:-}" ] || [ $((SECONDS - began)) -ge "$next" ]; then
      part=$("$meter" "$log") || part=
      if [ $((SECONDS - began)) -le 3 ]; then before=${part:-0}; fi
      told=$(watched_words $((SECONDS - began)) "$part" "$before")
      if [ -n "${WATCHED_SAID:-}" ]; then
        printf '%s: %s' "$(watched_number "$title")" "$told" >"$WATCHED_SAID"
      elif [ -n "$terminal" ]; then
        one_line "$title: $told"
      else
        printf '  %s\n' "$told" >&2
      fi
      next=$((SECONDS - began + every))
    elif [ $((SECONDS - began)) -le 3 ]; then
      before=$("$meter" "$log") || before=
      before=${before:-0}
    fi
    sleep 0.3
  done
  wait "$pid" || status=$?
  watched_pid=
  [ -z "$terminal" ] || printf '\r\033[K' >&2
  if [ "$status" -ne 0 ]; then
    printf '%s: failed after %s; the last lines of %s:\n' "$title" "$(watched_time $((SECONDS - began)))" "$log" >&2
    tail -c 20000 "$log" | tr '\r' '\n' | grep -v '^ *Building \[' | tail -n 20 | sed 's/^/  | /' >&2
    return "$status"
  fi
  printf '%s: done in %s\n' "$title" "$(watched_time $((SECONDS - began)))" >&2
}

# "step 2" of a title as "weir: step 2 of 5: the lab kernel"; a title without a number, whole.
watched_number() {
  if [[ $1 =~ (step\ [0-9]+)\ of ]]; then printf '%s' "${BASH_REMATCH[1]}"; else printf '%s' "$1"; fi
}

# one_line TEXT: on a terminal, in the place of the line that is there, cut to its width.
one_line() {
  local columns
  columns=$(stty size <&2 2>/dev/null | cut -d' ' -f2) || columns=
  [ "${columns:-0}" -gt 20 ] || columns=80
  printf '\r\033[K%.*s' $((columns - 1)) "$1" >&2
}

# For a trap: ends what `watched` runs, and waits for it.
watched_stop() {
  [ -n "${watched_pid:-}" ] || return 0
  kill -TERM -- "-$watched_pid" 2>/dev/null || sudo -n kill -TERM -- "-$watched_pid" 2>/dev/null || true
  kill -CONT -- "-$watched_pid" 2>/dev/null || true # what stands still hears of nothing
  wait "$watched_pid" 2>/dev/null || true
  [ ! -t 2 ] || printf '\n' >&2
}

# Stops the command of `watched` while there is a file WATCHED_HOLD.
watched_hold() {
  if [ -n "${WATCHED_HOLD:-}" ] && [ -e "$WATCHED_HOLD" ]; then
    if kill -STOP -- "-$watched_pid" 2>/dev/null; then held=1; fi
  elif [ -n "$held" ]; then
    kill -CONT -- "-$watched_pid" 2>/dev/null || true
    held=""
  fi
}

watched_time() {
  if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else printf '%d min' $((($1 + 30) / 60)); fi
}

# The time left is shown once a fiftieth is done and five seconds have passed: before, it would be a guess.
watched_words() {
  local seconds=$1 part=$2 before=$3
  printf '%s so far' "$(watched_time "$seconds")"
  [ -n "$part" ] && [ "$before" -lt 1000 ] && [ "$part" -gt "$before" ] || return 0
  part=$(((part - before) * 1000 / (1000 - before)))
  [ "$part" -le 990 ] || part=990
  printf ', %d %%' $((part / 10))
  if [ "$part" -ge 20 ] && [ "$seconds" -ge 5 ]; then
    printf ', about %s left' "$(watched_time $((seconds * (1000 - part) / part)))"
  fi
}

# ---- meters ----

# cargo's own count of crates, "45/210", as its progress bar has it last. The first half of the crates takes much less
# than half of the time (the large C library comes late): CURVE says which part of the time has gone at which part of the
# crates, both of 1000, as measured once.
meter_cargo() {
  local CURVE=${CURVE:-1000:1000} found share last_x=0 last_y=0 x y
  found=$(tail -c 2000 "$1" | tr '\r' '\n' | grep -aoE '[0-9]+/[0-9]+: ' | tail -n 1) || return 0
  [ -n "$found" ] || return 0
  found=${found%: }
  share=$((${found%/*} * 1000 / ${found#*/}))
  for point in ${CURVE//,/ }; do
    x=${point%:*} y=${point#*:}
    if [ "$share" -le "$x" ]; then
      echo $((last_y + (y - last_y) * (share - last_x) / (x - last_x)))
      return
    fi
    last_x=$x last_y=$y
  done
}

# apt-get's own: first the download, then the unpacking, each in percent.
meter_apt() {
  local found
  found=$(tail -c 4000 "$1" | grep -aoE '^(dl|pm)status:[^:]*:[0-9]+' | tail -n 1) || return 0
  case $found in
    dl*) echo $((${found##*:} * 5)) ;;
    pm*) echo $((500 + ${found##*:} * 5)) ;;
  esac
}

# Lines that begin as STARTS does, of TOTAL.
meter_lines() { echo $(($(grep -acE "^${STARTS:-}" "$1") * 1000 / TOTAL)); }

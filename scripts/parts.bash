# Parts of a test run: each is told with the minutes and the processor time that it took, and one
# that fails with how busy the machine was. To be sourced. A script that is started from another
# one adds its parts to that one's.

parts_begin() {
  PARTS_MINE=
  if [[ -z "${PARTS:-}" ]]; then
    PARTS="$(mktemp)" PARTS_SINCE=$SECONDS PARTS_MINE=yes
    export PARTS
    : >"$PARTS.pace"
  fi
}

# part NAME COMMAND… runs a part.
part() {
  local name="$1" since=$SECONDS code=0 seen before
  shift
  echo "== $name"
  seen="$(mktemp)"
  parts_pace >>"$PARTS.pace"
  parts_cpu "$seen.cpu"
  before="$(<"$seen.cpu")"
  (parts_watch "$seen" >/dev/null 2>&1 &)
  "$@" || code=$?
  parts_cpu "$seen.cpu"
  echo "$((SECONDS - since)) $(($(<"$seen.cpu") - before)) $name" >>"$PARTS"
  if [[ $code != 0 ]]; then
    echo "== $name failed with exit code $code$(parts_busy <"$seen")" >&2
  fi
  rm -f "$seen" "$seen.cpu"
  return "$code"
}

# parts_watch writes each second, as long as the file is there, by how many ms its timer was
# late, and the load.
parts_watch() {
  local from load
  exec 3>>"$1"
  while from=${EPOCHREALTIME/./} && sleep 1 && [[ -e "$1" ]]; do
    read -r load _ </proc/loadavg
    echo "$(((${EPOCHREALTIME/./} - from) / 1000 - 1000)) $load" >&3
  done
}

# parts_busy says whether what parts_watch saw is a host on which limits of time mean little:
# timers that were late by more than 500 ms, or eight runnable threads for each core.
parts_busy() {
  sort -n | awk -v cores="$(nproc)" '
    { lag[NR] = $1; if ($2 > load) load = $2 }
    END {
      p99 = lag[int((NR * 99 + 99) / 100)] + 0
      printf "; timers late by %d ms (p99), load up to %.1f on %d cores%s", p99, load, cores, (p99 > 500 || load > 8 * cores) ? ": host too busy" : ""
    }'
}

# parts_cpu writes to a file how many seconds of processor time all that this shell has waited for
# took.
parts_cpu() {
  times >"$1" # not in a subshell: that one has waited for nothing
  awk -F'[ms ]+' 'NR == 2 { printf "%d\n", $1 * 60 + $2 + $3 * 60 + $4 }' "$1" >"$1.s"
  mv "$1.s" "$1"
}

# parts_pace prints the ms of processor time that a fixed piece of work takes here and now.
parts_pace() {
  local TIMEFORMAT=%U i
  { time for ((i = 0; i < 100000; i++)); do :; done; } 2>&1 | awk '{ print $1 * 1000 }'
}

# What it takes where the limit was set. A core that other guests of a host keep busy takes more
# processor time for the same work.
PARTS_PACE=140

# parts_slower prints how many times as long as there, in percent: the median of all parts, and at
# least 100.
parts_slower() {
  sort -n "$1" | awk -v pace="$PARTS_PACE" '{ ms[NR] = $1 } END { p = int(100 * ms[int((NR + 1) / 2)] / pace); print (p > 100 ? p : 100) }'
}

# parts_end CODE LIMIT prints the parts, if they are this script's, and exits with CODE, or
# with 1 if all took more than LIMIT minutes of processor time (0: no limit), and more by as much as the
# same work takes longer than where the limit was set: by the clock, a busy host would fail what is well.
parts_end() {
  local code="$1" limit="$2" cpu slower
  [[ $PARTS_MINE == yes ]] || exit "$code"
  awk '{ s = $1; cpu = $2; $1 = $2 = ""; sub(/^ */, ""); printf "%8.1f min, %4.1f of processor time  %s\n", s / 60, cpu / 60, $0 }' "$PARTS"
  parts_cpu "$PARTS"
  cpu="$(<"$PARTS")"
  slower="$(parts_slower "$PARTS.pace")"
  rm -f "$PARTS" "$PARTS.pace"
  printf '%8.1f min, %4.1f of processor time  in all; the same work takes %d %% of what it takes where the limit was set\n' \
    "$(((SECONDS - PARTS_SINCE) * 10 / 60))e-1" "$((cpu * 10 / 60))e-1" "$slower"
  if ((limit > 0 && cpu * 100 > limit * 60 * slower)); then
    echo "it took more than $limit minutes of processor time: a part has grown" >&2
    ((code != 0)) || code=1
  fi
  exit "$code"
}

# What is too long for every run of the tests takes turns by the date, so that all commits of a
# day have the same tests.
#
#   TURN=20780   the turn of that day, counted from 1970-01-01 (UTC); without TURN today's.
#                Each day has one of TURN_EXTRAS and one of TURN_STORES.
#   TURN=all     everything

# turn_begin exports TURN, and says which it is and how to repeat it.
turn_begin() {
  export TURN="${TURN:-$(($(date +%s) / 86400))}"
  if ! [[ $TURN =~ ^(0|[1-9][0-9]{0,8}|all)$ ]]; then
    echo "TURN=$TURN is neither a number nor all" >&2
    exit 64
  fi
  echo "turn $TURN: repeat it with TURN=$TURN make test; TURN=all make test takes everything"
}

# What takes minutes, each on one of four days.
TURN_EXTRAS=(datacenters external containers releases)
# As internal/turn has them.
TURN_STORES=(etcd redis nats postgres zookeeper)

# turn_of NAME succeeds on the days of that extra or store, and if everything is wanted.
turn_of() {
  [[ $TURN == all || $1 == "${TURN_EXTRAS[TURN % ${#TURN_EXTRAS[@]}]}" || $1 == "${TURN_STORES[TURN % ${#TURN_STORES[@]}]}" ]]
}

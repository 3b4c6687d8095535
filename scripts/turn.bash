# What is too long for every run of the tests takes turns by the date, so that all commits of a
# day have the same tests. To be sourced.
#
#   TURN=20780   the turn of that day, counted from 1970-01-01 (UTC); without TURN today's.
#                Even days: containers, Prometheus, own programs. Odd ones: external clusters, replays.
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

# turn_of even, turn_of odd succeed on such days, and if everything is wanted.
turn_of() {
  [[ $TURN == all || $1 == even && $((TURN % 2)) == 0 || $1 == odd && $((TURN % 2)) == 1 ]]
}

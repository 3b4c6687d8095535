#!/bin/bash
# Does what the official image's entrypoint does: gives up root, and writes CASSANDRA_…
# over the lines of cassandra.yaml that there are.
set -e

if [[ $# -eq 0 || $1 == -* ]]; then
  set -- cassandra -f "$@"
fi
if [[ $1 == cassandra && $(id -u) == 0 ]]; then
  find "$CASSANDRA_CONF" /var/lib/cassandra /var/log/cassandra ! -user cassandra -exec chown cassandra '{}' +
  exec setpriv --reuid=cassandra --regid=cassandra --init-groups "$0" "$@"
fi

# rewrite EXPRESSION: sed, in place and without a new file.
rewrite() {
  local yaml=$CASSANDRA_CONF/cassandra.yaml text
  text=$(sed -r "$1" "$yaml")
  printf '%s\n' "$text" >"$yaml"
}

if [[ $1 == cassandra ]]; then
  : "${CASSANDRA_RPC_ADDRESS=0.0.0.0}"
  : "${CASSANDRA_LISTEN_ADDRESS=auto}"
  if [[ $CASSANDRA_LISTEN_ADDRESS == auto ]]; then
    CASSANDRA_LISTEN_ADDRESS=$(hostname -i)
  fi
  : "${CASSANDRA_BROADCAST_ADDRESS=$CASSANDRA_LISTEN_ADDRESS}"
  : "${CASSANDRA_BROADCAST_RPC_ADDRESS:=$CASSANDRA_BROADCAST_ADDRESS}"
  : "${CASSANDRA_SEEDS:=$CASSANDRA_BROADCAST_ADDRESS}"
  rewrite 's/(- seeds:).*/\1 "'"$CASSANDRA_SEEDS"'"/'
  for key in broadcast_address broadcast_rpc_address cluster_name endpoint_snitch listen_address num_tokens rpc_address; do
    var=CASSANDRA_${key^^}
    if [[ -n ${!var} ]]; then
      rewrite 's/^(# )?('"$key"':).*/\2 '"${!var}"'/'
    fi
  done
fi
exec "$@"

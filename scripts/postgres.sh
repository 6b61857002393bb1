# Sourced, after server.sh, by scripts that compare: runs PostgreSQL 15 (Debian: postgresql) on a fresh directory and a
# free port of this machine, with the settings of docs/benchmarks/sql.md and room for the predicate locks of long ranges,
# and ends it with the script. If the script runs as root, PostgreSQL runs as the user postgres.
postgres=
# Further options of PostgreSQL, which replace those below.
postgres_options=()

as_user=()
[ "$(id -u)" -ne 0 ] || as_user=(setpriv --reuid=postgres --regid=postgres --init-groups --)
as_postgres() { "${as_user[@]}" "$@"; }

# Starts PostgreSQL and exports its port as PGPORT.
start_postgres() {
  local data=$scratch/postgres
  chmod 755 "$scratch"
  mkdir -p "$data"
  [ "$(id -u)" -ne 0 ] || chown postgres "$data"
  as_postgres initdb --pgdata="$data" --username="$PGUSER" --auth=trust >"$scratch/initdb" 2>&1 ||
    { cat "$scratch/initdb"; return 1; }
  PGPORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  export PGPORT
  run_postgres "CREATE DATABASE $PGDATABASE"
}

# Runs PostgreSQL on its directory, at the port in PGPORT, and a first statement when it accepts clients.
run_postgres() {
  # Not by the function: $! would be a shell, and its end not that of PostgreSQL.
  "${as_user[@]}" postgres -D "$scratch/postgres" -h 127.0.0.1 -p "$PGPORT" -k '' -c shared_buffers=1GB \
    -c max_wal_size=8GB -c max_pred_locks_per_transaction=1024 "${postgres_options[@]}" \
    >>"$scratch/postgres.log" 2>&1 &
  postgres=$!
  for _ in $(seq 600); do
    if psql -XAtq -d postgres -c "$1" 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  cat "$scratch/postgres.log"
  return 1
}

# Ends PostgreSQL when its clients have disconnected. (An interrupt does not reach the background jobs of a script.)
end_postgres() {
  [ -n "$postgres" ] || return 0
  kill -TERM "$postgres" 2>/dev/null || true
  wait "$postgres" 2>/dev/null || true
  postgres=
}
trap 'end_postgres; end' EXIT

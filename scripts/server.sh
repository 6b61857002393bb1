# Sourced by scripts that need a server: starts `ermined` on a fresh directory and a free port of this machine, and ends
# it, by its process id, with the script. `scratch` is a directory that is removed with the script.
export PATH="$PATH:/usr/lib/postgresql/15/bin" PGHOST=127.0.0.1 PGUSER=bench PGDATABASE=bench PGCONNECT_TIMEOUT=10

ermined=target/debug/ermined
# 0: any that is free.
listen_port=0
scratch=$(mktemp -d)
server=
end() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  rm -rf "$scratch"
}
trap end EXIT

# Serves the directory of the script, which stays the same from start to start, with further options if given. Exports
# the port as PGPORT.
start() {
  # The log is emptied first: it may have the lines of an earlier server.
  : >"$scratch/log"
  "$ermined" serve --create "$scratch/db" --listen "127.0.0.1:$listen_port" "$@" 2>>"$scratch/log" &
  server=$!
  for _ in $(seq 600); do
    PGPORT=$(sed -n 's/.* is served on 127.0.0.1:\([0-9]*\)$/\1/p' "$scratch/log")
    export PGPORT
    [ -z "$PGPORT" ] || return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  cat "$scratch/log"
  return 1
}

# Kills the server as a crash would.
crash() {
  kill -KILL "$server"
  wait "$server" 2>/dev/null || true
}

# Sourced: installs drivers from their registries under target/clients, where they remain.
drivers=target/clients
python=$drivers/python/bin/python
node_modules=$PWD/$drivers/node_modules

# Installs the requirements of a suite: an interpreter, and packages of the versions that it was written for.
install_for() {
  mkdir -p "$drivers"
  case $1 in
    psycopg) python_packages 'psycopg[binary]>=3.2,<4' ;;
    sqlalchemy) python_packages 'psycopg[binary]>=3.2,<4' 'SQLAlchemy>=2,<3' ;;
    node-postgres)
      node --version && { [ -d "$node_modules/pg" ] || npm install --prefix "$drivers" --no-audit --no-fund 'pg@8'; }
      ;;
  esac
}

python_packages() {
  { [ -x "$python" ] || python3 -m venv "$drivers/python"; } &&
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
}

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
    alembic) python_packages 'psycopg[binary]>=3.2,<4' 'SQLAlchemy>=2,<3' 'alembic>=1.13,<2' ;;
    django) python_packages 'psycopg[binary]>=3.2,<4' 'Django>=5.2,<5.3' ;;
    python) python_packages 'asyncpg>=0.30,<1' 'psycopg2-binary>=2.9,<3' 'pandas>=2,<4' 'SQLAlchemy>=2,<3' ;;
    pgcli) python_packages 'psycopg[binary]>=3.2,<4' 'pgcli==4.7.1' ;;
    pgbouncer) python_packages 'psycopg[binary]>=3.2,<4' && debian_packages pgbouncer pgbouncer ;;
    node)
      node_packages sequelize 'pg@8' 'knex@3' 'sequelize@6' 'typeorm@1' 'reflect-metadata@0.2' 'drizzle-orm@0.45'
      ;;
    node-postgres) node_packages pg 'pg@8' ;;
    prisma)
      node_packages_in "$drivers/prisma" prisma --ignore-scripts 'prisma@7.10.0' '@prisma/client@7.10.0' \
        '@prisma/adapter-pg@7.10.0' '@prisma/driver-adapter-utils@7.10.0' \
        '@prisma/schema-engine-wasm@7.10.0-7.561d7b42579a2459cc8edf3788918b626c640023' 'pg@8'
      ;;
    go) go_packages ;;
    java) java_packages ;;
    rust) rust_packages ;;
  esac
}

python_packages() {
  { [ -x "$python" ] || python3 -m venv "$drivers/python"; } &&
    "$python" -m pip install --quiet --disable-pip-version-check "$@"
}

# Where Go keeps packages and what it has compiled.
export GOMODCACHE=$PWD/$drivers/go/packages GOCACHE=$PWD/$drivers/go/compiled GOFLAGS=-modcacherw
go_packages() {
  go version && go -C scripts/clients.d/go mod download
}

# Installs packages for Node, unless the first name is there.
node_packages() {
  node_packages_in "$drivers" "$@"
}

# The same in a directory.
node_packages_in() {
  local place=$1 first=$2
  shift 2
  mkdir -p "$place"
  node --version && { [ -d "$place/node_modules/$first" ] || npm install --prefix "$place" --no-audit --no-fund "$@"; }
}

# Installs packages of Debian, unless the program is there. Their services are not started.
debian_packages() {
  local program=$1
  shift
  ! PATH=$PATH:/usr/sbin command -v "$program" || return 0
  apt-get update && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
}

# Installs what the project file names, unless that has been done.
java_packages() {
  local project=scripts/clients.d/java/pom.xml place=$PWD/$drivers/java
  javac -version || return
  ! cmp "$project" "$place/pom.xml" || return 0
  rm -rf "$place" && mkdir -p "$place" &&
    timeout 600 mvn --batch-mode -Dmaven.repo.local="$place/repository" --file "$project" \
      org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory="$place/packages" &&
    rm -rf "$place/repository" && cp "$project" "$place/pom.xml"
}

# Compiles what the tests depend on. Diesel needs libpq.
rust_packages() {
  cargo --version && { dpkg --status libpq-dev || debian_packages '' libpq-dev; } &&
    CARGO_TARGET_DIR=$PWD/$drivers/rust CARGO_INCREMENTAL=0 timeout 900 \
      cargo build --locked --manifest-path scripts/clients.d/rust/Cargo.toml
}

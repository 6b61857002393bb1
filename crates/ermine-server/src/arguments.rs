//! The arguments of every verb, with their help texts.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell as CompletedShell;
use ermine::{Durability, Options, Order, Scheme};
use ermine_server::{
    hba::Rules,
    logger::Format as LogFormat,
    options::ServerOptions,
    tls::{self, Tls},
    traces::Endpoint,
};
use ermine_shell::{Format, Layout, Step, Task};
use log::LevelFilter;

use crate::{json_stream, replication::Cluster};

/// Groups of options.
const CONNECTIONS: &str = "Connections";
const AUTHENTICATION: &str = "Authentication and TLS";
const STORAGE: &str = "Storage and transactions";
const LOG: &str = "Log";
const CLUSTER: &str = "Cluster";

/// Ermine, a memory-optimized OLTP engine: a server for clients of PostgreSQL, and a shell
#[derive(Debug, Parser)]
#[command(name = "ermined", version, arg_required_else_help = true)]
pub struct Ermined {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a database in a directory that has none
    ///
    /// The directory is made as well; only its owner has access to it.
    Init(Init),
    /// Open a database and serve it
    ///
    /// SIGHUP or pg_reload_conf() reads the configuration again. Ends after SIGTERM or SIGINT: clients outside of transactions are disconnected at once, transactions may go on
    /// for a while. A second signal ends them too. Ends with status 1 when the log can no longer be written, after a
    /// sync that failed: started again, it recovers.
    Serve(Box<Serve>),
    /// Run SQL: typed statements, or a script
    ///
    /// DIR is opened in this process, without a server; with --connect, a server is used. Input from a pipe is run
    /// without prompts. Exits with 1 when a statement of a script failed. \\? lists the commands that begin with a
    /// backslash.
    Shell(Box<Shell>),
    /// Watch a server in a terminal
    ///
    /// Shows rates, latencies, lost conflicts and memory, and the longest transactions, the statements that take most
    /// time and the rows with most conflicts, again and again, up to Ctrl-C. What the first screen shows is since the
    /// start of the server. Where the output is no terminal, screens follow one another as text, 80 or COLUMNS wide.
    Top(Top),
    /// Copy a PostgreSQL database, which stays in use, into a database that is not being served
    ///
    /// Definitions and rows are those of one snapshot of the source, as pg_dump writes them: it and psql have to be
    /// installed, of the source's version or a later one. All definitions are tried first, on empty tables: those that
    /// are not supported are listed, and nothing is changed. Rows are counted in the end. Progress is on the standard
    /// error. Exits with 1 when it failed.
    Import(Import),
    /// Verify a database that is not being served
    ///
    /// Reads every byte of its files, as `ermine verify` does; then decodes every row and compares the entries of all
    /// indexes with the rows. Changes nothing. Needs the memory that serving needs. Exits with 1 when something is
    /// wrong.
    Verify(Closed),
    /// Bring a directory of an earlier version up to this one
    ///
    /// Verifies it first, and changes nothing if something is wrong; then opens it, writes a checkpoint, and verifies it
    /// again. `serve` opens such a directory as well: this finds trouble before clients are let in, and makes the first
    /// start short. An earlier version may refuse the directory afterwards: make a backup with that version before.
    Upgrade(Closed),
    /// Make a standby a database of its own, when its cluster is lost
    ///
    /// Not needed for a failover: the nodes of a cluster replace a primary by themselves. What the standby has received
    /// is kept; commits after that are lost. Promote one standby only, and none while the cluster goes on.
    Promote {
        /// Directory of the standby: of a node of a cluster, NODE/database
        dir: PathBuf,
    },
    /// Show and check the configuration of a server
    #[command(subcommand)]
    Config(Config),
    /// Manage the users who may log in to a database that is not being served
    ///
    /// In a session, CREATE USER, ALTER USER and DROP USER do the same.
    User {
        #[command(subcommand)]
        what: User,
    },
    /// Print the script with which a shell completes the arguments of this command
    ///
    /// For bash: ermined completions bash > /usr/share/bash-completion/completions/ermined
    Completions {
        /// The shell
        shell: CompletedShell,
    },
    /// Write the man pages of this command and its verbs to a directory
    ///
    /// The directory is made if it does not exist. For all users: ermined man /usr/local/share/man/man1
    Man {
        /// The directory
        dir: PathBuf,
    },
}

/// A database that is not being served.
#[derive(Debug, Args)]
pub struct Closed {
    /// The database's directory
    pub dir: PathBuf,
    #[command(flatten)]
    pub engine: Engine,
}

#[derive(Debug, Args)]
pub struct Top {
    /// The server at postgres://user[:password]@host[:port]/database
    ///
    /// As for the shell: parts that are left out are taken from PGHOST, PGPORT, PGUSER, PGPASSWORD and so on. Members of
    /// pg_monitor see the statements of all users.
    #[arg(long, value_name = "URL", num_args = 0..=1, default_value = "", default_missing_value = "", hide_default_value = true)]
    pub connect: String,
    /// Seconds from one screen to the next
    #[arg(long, default_value_t = 2.0, value_name = "S", value_parser = interval)]
    pub interval: f64,
    /// Number of screens, after which it ends
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
}

#[derive(Debug, Args)]
pub struct Init {
    /// Directory of the new database
    pub dir: PathBuf,
    /// Concurrency control, by whose family files are written; as for serve
    #[arg(long, default_value_t = Scheme::default(), value_name = "SCHEME")]
    pub scheme: Scheme,
    /// Write ermined.toml into the directory: all options of serve with their defaults, as comments
    #[arg(long)]
    pub config: bool,
}

#[derive(Debug, Args)]
pub struct Import {
    /// The source at postgres://user[:password]@host[:port]/database
    ///
    /// Parts that are left out are taken from PGHOST, PGPORT, PGUSER, PGPASSWORD, ~/.pgpass and so on, and options such
    /// as ?sslmode=verify-full&sslrootcert=FILE are known: it is read as psql reads it.
    #[arg(value_name = "URL")]
    pub source: String,
    /// Directory of the database to copy into
    pub dir: PathBuf,
    /// Make the database when there is none
    #[arg(long)]
    pub create: bool,
    /// Leave out what is not supported, and list it
    #[arg(long)]
    pub skip_unsupported: bool,
    /// Keep owners and rights; the roles have to exist
    ///
    /// Without it, all objects belong to the first superuser, and no other role has rights to them.
    #[arg(long)]
    pub owners: bool,
    /// Directory of PostgreSQL's programs pg_dump and psql [default: those in PATH]
    #[arg(long, value_name = "DIR")]
    pub pg_bin: Option<PathBuf>,
    #[command(flatten)]
    pub engine: Engine,
}

#[derive(Debug, Subcommand)]
pub enum Config {
    /// Read a file, and report the first mistake
    ///
    /// Exits with 1 when there is one. Changes nothing.
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print the values that `ermined serve` with these arguments would use, and where each comes from
    Show(Box<Serve>),
}

#[derive(Clone, Debug, Args)]
pub struct Serve {
    /// Directory of the database
    pub dir: PathBuf,
    /// Make the database when there is none
    #[arg(long)]
    pub create: bool,
    /// Configuration in TOML, whose keys are the names of these options [default: ermined.toml in DIR, if there is one]
    ///
    /// An option is taken from the command line, else from the variable ERMINED_ with its name (ERMINED_MAX_CONNECTIONS),
    /// else from ermined.auto.toml in DIR, which ALTER SYSTEM writes, else from this file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Value of a setting for sessions that set none, such as work_mem=64MB; may be given more than once
    ///
    /// In a file: the table [set].
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Address to listen on; may be given more than once
    #[arg(help_heading = CONNECTIONS, long, value_name = "ADDR", default_value = "127.0.0.1:5432", value_delimiter = ',')]
    pub listen: Vec<SocketAddr>,
    #[command(flatten)]
    pub engine: Engine,
    /// Replicate the log through NATS JetStream at these servers, as a node of a cluster: nats://host:4222,..
    ///
    /// The database is in DIR/database. One node of a cluster is the primary; the others follow it, let clients read
    /// (--hot-standby), and one takes its place when it is lost. A commit is acknowledged when most of the servers have
    /// it (see synchronous_commit). The servers need `sync_interval: always`. An address may have user:password@ or
    /// token@ before the host, with bytes as %XX: give it in the configuration file or ERMINED_REPLICATE then, because
    /// arguments are visible to all users of the machine.
    #[arg(help_heading = CLUSTER, long, value_name = "URLS", requires = "cluster")]
    pub replicate: Option<String>,
    /// Name of the cluster: letters, digits and -, but not json or json-..
    #[arg(help_heading = CLUSTER, long, value_name = "NAME", requires = "replicate")]
    pub cluster: Option<String>,
    /// Name of this node in the cluster [default: the first address that it listens on]
    #[arg(help_heading = CLUSTER, long, value_name = "NAME", requires = "replicate")]
    pub node: Option<String>,
    /// Let clients read on this node while it is a standby: on or off
    ///
    /// Their transactions are read-only, REPEATABLE READ unless they ask for SERIALIZABLE, and see what the node has
    /// received. For that, the primary's log has the keys of changed rows, as with --wal-level logical: use the same
    /// value on all nodes.
    #[arg(help_heading = CLUSTER, long, default_value = "on", value_name = "WHETHER",
        action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    pub hot_standby: bool,
    /// Only follow: never become the primary
    #[arg(help_heading = CLUSTER, long, requires = "replicate", conflicts_with = "create")]
    pub follow: bool,
    /// MiB of log after which the primary stores another base, or as many as the last base has; standbys follow from
    /// every second one
    #[arg(help_heading = CLUSTER, long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub base_after: u64,
    /// Number of servers of NATS that store each message, of which most have to run: 3, or 1 without protection
    #[arg(help_heading = CLUSTER, long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub replicas: u8,
    /// Seconds without an answer of the primary after which another node takes its place; the same for all nodes
    #[arg(help_heading = CLUSTER, long, default_value_t = 5, value_name = "S", value_parser = clap::value_parser!(u64).range(2..=300))]
    pub lease: u64,
    /// Bytes of a file of the log; its buffer is no larger [default: 64 MiB]
    #[arg(help_heading = STORAGE, long, value_name = "N", value_parser = clap::value_parser!(u64).range(65_536..=1 << 35))]
    pub segment_bytes: Option<u64>,
    /// Bytes of log after which a checkpoint is made [default: 1 GiB, or more where the last checkpoint is large]
    ///
    /// A statement CHECKPOINT makes one at once.
    #[arg(help_heading = STORAGE, long, value_name = "BYTES")]
    pub checkpoint_after: Option<u64>,
    /// Contents of the log; logical: with the keys of changed rows, for publications and replication slots
    ///
    /// Then other systems follow the changes of tables, with START_REPLICATION and pgoutput, as PostgreSQL's subscribers
    /// do. An update or delete takes the bytes of its key more in the log.
    #[arg(help_heading = STORAGE, long, value_enum, default_value_t = WalLevel::Replica, value_name = "LEVEL")]
    pub wal_level: WalLevel,
    /// MiB of log that a replication slot may hold back, at least 128; one that is farther behind is lost [default: as
    /// many as the device has room for]
    #[arg(help_heading = STORAGE, long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(128..=1 << 30))]
    pub max_slot_wal_keep_size: Option<u64>,
    /// Publish changes of rows as JSON to NATS JetStream at these servers: nats://host:4222,..
    ///
    /// One message a row, each once and in order, on the subject ermine.json.PUBLICATION.SCHEMA.TABLE of the stream
    /// ermine-json-PUBLICATION, which is made if there is none, on as many servers as --replicas says. In a cluster,
    /// the primary publishes. Needs --wal-level logical. An address may have user:password@ or token@ before the host,
    /// with bytes as %XX: give it in the configuration file or ERMINED_JSON_STREAM then, because arguments are visible
    /// to all users of the machine.
    #[arg(help_heading = STORAGE, long, value_name = "URLS", requires = "json_publication")]
    pub json_stream: Option<String>,
    /// Publication whose changes are published as JSON: lower-case letters, digits and _
    #[arg(help_heading = STORAGE, long, value_name = "NAME", requires = "json_stream", value_parser = json_publication)]
    pub json_publication: Option<String>,
    /// Address for HTTP: /metrics for Prometheus, /healthz, /readyz, and a live page at /
    ///
    /// The page is for clients of this machine, and for users of the database once one has a password. There is no TLS:
    /// put a proxy in front of it for others.
    #[arg(long, value_name = "ADDR")]
    pub http: Option<SocketAddr>,
    /// File that has the number of the process, in the form of PostgreSQL's postmaster.pid, while clients are served
    ///
    /// It is written after recovery, and removed at the end. One that is there is replaced.
    #[arg(long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
    /// Directory below which clients may make backups
    ///
    /// BACKUP TO 'monday' then makes the directory `monday` there. Without it, clients cannot make backups.
    #[arg(help_heading = STORAGE, long, value_name = "DIR")]
    pub backup_dir: Option<PathBuf>,
    /// Refuse clients that name a database which does not exist, as PostgreSQL does
    ///
    /// The first database is then `postgres`, and CREATE DATABASE makes others. Without it, a name that no database has, and
    /// none had, is one of the first database.
    #[arg(help_heading = CONNECTIONS, long)]
    pub database_must_exist: bool,
    /// Maximum number of clients at the same time
    #[arg(help_heading = CONNECTIONS, long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_connections: u32,
    /// Number of these clients that only superusers can be
    ///
    /// So an administrator gets in when all others are taken.
    #[arg(help_heading = CONNECTIONS, long, default_value_t = 3, value_name = "N")]
    pub superuser_reserved_connections: u32,
    /// Milliseconds that a client with a wrong password waits for the answer, so that guessing takes long
    #[arg(help_heading = CONNECTIONS, long, default_value_t = 500, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=30_000))]
    pub auth_delay: u32,
    /// Certificate for TLS in PEM, optionally followed by those it is signed by
    #[arg(help_heading = AUTHENTICATION, long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's key in PEM
    #[arg(help_heading = AUTHENTICATION, long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Refuse clients without TLS
    #[arg(help_heading = AUTHENTICATION, long, requires = "tls_cert")]
    pub tls_required: bool,
    /// Certificates in PEM by which those of clients are signed, for rules with the method cert
    #[arg(help_heading = AUTHENTICATION, long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Rules for which clients may connect, from where, and by which proof, in the form of PostgreSQL's pg_hba.conf
    ///
    /// Without it, clients need passwords as soon as a user has one.
    #[arg(help_heading = AUTHENTICATION, long, value_name = "FILE", conflicts_with = "trust")]
    pub hba_file: Option<PathBuf>,
    /// Let all clients in while no user has a password, also from other machines
    ///
    /// Without it, a database without users is served on addresses of this machine only.
    #[arg(help_heading = AUTHENTICATION, long)]
    pub trust: bool,
    /// Seconds that transactions may go on after the server is asked to end
    #[arg(help_heading = CONNECTIONS, long, default_value_t = 10, value_name = "S")]
    pub drain_seconds: u64,
    /// Longest message of a client in MiB
    #[arg(help_heading = CONNECTIONS, long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..=1023))]
    pub max_message: u32,
    /// Threads that serve clients [default: two per core, at least eight]
    #[arg(help_heading = CONNECTIONS, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub threads: Option<u32>,
    /// Microseconds that a thread looks for a lone client's next message before it sleeps; 0: it sleeps at once
    ///
    /// A client that sends one statement after the other does not wait for the thread to wake up then. When no message
    /// comes, it is tried less often. Not with TLS.
    #[arg(help_heading = CONNECTIONS, long, default_value_t = 50, value_name = "US", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub busy_poll: u32,
    /// Messages to write to the standard error: off, error, warn, info, debug, trace
    #[arg(help_heading = LOG, long, default_value_t = LevelFilter::Info, value_name = "LEVEL")]
    pub log: LevelFilter,
    /// Form of the messages: text, or json with one object a line
    #[arg(help_heading = LOG, long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Collector of OpenTelemetry to which spans are sent: of slow statements, and of those that name a sampled trace
    ///
    /// OTLP over HTTP, as JSON; the port is 4318 and the path /v1/traces unless it says otherwise. A statement names its
    /// trace in a comment: /*traceparent='00-..'*/. No TLS.
    #[arg(help_heading = LOG, long, value_name = "URL")]
    pub otlp: Option<Endpoint>,
    /// Write a message when a client has connected
    #[arg(help_heading = LOG, long)]
    pub log_connections: bool,
    /// Write a message when a client has gone
    #[arg(help_heading = LOG, long)]
    pub log_disconnections: bool,
}

/// The contents of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum WalLevel {
    /// For recovery, backups and standbys.
    Replica,
    /// Also for readers of changes.
    Logical,
}

impl Serve {
    /// Returns the engine's options.
    pub fn engine_options(&self) -> Options {
        /// Bytes of log that a publisher may be behind.
        const KEPT: u64 = 1 << 30;
        let mut options = self.engine.options().log_keys(self.wal_level == WalLevel::Logical);
        if self.replicate.is_some() {
            options = options.keep_log(KEPT);
            options.log_keys |= self.hot_standby && options.scheme.has_versions();
        }
        if let Some(bytes) = self.checkpoint_after {
            options.checkpoint_after = bytes;
        }
        let Some(bytes) = self.segment_bytes else { return options };
        let buffer = options.log_buffer_bytes.min(1 << bytes.ilog2());
        options.segment_bytes(bytes).log_buffer_bytes(buffer)
    }

    /// Returns the cluster of which the server is a node, if it is one.
    pub fn cluster(&self) -> Option<Cluster> {
        let (servers, name) = (self.replicate.clone()?, self.cluster.clone()?);
        let address = self.listen.first().map_or_else(String::new, ToString::to_string);
        Some(Cluster {
            servers,
            name,
            node: self.node.clone().unwrap_or(address),
            replicas: self.replicas.into(),
            lease_lifetime: Duration::from_secs(self.lease),
            base_after: self.base_after << 20,
            creates: self.create,
            only_follows: self.follow,
        })
    }

    /// Returns what is published as JSON, and where, if anything is.
    pub fn json_stream(&self) -> Option<json_stream::Options> {
        let (servers, publication) = (self.json_stream.clone()?, self.json_publication.clone()?);
        let (replicas, is_replicated) = (self.replicas.into(), self.replicate.is_some());
        Some(json_stream::Options { servers, publication, replicas, is_replicated })
    }

    /// Reads the rules for which clients may connect, if there are any.
    pub fn rules(&self) -> Result<Option<Arc<Rules>>, String> {
        let Some(path) = &self.hba_file else { return Ok(None) };
        let rules = Rules::read(path).map_err(|error| error.to_string())?;
        if rules.ask_for_certificates() && self.tls_client_ca.is_none() {
            return Err("a rule with the method cert needs --tls-client-ca".into());
        }
        Ok(Some(Arc::new(rules)))
    }

    /// Reads the certificate of the server, if it has one.
    pub fn tls(&self) -> Result<Option<Tls>, String> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        tls::tls(certificate, key, self.tls_client_ca.as_deref()).map(Some).map_err(|error| error.to_string())
    }

    /// Returns the bounds of the server.
    pub fn options(&self) -> ServerOptions {
        let mut options = ServerOptions::default();
        options.connections_max = self.max_connections as usize;
        options.connections_reserved = self.superuser_reserved_connections as usize;
        options.refusal_delay = Duration::from_millis(self.auth_delay.into());
        options.message_bytes_max = (self.max_message as usize) << 20;
        options.drain_max = Duration::from_secs(self.drain_seconds);
        options.tls_required = self.tls_required;
        options.trust = self.trust || self.is_local();
        options.fixed.threads = self.threads.map(|threads| threads as usize);
        options.log_connections = self.log_connections;
        options.log_disconnections = self.log_disconnections;
        options.busy_poll = Duration::from_micros(self.busy_poll.into());
        options
    }

    /// Whether it can be reached from this machine only.
    pub fn is_local(&self) -> bool {
        self.listen.iter().all(|address| address.ip().is_loopback())
    }
}

/// Parses a name and a value.
fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it has no =, as in work_mem=64MB")?;
    Ok((name.trim().to_lowercase(), value.trim().to_owned()))
}

/// Parses the name of a publication that is part of the names of a stream, its subjects, and a replication slot.
fn json_publication(text: &str) -> Result<String, String> {
    /// So that the slot's name is not too long.
    const BYTES_MAX: usize = 49;
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match (1..=BYTES_MAX).contains(&text.len()) && text.bytes().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err(format!("it is not of 1 to {BYTES_MAX} lower-case letters, digits and _")),
    }
}

/// Parses seconds between two screens.
fn interval(text: &str) -> Result<f64, String> {
    const RANGE: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
    let seconds = text.parse::<f64>().ok().filter(|seconds| RANGE.contains(seconds));
    seconds.ok_or_else(|| format!("it is no number of seconds from {} to {}", RANGE.start(), RANGE.end()))
}

/// Options with which a database is opened.
#[derive(Clone, Debug, Args)]
pub struct Engine {
    /// Concurrency control: rc, si, or one of the serializable rc-ssn, si-ssn, si-ssi, mvocc; or a single-version
    /// scheme: silo, 2pl-nowait, 2pl-waitdie, 2pl-wdl, serial, sto, sto-32, tso, tso-validate, vll, partitioned
    #[arg(help_heading = STORAGE, long, default_value_t = Scheme::default(), value_name = "SCHEME")]
    pub scheme: Scheme,
    /// Order of transactions, under rc-ssn and si-ssn: strict, a transaction comes after all that had been acknowledged
    /// when it began; session, after those of its session; none. Sessions change it with SET ermine.transaction_order
    #[arg(help_heading = STORAGE, long, default_value_t = Order::default(), value_name = "ORDER")]
    pub order: Order,
    /// When a commit is acknowledged: durable, when it is on the device; async, at once; none, nothing is ever written
    #[arg(help_heading = STORAGE, long, default_value_t = Durability::default(), value_name = "WHEN")]
    pub durability: Durability,
    /// Memory that the database may take in MiB, for rows, indexes, statements and messages [default: three quarters of
    /// the machine's or the control group's, less of a small one]
    #[arg(help_heading = STORAGE, long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(16..=1 << 30))]
    pub memory_limit: Option<u64>,
    /// Archive of the log: files of the log are copied there before they are freed
    ///
    /// With a backup, `ermine restore` goes on from there to any later moment. Name it whenever the database is opened.
    #[arg(help_heading = STORAGE, long, value_name = "DIR")]
    pub archive: Option<PathBuf>,
}

impl Engine {
    /// Returns the engine's options.
    pub fn options(&self) -> Options {
        let mut options = Options::default().scheme(self.scheme).order(self.order).durability(self.durability);
        options.memory_limit = self.memory_limit.map(|mebibytes| mebibytes << 20);
        self.archive.iter().fold(options, |options, archive| options.archive(archive))
    }
}

#[derive(Debug, Args)]
pub struct Shell {
    /// Directory of the database
    #[arg(required_unless_present = "connect", conflicts_with = "connect")]
    pub dir: Option<PathBuf>,
    /// Make the database when there is none
    #[arg(long, conflicts_with = "connect")]
    pub create: bool,
    #[command(flatten)]
    pub engine: Engine,
    /// Use the server at postgres://user[:password]@host[:port]/database
    ///
    /// Parts that are left out are taken from PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGOPTIONS, PGAPPNAME and
    /// PGCONNECT_TIMEOUT. The connection uses TLS if the server supports it; sslmode or PGSSLMODE says whether it has
    /// to (disable, prefer, require). The server's identity is verified if PGSSLROOTCERT names a file of certificates.
    #[arg(
        long,
        value_name = "URL",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["scheme", "order", "durability", "memory_limit", "archive"]
    )]
    pub connect: Option<String>,
    /// Run this and end; may be given more than once
    ///
    /// Each is one text, so several statements of one are one transaction.
    #[arg(short, long, value_name = "SQL", conflicts_with = "file")]
    pub command: Vec<String>,
    /// Run a file and end; may be given more than once; - is the standard input
    #[arg(short, long, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Action of a script after a statement that failed
    #[arg(long, value_enum, default_value_t = OnError::Stop, value_name = "WHAT")]
    pub on_error: OnError,
    /// Write rows as CSV
    #[arg(long)]
    pub csv: bool,
    /// Write rows only: no headers, no counts, no tags
    #[arg(short, long)]
    pub tuples_only: bool,
    /// Write rows, but no tags
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OnError {
    Stop,
    Continue,
}

impl Shell {
    /// Returns the shell's task; `history` is the file for typed lines.
    pub fn task(&self, history: Option<PathBuf>) -> Task {
        let texts = self.command.iter().cloned().map(Step::Text);
        let files = self.file.iter().cloned().map(Step::File);
        let format = if self.csv { Format::Csv } else { Format::default() };
        Task {
            steps: texts.chain(files).collect(),
            goes_on: self.on_error == OnError::Continue,
            layout: Layout { format, rows_only: self.tuples_only, ..Layout::default() },
            is_quiet: self.quiet,
            history,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum User {
    /// Add a user, or give it another password
    ///
    /// The password is asked for; from a pipe, it is the first line. Once there is a user, no client logs in without a
    /// password.
    Add {
        /// The user's name
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Remove a user
    Drop {
        /// The user's name
        name: String,
        #[command(flatten)]
        place: Place,
    },
    /// Print the users' names, line by line
    List {
        #[command(flatten)]
        place: Place,
    },
}

/// An existing database.
#[derive(Debug, Args)]
pub struct Place {
    /// The database's directory
    pub dir: PathBuf,
    #[command(flatten)]
    pub engine: Engine,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_fit_together() {
        Ermined::command().debug_assert();
        let serve = |line: &str| match Ermined::try_parse_from(line.split(' ')) {
            Ok(Ermined { command: Command::Serve(serve) }) => Ok(serve),
            Ok(_) => panic!("{line}"),
            Err(error) => Err(error.to_string()),
        };
        let local = serve("ermined serve d").unwrap();
        assert!(local.is_local() && local.options().trust);
        let anywhere = serve("ermined serve d --listen 127.0.0.1:1 --listen 0.0.0.0:2 --drain-seconds 3").unwrap();
        assert!(!anywhere.is_local() && !anywhere.options().trust);
        assert_eq!((anywhere.listen.len(), anywhere.options().drain_max.as_secs()), (2, 3));
        for line in
            ["serve", "serve d --listen here", "serve d --tls-cert c", "serve d --tls-required", "serve d --scheme x"]
        {
            assert!(serve(&format!("ermined {line}")).is_err(), "{line}");
        }
        let json = serve("ermined serve d --json-stream nats://h:1 --json-publication a_1 --replicas 1").unwrap();
        assert_eq!(json.json_stream().map(|options| (options.publication, options.replicas)), Some(("a_1".into(), 1)));
        for line in ["--json-stream u", "--json-publication p", "--json-stream u --json-publication A"] {
            assert!(serve(&format!("ermined serve d {line}")).is_err(), "{line}");
        }
        let limited = serve("ermined serve d --memory-limit 64").unwrap();
        assert_eq!(limited.engine.options().memory_limit, Some(64 << 20));
        assert!(serve("ermined serve d --memory-limit 1").is_err());
        let shell = |line: &str| match Ermined::try_parse_from(line.split(' ')) {
            Ok(Ermined { command: Command::Shell(shell) }) => Ok(shell),
            Ok(_) => panic!("{line}"),
            Err(error) => Err(error.to_string()),
        };
        let task = shell("ermined shell d -c a -c b --csv --on-error continue").unwrap().task(None);
        assert_eq!(task.steps, [Step::Text("a".into()), Step::Text("b".into())]);
        assert!(task.goes_on && task.layout.format == Format::Csv);
        let connected = shell("ermined shell --connect -f -").unwrap();
        assert_eq!((connected.connect.as_deref(), &*connected.file), (Some(""), &["-".into()][..]));
        for line in ["shell", "shell d --connect", "shell --connect u --scheme si", "shell d -c a -f b"] {
            assert!(shell(&format!("ermined {line}")).is_err(), "{line}");
        }
    }
}

//! A replicated log in NATS JetStream: a stream for the messages, a key-value bucket for the lease, an object store for
//! the blobs.
//!
//! | what | where |
//! |---|---|
//! | messages | stream `ermine-NAME`, subject `ermine.NAME.log` |
//! | lease | key `primary` of the bucket `ermine-NAME-lease` |
//! | blobs | object store `ermine-NAME-blobs` |
//! | notes | subject `ermine.NAME.notes`, of which no stream keeps anything |
//!
//! An append carries `Nats-Expected-Last-Sequence`. An entry of the lease expires with the bucket's `max_age`, by the
//! clocks of the servers: one that was written while its leader's clock was ahead stays for as long. A blob is visible
//! when its description is stored, behind its chunks; if storing it fails in between, the chunks stay, without a name
//! that leads to them, until the next blob is stored: one node at a time stores blobs.
//!
//! Invariants:
//! 1. A sequence is a sequence of the stream. A message is acknowledged when a quorum of the replicas has stored it.
//!    They have synchronized their files only if the servers run with `sync_interval: always`, which a client cannot
//!    see.
//! 2. A term is the revision of the entry that acquired the lease: the bucket's sequence, which only rises. The entry's
//!    value is `TERM HOLDER`; the one that acquires does not know its revision yet, so its `TERM` is 0. A write of the
//!    lease is a revision, too.
//! 3. All reads of a state go to the leader of a stream (`allow_direct` is off): a replica behind it would say that a
//!    lease is lost which was just acquired. A leader that is deposed and does not know it may still give an old
//!    answer.
//! 4. A reader checks that sequences have no hole: where the stream has lost or removed messages, JetStream delivers
//!    the next one that it has.

use std::{error::Error, fmt, time::Duration};

use async_nats::{
    Client, ConnectOptions, ServerAddr, Subscriber,
    jetstream::{
        self,
        consumer::{DeliverPolicy, pull},
        context::{Context, ContextBuilder, PublishErrorKind},
        kv, object_store,
        stream::{self, DiscardPolicy, StorageType, Stream},
    },
};
use bytes::Bytes;
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use tokio::io::AsyncRead;

use crate::log::{
    AppendError, BlobError, BlobInfo, Lease, LeaseError, LeaseWrite, LogReader, NoteReader, ReadError, ReplicatedLog,
    Sequence, Term,
};

const KEY: &str = "primary";
/// What a server has to accept as one message.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How a log in JetStream is found, and made if there is none.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of all servers, separated by commas: `nats://host:4222,..`.
    pub servers: String,
    /// The name of the cluster: letters, digits and `-`, but not `json`, and not `json-` at its beginning.
    pub name: String,
    /// The number of servers that store each message: 3, or 1 without protection.
    pub replicas: usize,
    /// The time after which a lease expires that is not renewed.
    pub lease_lifetime: Duration,
    /// The time after which an operation gives up.
    pub timeout: Duration,
}

/// A replicated log in JetStream.
#[derive(Clone)]
pub struct JetStream {
    client: Client,
    context: Context,
    subject: String,
    note_subject: String,
    messages: Stream<()>,
    lease: kv::Store,
    blobs: object_store::ObjectStore,
    /// The stream of the blobs.
    objects: Stream<()>,
    /// The beginning of all subjects of blobs.
    blob_subjects: String,
}

/// The reason why a log in JetStream could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The name has a character that names of streams do not have, or is one that feeds of JSON have.
    Name(String),
    /// No server answers, or it refuses.
    Unreachable(String),
    /// The servers do not accept messages that are as long as pieces of a log are.
    Payload {
        /// The longest message that they accept.
        bytes_max: usize,
    },
    /// A stream of this name exists, with another setting.
    Setting {
        /// The stream.
        stream: String,
        /// The setting.
        setting: &'static str,
    },
}

/// Reads the notes of nodes.
pub struct Notes(Subscriber);

/// Reads a log in JetStream.
pub struct Reader {
    messages: pull::Ordered,
    next: Sequence,
}

impl JetStream {
    /// Connects to the servers, and makes the streams that do not exist.
    pub async fn open(options: &Options) -> Result<Self, OpenError> {
        let Options { servers, name, replicas, lease_lifetime, timeout } = options;
        if !can_name_cluster(name) {
            return Err(OpenError::Name(name.clone()));
        }
        // A server whose machine is lost, or cut off, ends no connection. The third ping without any answer does: so a
        // node turns to another server within the lifetime of a lease, and can take it.
        let client = connect(servers, *timeout, *lease_lifetime / 5).await.map_err(OpenError::Unreachable)?;
        let bytes_max = client.server_info().max_payload;
        if bytes_max < MESSAGE_BYTES_MAX {
            return Err(OpenError::Payload { bytes_max });
        }
        let context = ContextBuilder::new().timeout(*timeout).ack_timeout(*timeout).build(client.clone());

        let (stream, lease, blobs) =
            (format!("ermine-{name}"), format!("ermine-{name}-lease"), format!("ermine-{name}-blobs"));
        let subject = format!("ermine.{name}.log");
        let common = stream::Config { storage: StorageType::File, num_replicas: *replicas, ..Default::default() };
        let messages = stream::Config {
            name: stream.clone(),
            subjects: vec![subject.clone()],
            // Retention removes from the front only.
            deny_delete: true,
            ..common.clone()
        };
        let entries = stream::Config {
            name: format!("KV_{lease}"),
            subjects: vec![format!("$KV.{lease}.>")],
            max_age: *lease_lifetime,
            // Not longer than `max_age`.
            duplicate_window: *lease_lifetime,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::New,
            allow_rollup: true,
            deny_delete: true,
            ..common.clone()
        };
        let objects = stream::Config {
            name: format!("OBJ_{blobs}"),
            subjects: vec![format!("$O.{blobs}.C.>"), format!("$O.{blobs}.M.>")],
            discard: DiscardPolicy::New,
            allow_rollup: true,
            ..common
        };
        for config in [messages, entries, objects] {
            create(&context, config).await?;
        }
        Ok(Self {
            messages: context.get_stream_no_info(&stream).await.map_err(unreachable_at_open)?,
            lease: context.get_key_value(&lease).await.map_err(unreachable_at_open)?,
            blobs: context.get_object_store(&blobs).await.map_err(unreachable_at_open)?,
            objects: context.get_stream_no_info(format!("OBJ_{blobs}")).await.map_err(unreachable_at_open)?,
            blob_subjects: format!("$O.{blobs}."),
            note_subject: format!("ermine.{name}.notes"),
            client,
            context,
            subject,
        })
    }

    /// Returns the lease in force, and the revision of its entry.
    async fn held(&self) -> Result<Option<(Lease, u64)>, LeaseError> {
        let entry = self.lease.entry(KEY).await.map_err(lease_unreachable)?;
        entry.map_or(Ok(None), |entry| Self::held_by(&entry))
    }

    /// Returns the lease of an entry, and its revision, unless it says that the lease was given back.
    fn held_by(entry: &kv::Entry) -> Result<Option<(Lease, u64)>, LeaseError> {
        if entry.operation != kv::Operation::Put {
            return Ok(None);
        }
        let value = String::from_utf8_lossy(&entry.value);
        let parsed = value.split_once(' ').and_then(|(term, holder)| Some((term.parse::<u64>().ok()?, holder)));
        let Some((term, holder)) = parsed else {
            return Err(LeaseError::Unreachable(format!("the entry of the lease is \"{value}\"")));
        };
        let term = Term(if term == 0 { entry.revision } else { term });
        Ok(Some((Lease { holder: holder.into(), term, expired: None }, entry.revision)))
    }

    /// Returns the descriptions of the blobs, from the leader of their stream (invariant 3).
    async fn descriptions(&self) -> Result<Vec<object_store::ObjectInfo>, BlobError> {
        let mut found: Vec<object_store::ObjectInfo> = Vec::new();
        for subject in self.subjects("M").await? {
            let message = self.objects.get_last_raw_message_by_subject(&subject).await.map_err(blob_unreachable)?;
            found.push(serde_json::from_slice(&message.payload).map_err(blob_unreachable)?);
        }
        found.retain(|object| !object.deleted);
        Ok(found)
    }

    /// Returns the subjects of descriptions ("M") or chunks ("C") of blobs.
    async fn subjects(&self, kind: &str) -> Result<Vec<String>, BlobError> {
        let of_kind = format!("{}{kind}.*", self.blob_subjects);
        let mut subjects = self.objects.info_with_subjects(of_kind).await.map_err(blob_unreachable)?;
        let mut found = Vec::new();
        while let Some(subject) = subjects.next().await {
            found.push(subject.map_err(blob_unreachable)?.0);
        }
        Ok(found)
    }

    /// Removes the chunks to which no description leads.
    async fn remove_unfinished(&self) -> Result<(), BlobError> {
        // First: what a description leads to that is stored meanwhile is among them.
        let chunks = self.subjects("C").await?;
        let finished: Vec<_> = self.descriptions().await?.into_iter().map(|object| object.nuid).collect();
        for subject in chunks {
            if !finished.iter().any(|finished| subject.ends_with(&format!(".{finished}"))) {
                self.objects.purge().filter(subject.as_str()).await.map_err(blob_unreachable)?;
            }
        }
        Ok(())
    }

    /// Returns the revision of the entry of a lease that is in force.
    async fn revision(&self, lease: &Lease) -> Result<u64, LeaseError> {
        match self.held().await? {
            Some((held, revision)) if held.term == lease.term => Ok(revision),
            _ => Err(LeaseError::Lost),
        }
    }
}

/// Whether a cluster may have this name. The streams and subjects of `json` and `json-..` are those of feeds of JSON.
fn can_name_cluster(name: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !name.is_empty() && name.bytes().all(is_good) && name != "json" && !name.starts_with("json-")
}

/// The login of a client.
#[derive(PartialEq, Eq, Debug)]
enum Login {
    Anonymous,
    Token(String),
    User { name: String, password: String },
}

impl Login {
    /// Returns the first one that addresses have: `user:password@`, or a token as `token@`. Bytes may be written as
    /// `%XX`.
    fn of(servers: &[ServerAddr]) -> Result<Self, String> {
        let decode = |text: &str| {
            let decoded = percent_decode_str(text).decode_utf8();
            // The text itself may be a password.
            decoded.map(String::from).map_err(|_| "a user, password or token in an address is not UTF-8".to_owned())
        };
        let mut logins = servers.iter().map(|server| (server.username(), server.password()));
        match logins.find(|login| *login != (None, None)) {
            None | Some((None, None)) => Ok(Self::Anonymous),
            Some((Some(token), None)) => Ok(Self::Token(decode(token)?)),
            Some((name, Some(password))) => {
                Ok(Self::User { name: decode(name.unwrap_or_default())?, password: decode(password)? })
            }
        }
    }
}

/// Connects to one of the servers at addresses that are separated by commas. A user and a password, or a token, in an
/// address are those for all.
pub(crate) async fn connect(servers: &str, timeout: Duration, ping_interval: Duration) -> Result<Client, String> {
    let servers: Result<Vec<ServerAddr>, _> = servers.split(',').map(str::parse).collect();
    let servers = servers.map_err(|error| text(&error))?;
    let options = match Login::of(&servers)? {
        Login::Anonymous => ConnectOptions::new(),
        Login::Token(token) => ConnectOptions::with_token(token),
        Login::User { name, password } => ConnectOptions::with_user_and_password(name, password),
    };
    // The servers' own addresses may be of a network that this machine does not reach.
    let options = options
        .ignore_discovered_servers()
        .connection_timeout(timeout)
        .request_timeout(Some(timeout))
        .ping_interval(ping_interval);
    options.connect(servers).await.map_err(|error| text(&error))
}

/// Makes a stream, or checks the one that exists.
async fn create(context: &Context, config: stream::Config) -> Result<(), OpenError> {
    let stream = context.get_or_create_stream(config.clone()).await.map_err(unreachable_at_open)?;
    let found = &stream.cached_info().config;
    let settings = [
        ("storage", found.storage == config.storage),
        ("number of replicas", found.num_replicas == config.num_replicas),
        ("subjects", found.subjects == config.subjects),
        ("lifetime of a lease", found.max_age == config.max_age),
        ("direct access", found.allow_direct == config.allow_direct),
    ];
    match settings.iter().find(|(_, same)| !same) {
        Some((setting, _)) => Err(OpenError::Setting { stream: config.name, setting }),
        None => Ok(()),
    }
}

/// Returns an error with its causes, as one text.
pub(crate) fn text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text += &format!(": {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn unreachable_at_open(error: impl Error + 'static) -> OpenError {
    OpenError::Unreachable(text(&error))
}

fn lease_unreachable(error: impl Error + 'static) -> LeaseError {
    LeaseError::Unreachable(text(&error))
}

fn read_unreachable(error: impl Error + 'static) -> ReadError {
    ReadError::Unreachable(text(&error))
}

fn blob_unreachable(error: impl Error + 'static) -> BlobError {
    BlobError::Unreachable(text(&error))
}

impl ReplicatedLog for JetStream {
    type Reader = Reader;
    type Blob = object_store::Object;
    type Notes = Notes;

    async fn append(&self, expected: Sequence, message: Bytes) -> Result<Sequence, AppendError> {
        let publish = jetstream::message::PublishMessage::build().payload(message).expected_last_sequence(expected.0);
        let sent = self.context.send_publish(self.subject.clone(), publish).await;
        let answered = match sent {
            Ok(answer) => answer.await,
            Err(error) => Err(error),
        };
        answered.map(|answer| Sequence(answer.sequence)).map_err(|error| match error.kind() {
            PublishErrorKind::WrongLastSequence => AppendError::Taken,
            PublishErrorKind::MaxPayloadExceeded => AppendError::Refused(text(&error)),
            _ => AppendError::Unknown(text(&error)),
        })
    }

    async fn get(&self, sequence: Sequence) -> Result<Option<Bytes>, ReadError> {
        match self.messages.get_raw_message(sequence.0).await {
            Ok(message) => return Ok(Some(message.payload)),
            Err(error) if error.kind() == stream::RawMessageErrorKind::NoMessageFound => {}
            Err(error) => return Err(read_unreachable(error)),
        }
        let state = self.messages.get_info().await.map_err(read_unreachable)?.state;
        // A message that came between the two answers is read by the next call.
        let removed = sequence.0 < state.first_sequence;
        if removed { Err(ReadError::Gone { first: Sequence(state.first_sequence) }) } else { Ok(None) }
    }

    async fn read(&self, from: Sequence) -> Result<Reader, ReadError> {
        let config = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from.0 },
            ..Default::default()
        };
        let consumer = self.messages.create_consumer(config).await.map_err(read_unreachable)?;
        Ok(Reader { messages: consumer.messages().await.map_err(read_unreachable)?, next: from })
    }

    async fn last(&self) -> Result<Sequence, ReadError> {
        let info = self.messages.get_info().await.map_err(read_unreachable)?;
        Ok(Sequence(info.state.last_sequence))
    }

    async fn trim(&self, before: Sequence) -> Result<(), ReadError> {
        let before = before.min(self.last().await?);
        if before.0 <= 1 {
            // The server takes this for all messages.
            return Ok(());
        }
        self.messages.purge().sequence(before.0).await.map(drop).map_err(read_unreachable)
    }

    async fn acquire(&self, holder: &str, old: Option<LeaseWrite>) -> Result<Lease, LeaseError> {
        /// Leases may be acquired, and expire, between the look and the write.
        const ATTEMPTS: usize = 3;
        let mut attempts = 0;
        loop {
            let entry = self.lease.entry(KEY).await.map_err(lease_unreachable)?;
            let mut is_old = false;
            if let Some(entry) = &entry
                && let Some((held, revision)) = Self::held_by(entry)?
            {
                is_old = old == Some(LeaseWrite(revision));
                if !is_old {
                    return Err(LeaseError::Held { holder: held.holder, write: LeaseWrite(revision) });
                }
            }
            // 0: there is no entry. Otherwise, it is old, or says that the lease was given back.
            let before = entry.map_or(0, |entry| entry.revision);
            let error = match self.lease.update(KEY, format!("0 {holder}").into(), before).await {
                Ok(revision) => {
                    let has_expired = is_old || before == 0 && revision > 1;
                    let expired = has_expired.then(|| LeaseWrite(revision - 1));
                    return Ok(Lease { holder: holder.into(), term: Term(revision), expired });
                }
                Err(error) => error,
            };
            attempts += 1;
            if error.kind() != kv::UpdateErrorKind::WrongLastRevision || attempts == ATTEMPTS {
                return Err(lease_unreachable(error));
            }
        }
    }

    async fn renew(&self, lease: &Lease) -> Result<(), LeaseError> {
        let revision = self.revision(lease).await?;
        let value = format!("{} {}", lease.term, lease.holder);
        match self.lease.update(KEY, value.into(), revision).await {
            Ok(_) => Ok(()),
            // An earlier renewal of this lease came in between, or another node's lease: the next call tells them
            // apart.
            Err(error) => Err(lease_unreachable(error)),
        }
    }

    async fn release(&self, lease: &Lease) -> Result<(), LeaseError> {
        let revision = self.revision(lease).await?;
        self.lease.delete_expect_revision(KEY, Some(revision)).await.map_err(lease_unreachable)
    }

    async fn put_blob(&self, name: &str, mut source: impl AsyncRead + Unpin + Send) -> Result<(), BlobError> {
        self.remove_unfinished().await?;
        self.blobs.put(name, &mut source).await.map(drop).map_err(|error| match error.kind() {
            object_store::PutErrorKind::ReadChunks => BlobError::Source(std::io::Error::other(error)),
            _ => blob_unreachable(error),
        })
    }

    async fn get_blob(&self, name: &str) -> Result<object_store::Object, BlobError> {
        self.blobs.get(name).await.map_err(|error| match error.kind() {
            object_store::GetErrorKind::NotFound => BlobError::Missing,
            _ => blob_unreachable(error),
        })
    }

    async fn list_blobs(&self) -> Result<Vec<BlobInfo>, BlobError> {
        let descriptions = self.descriptions().await?.into_iter();
        let mut blobs: Vec<_> =
            descriptions.map(|object| BlobInfo { name: object.name, bytes: object.size as u64 }).collect();
        blobs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(blobs)
    }

    async fn delete_blob(&self, name: &str) -> Result<(), BlobError> {
        match self.blobs.delete(name).await {
            Err(error) if error.kind() != object_store::DeleteErrorKind::NotFound => Err(blob_unreachable(error)),
            _ => Ok(()),
        }
    }

    async fn tell(&self, note: Bytes) -> Result<(), ReadError> {
        self.client.publish(self.note_subject.clone(), note).await.map_err(read_unreachable)
    }

    async fn listen(&self) -> Result<Notes, ReadError> {
        let notes = self.client.subscribe(self.note_subject.clone()).await.map_err(read_unreachable)?;
        Ok(Notes(notes))
    }
}

impl NoteReader for Notes {
    async fn next(&mut self) -> Result<Bytes, ReadError> {
        let note = self.0.next().await.ok_or_else(|| ReadError::Unreachable("the subscription has ended".into()))?;
        Ok(note.payload)
    }
}

impl LogReader for Reader {
    async fn next(&mut self) -> Result<(Sequence, Bytes), ReadError> {
        loop {
            let Some(message) = self.messages.next().await else {
                return Err(ReadError::Unreachable("the stream of messages has ended".into()));
            };
            let message = message.map_err(read_unreachable)?;
            let info = message.info().map_err(|error| ReadError::Unreachable(error.to_string()))?;
            let found = Sequence(info.stream_sequence);
            if found > self.next {
                return Err(ReadError::Gone { first: found });
            }
            // The client may begin again, further in front, when it has lost its connection.
            if found == self.next {
                self.next = found.next();
                return Ok((found, message.payload.clone()));
            }
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(
                    f,
                    "\"{name}\" cannot name a cluster: use letters, digits and \"-\", and not \"json\" or \"json-..\""
                )
            }
            Self::Unreachable(reason) => write!(f, "the log cannot be opened: {reason}"),
            Self::Payload { bytes_max } => write!(
                f,
                "the servers of NATS accept messages of {bytes_max} bytes: set their max_payload to at least \
                 {MESSAGE_BYTES_MAX}"
            ),
            Self::Setting { stream, setting } => {
                write!(f, "the stream \"{stream}\" exists with another setting: {setting}")
            }
        }
    }
}

impl Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_decoded() {
        let of = |servers: &str| {
            let servers: Vec<ServerAddr> = servers.split(',').map(|server| server.parse().unwrap()).collect();
            Login::of(&servers)
        };
        let user = |name: &str, password: &str| Ok(Login::User { name: name.into(), password: password.into() });
        assert_eq!(of("nats://one:4222,two"), Ok(Login::Anonymous));
        assert_eq!(of("one:4222,nats://ann:word@two"), user("ann", "word"));
        assert_eq!(of("nats://a%40b:x%3A%2C%25=y%20z@one"), user("a@b", "x:,%=y z"));
        // What the address does not escape is taken as it is.
        assert_eq!(of("nats://ann:100%|=^ü@one"), user("ann", "100%|=^ü"));
        assert_eq!(of("nats://:word@one"), user("", "word"));
        assert_eq!(of("nats://t0k%2Fn=@one"), Ok(Login::Token("t0k/n=".into())));
        assert!(of("nats://ann:%FF@one").is_err());
    }

    #[test]
    fn clusters_do_not_have_names_of_feeds() {
        for name in ["shop", "json1", "my-json", "JSON"] {
            assert!(can_name_cluster(name), "{name}");
        }
        for name in ["", "a.b", "json", "json-", "json-shop"] {
            assert!(!can_name_cluster(name), "{name}");
        }
    }
}

//! A stream in NATS JetStream to which one writer appends messages for other programs. Each message has a header with
//! a mark, by which the writer finds where it was.
//!
//! Invariants:
//! 1. A message names the sequence before it (`Nats-Expected-Last-Sequence`), so its writer knew the message at that
//!    sequence. If a message is lost, those behind it are refused; and so is one that comes late.
//! 2. After an error, the outcome of all messages that are not acknowledged is unknown: the writer opens the feed
//!    again, and goes on behind the mark that it finds.

use std::{
    fmt,
    pin::Pin,
    task::{Context as Polling, Poll},
    time::Duration,
};

use async_nats::{
    connection::State,
    jetstream::{
        context::{Context, ContextBuilder, PublishAckFuture},
        message::PublishMessage,
        stream::{self, RawMessageErrorKind, StorageType},
    },
};
use bytes::Bytes;

use crate::{
    jetstream::{connect, text},
    log::Sequence,
};

/// The header with the mark of a message.
const MARK: &str = "Ermine-Position";
/// A connection is given up after the third ping without an answer.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// How a feed is found, and made if there is none.
#[derive(Clone, Debug)]
pub struct Options {
    /// Addresses of all servers, separated by commas: `nats://host:4222,..`.
    pub servers: String,
    /// The name of the stream.
    pub stream: String,
    /// The subjects of its messages.
    pub subjects: Vec<String>,
    /// The number of servers that store each message, if the stream is made.
    pub replicas: usize,
    /// The time after which an operation gives up.
    pub timeout: Duration,
    /// The most messages that are not acknowledged at a time.
    pub window: usize,
}

/// The writer of a feed.
pub struct Feed {
    context: Context,
    last: Sequence,
}

/// The last message of a feed when it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Last {
    /// There never was one.
    None,
    /// It was removed.
    Removed,
    /// Its mark; `None`: another program has written it.
    Message(Option<String>),
}

/// A message on its way; resolves to its sequence when the servers have stored it.
#[must_use]
pub struct Sent(Pin<Box<<PublishAckFuture as IntoFuture>::IntoFuture>>);

/// The reason why a feed could not be opened or written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FeedError(pub String);

impl Feed {
    /// Connects to the servers, makes the stream if it does not exist, and looks at its last message.
    pub async fn open(options: &Options) -> Result<(Self, Last), FeedError> {
        let client = connect(&options.servers, options.timeout, PING_INTERVAL).await.map_err(FeedError)?;
        let (timeout, window) = (options.timeout, options.window);
        let context = ContextBuilder::new().timeout(timeout).ack_timeout(timeout).max_ack_inflight(window);
        let context = context.build(client);
        let config = stream::Config {
            name: options.stream.clone(),
            subjects: options.subjects.clone(),
            storage: StorageType::File,
            num_replicas: options.replicas,
            ..Default::default()
        };
        let stream = context.get_or_create_stream(config).await.map_err(|error| failed(&error))?;
        let info = stream.get_info().await.map_err(|error| failed(&error))?;
        if info.config.subjects != options.subjects {
            let stream = &options.stream;
            return Err(FeedError(format!(
                "the stream \"{stream}\" exists with other subjects: {:?}",
                info.config.subjects
            )));
        }
        let sequence = info.state.last_sequence;
        let last = match sequence {
            0 => Last::None,
            _ => match stream.get_raw_message(sequence).await {
                Ok(message) => Last::Message(message.headers.get(MARK).map(|mark| mark.as_str().to_owned())),
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Last::Removed,
                Err(error) => return Err(failed(&error)),
            },
        };
        Ok((Self { context, last: Sequence(sequence) }, last))
    }

    /// Returns the sequence of the last message, those on their way included.
    pub fn last(&self) -> Sequence {
        self.last
    }

    /// Whether there is a connection: without one, the acknowledgements of messages on their way may not come.
    pub fn is_connected(&self) -> bool {
        self.context.client().connection_state() == State::Connected
    }

    /// Sends a message; messages are stored in the order of these calls.
    pub async fn send(&mut self, subject: &str, mark: &str, payload: Bytes) -> Result<Sent, FeedError> {
        let message = PublishMessage::build().header(MARK, mark).payload(payload).expected_last_sequence(self.last.0);
        let sent = self.context.send_publish(subject.to_owned(), message).await.map_err(|error| failed(&error))?;
        self.last = self.last.next();
        Ok(Sent(Box::pin(sent.into_future())))
    }
}

impl Future for Sent {
    type Output = Result<Sequence, FeedError>;

    fn poll(mut self: Pin<&mut Self>, polling: &mut Polling<'_>) -> Poll<Self::Output> {
        let answered = self.0.as_mut().poll(polling);
        answered.map(|answer| answer.map(|answer| Sequence(answer.sequence)).map_err(|error| failed(&error)))
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> FeedError {
    FeedError(text(error))
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FeedError {}

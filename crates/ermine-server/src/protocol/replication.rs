//! Commands of streaming replication, and the messages within a stream, of PostgreSQL's protocol, chapter 55.4.

use ermine_sql::{Result, SqlError, SqlState, logical::parse_lsn};

use super::Malformed;

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// IDENTIFY_SYSTEM
    IdentifySystem,
    /// CREATE_REPLICATION_SLOT
    CreateSlot {
        /// The name of the slot.
        name: String,
        /// The plugin that decodes changes.
        plugin: String,
        /// Whether the transaction of the session is to see what the slot does not.
        uses_snapshot: bool,
    },
    /// DROP_REPLICATION_SLOT
    DropSlot {
        /// The name of the slot.
        name: String,
        /// Whether to wait until the slot has no reader.
        waits: bool,
    },
    /// START_REPLICATION
    Start {
        /// The name of the slot.
        slot: String,
        /// The position of the first commit that the client wants.
        from: u64,
        /// The options of the plugin.
        options: Vec<(String, Option<String>)>,
    },
}

/// A message of the client within a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Feedback {
    /// How far the client is.
    Status {
        /// The position up to which it has everything for good.
        flushed: u64,
        /// Whether it wants an answer.
        wants_reply: bool,
    },
    /// Something that only a standby sends.
    Other,
}

impl Command {
    /// Parses a text; `None`: it is no such command, but SQL.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let mut words = Words(text);
        let Some(Word::Plain(first)) = words.next()? else { return Ok(None) };
        let command = match &*first {
            "identify_system" => Self::IdentifySystem,
            "create_replication_slot" => Self::create(&mut words)?,
            "drop_replication_slot" => {
                let name = words.name()?;
                Self::DropSlot { name, waits: words.take("wait")? }
            }
            "start_replication" => Self::start(&mut words)?,
            "timeline_history" | "base_backup" | "read_replication_slot" => {
                return Err(SqlError::unsupported(format_args!("{}", first.to_uppercase())));
            }
            _ => return Ok(None),
        };
        let _ = words.take(";")?;
        match words.next()? {
            None => Ok(Some(command)),
            Some(_) => Err(syntax_error()),
        }
    }

    fn create(words: &mut Words<'_>) -> Result<Self> {
        let name = words.name()?;
        if words.take("temporary")? {
            return Err(SqlError::unsupported("a temporary replication slot"));
        }
        if words.take("physical")? {
            return Err(SqlError::unsupported("a physical replication slot"));
        }
        words.expect("logical")?;
        let plugin = words.name()?;
        let mut snapshot = "nothing".to_owned();
        if words.take("(")? {
            loop {
                let Some(Word::Plain(option)) = words.next()? else { return Err(syntax_error()) };
                let value = words.value()?;
                match (&*option, value) {
                    ("snapshot", Some(value)) => snapshot = value,
                    ("two_phase", value) if is_on(&option, value.as_deref())? => {
                        return Err(SqlError::unsupported("a slot with TWO_PHASE"));
                    }
                    ("two_phase", _) => {}
                    _ => return Err(unknown_option(&option)),
                }
                if words.take(")")? {
                    break;
                }
                words.expect(",")?;
            }
        } else if words.take("use_snapshot")? {
            snapshot = "use".into();
        } else if words.take("export_snapshot")? {
            snapshot = "export".into();
        } else if words.take("two_phase")? {
            return Err(SqlError::unsupported("a slot with TWO_PHASE"));
        } else {
            let _ = words.take("noexport_snapshot")?;
        }
        let uses_snapshot = match &*snapshot {
            "use" => true,
            "nothing" => false,
            "export" => {
                let error = SqlError::unsupported("a slot that exports its snapshot");
                return Err(error.hint("Begin a transaction at REPEATABLE READ, and use (SNAPSHOT 'use')."));
            }
            other => {
                let message =
                    format!("unrecognized value for CREATE_REPLICATION_SLOT option \"snapshot\": \"{other}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        Ok(Self::CreateSlot { name, plugin, uses_snapshot })
    }

    fn start(words: &mut Words<'_>) -> Result<Self> {
        if !words.take("slot")? {
            return Err(SqlError::unsupported("physical replication").hint("Use START_REPLICATION SLOT .. LOGICAL."));
        }
        let slot = words.name()?;
        if !words.take("logical")? {
            return Err(SqlError::unsupported("physical replication").hint("Use START_REPLICATION SLOT .. LOGICAL."));
        }
        let Some(Word::Plain(position)) = words.next()? else { return Err(syntax_error()) };
        let from = parse_lsn(&position.to_uppercase()).ok_or_else(|| {
            let message = format!("invalid streaming start location \"{position}\"");
            SqlError::new(SqlState::SYNTAX_ERROR, message)
        })?;
        let mut options = Vec::new();
        if words.take("(")? {
            loop {
                let option = words.name()?;
                options.push((option, words.value()?));
                if words.take(")")? {
                    break;
                }
                words.expect(",")?;
            }
        }
        Ok(Self::Start { slot, from, options })
    }

    /// Returns the tag with which it completes.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::IdentifySystem => "IDENTIFY_SYSTEM",
            Self::CreateSlot { .. } => "CREATE_REPLICATION_SLOT",
            Self::DropSlot { .. } => "DROP_REPLICATION_SLOT",
            Self::Start { .. } => "START_REPLICATION",
        }
    }
}

impl Feedback {
    /// Decodes the data of a client's message.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        const MALFORMED: Malformed = Malformed("a message within a stream of changes is malformed");
        match data.split_first().ok_or(MALFORMED)? {
            (b'r', rest) if rest.len() == 33 => {
                let flushed = rest[8..16].try_into().map(u64::from_be_bytes).map_err(|_| MALFORMED)?;
                Ok(Self::Status { flushed, wants_reply: rest[32] != 0 })
            }
            (b'h', _) => Ok(Self::Other),
            _ => Err(MALFORMED),
        }
    }
}

/// Appends the data of a message with a piece of the stream, which begins at a position.
pub fn piece(out: &mut Vec<u8>, position: u64, now: i64, piece: &[u8]) {
    out.push(b'w');
    out.extend_from_slice(&position.to_be_bytes());
    out.extend_from_slice(&position.to_be_bytes());
    out.extend_from_slice(&now.to_be_bytes());
    out.extend_from_slice(piece);
}

/// Appends the data of a message that says how far the stream is.
pub fn keepalive(out: &mut Vec<u8>, position: u64, now: i64, wants_reply: bool) {
    out.push(b'k');
    out.extend_from_slice(&position.to_be_bytes());
    out.extend_from_slice(&now.to_be_bytes());
    out.push(wants_reply.into());
}

/// A word of a command; plain ones are in lower case.
#[derive(PartialEq, Eq, Debug)]
enum Word {
    Plain(String),
    Name(String),
    Text(String),
}

/// The rest of a command.
struct Words<'t>(&'t str);

impl Words<'_> {
    fn next(&mut self) -> Result<Option<Word>> {
        self.0 = self.0.trim_start();
        let Some(first) = self.0.chars().next() else { return Ok(None) };
        match first {
            '"' => Ok(Some(Word::Name(self.quoted('"')?))),
            '\'' => Ok(Some(Word::Text(self.quoted('\'')?))),
            '(' | ')' | ',' | ';' => {
                self.0 = &self.0[1..];
                Ok(Some(Word::Plain(first.into())))
            }
            _ => {
                let is_end = |one: char| one.is_whitespace() || matches!(one, '"' | '\'' | '(' | ')' | ',' | ';');
                let end = self.0.find(is_end).unwrap_or(self.0.len());
                let (word, rest) = self.0.split_at(end);
                self.0 = rest;
                Ok(Some(Word::Plain(word.to_lowercase())))
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Result<String> {
        let (word, rest) = quoted(self.0, quote).ok_or_else(syntax_error)?;
        self.0 = rest;
        Ok(word)
    }

    fn take(&mut self, word: &str) -> Result<bool> {
        let before = self.0;
        let is_next = self.next()? == Some(Word::Plain(word.into()));
        if !is_next {
            self.0 = before;
        }
        Ok(is_next)
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.take(word)? { Ok(()) } else { Err(syntax_error()) }
    }

    fn name(&mut self) -> Result<String> {
        match self.next()? {
            Some(Word::Plain(name)) if !matches!(&*name, "(" | ")" | "," | ";") => Ok(name),
            Some(Word::Name(name)) => Ok(name),
            _ => Err(syntax_error()),
        }
    }

    /// Reads the value of an option, if it has one.
    fn value(&mut self) -> Result<Option<String>> {
        let before = self.0;
        match self.next()? {
            Some(Word::Text(value)) => return Ok(Some(value)),
            Some(Word::Plain(value)) if !matches!(&*value, ")" | ",") => return Ok(Some(value)),
            _ => {}
        }
        self.0 = before;
        Ok(None)
    }
}

/// Reads the value of an option that is on or off; without one it is on.
pub fn is_on(name: &str, value: Option<&str>) -> Result<bool> {
    match value.map(str::to_ascii_lowercase).as_deref() {
        None | Some("true" | "on" | "1" | "yes" | "t" | "y") => Ok(true),
        Some("false" | "off" | "0" | "no" | "f" | "n") => Ok(false),
        Some(_) => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("{name} requires a Boolean value"))),
    }
}

/// Reads a quoted word off a text that begins with its quote; a doubled quote stands for one. Returns the word and the
/// rest.
pub fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let (mut word, mut rest) = (String::new(), text.strip_prefix(quote)?);
    loop {
        let end = rest.find(quote)?;
        word.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix(quote) {
            Some(more) => (word, rest) = (word + &quote.to_string(), more),
            None => return Some((word, rest)),
        }
    }
}

fn syntax_error() -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, "syntax error in a command of replication")
}

fn unknown_option(name: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, format!("unrecognized option: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_as_clients_send_them() {
        let parsed = |text| Command::parse(text).unwrap();
        assert_eq!(parsed("IDENTIFY_SYSTEM"), Some(Command::IdentifySystem));
        for (text, uses_snapshot) in [
            ("CREATE_REPLICATION_SLOT \"sub\" LOGICAL pgoutput (SNAPSHOT 'nothing')", false),
            ("CREATE_REPLICATION_SLOT \"sub\" LOGICAL pgoutput (SNAPSHOT 'use');", true),
            ("create_replication_slot sub logical \"pgoutput\" USE_SNAPSHOT", true),
            ("CREATE_REPLICATION_SLOT \"sub\" LOGICAL pgoutput NOEXPORT_SNAPSHOT", false),
            ("CREATE_REPLICATION_SLOT sub LOGICAL pgoutput (SNAPSHOT 'nothing', TWO_PHASE false)", false),
        ] {
            let (name, plugin) = ("sub".into(), "pgoutput".into());
            assert_eq!(parsed(text), Some(Command::CreateSlot { name, plugin, uses_snapshot }), "{text}");
        }
        for (text, waits) in [("DROP_REPLICATION_SLOT sub WAIT", true), ("DROP_REPLICATION_SLOT \"sub\"", false)] {
            assert_eq!(parsed(text), Some(Command::DropSlot { name: "sub".into(), waits }));
        }
        let text = "START_REPLICATION SLOT \"a\"\"b\" LOGICAL 1/2f (proto_version '3', publication_names '\"p\"', x)";
        let options = [("proto_version", Some("3")), ("publication_names", Some("\"p\"")), ("x", None)];
        let options = options.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).to_vec();
        assert_eq!(parsed(text), Some(Command::Start { slot: "a\"b".into(), from: 1 << 32 | 0x2f, options }));
        for sql in ["SELECT 1", "", " ; ", "COPY t TO STDOUT", "\"identify_system\"", "SHOW wal_level"] {
            assert_eq!(parsed(sql), None, "{sql}");
        }
    }

    #[test]
    fn commands_that_are_cut_or_unknown_fail() {
        for text in [
            "CREATE_REPLICATION_SLOT",
            "CREATE_REPLICATION_SLOT sub",
            "CREATE_REPLICATION_SLOT sub LOGICAL",
            "CREATE_REPLICATION_SLOT sub LOGICAL pgoutput (",
            "CREATE_REPLICATION_SLOT sub LOGICAL pgoutput (SNAPSHOT 'x')",
            "CREATE_REPLICATION_SLOT \"sub",
            "START_REPLICATION SLOT sub LOGICAL here",
            "START_REPLICATION SLOT sub LOGICAL 0/0 (a 'b'",
            "IDENTIFY_SYSTEM now",
        ] {
            assert_eq!(Command::parse(text).unwrap_err().state(), SqlState::SYNTAX_ERROR, "{text}");
        }
        for text in ["START_REPLICATION 0/0", "CREATE_REPLICATION_SLOT a TEMPORARY LOGICAL b", "BASE_BACKUP"] {
            assert_eq!(Command::parse(text).unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED, "{text}");
        }
    }

    #[test]
    fn feedback_is_checked() {
        let mut data = vec![b'r'];
        [1, 2, 3].iter().for_each(|position: &u64| data.extend_from_slice(&position.to_be_bytes()));
        data.extend_from_slice(&[0; 8]);
        assert!(Feedback::decode(&data).is_err());
        data.push(1);
        assert_eq!(Feedback::decode(&data).unwrap(), Feedback::Status { flushed: 2, wants_reply: true });
        assert!(Feedback::decode(b"x").is_err() && Feedback::decode(b"").is_err());
    }
}

//! Messages of clients after startup.

use super::{Formats, Malformed, reader::Reader};

/// A message. Names are bytes here: whether they are UTF-8 is checked where they are looked up.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// A text of any number of statements.
    Query(&'a [u8]),
    /// A statement to be prepared.
    Parse {
        /// The statement's name; the unnamed one is replaced by the next.
        name: &'a [u8],
        /// The statement's text.
        text: &'a [u8],
        /// The parameters' types as oids, each of four bytes; 0 means unspecified.
        types: &'a [u8],
    },
    /// A statement to be bound to a portal.
    Bind(Bind<'a>),
    /// Asks for a description of a statement or a portal.
    Describe(Target<'a>),
    /// Runs a portal, up to a number of rows.
    Execute {
        /// The portal's name.
        portal: &'a [u8],
        /// The maximum number of rows; 0 means all.
        rows_max: i32,
    },
    /// Removes a statement or a portal.
    Close(Target<'a>),
    /// Asks for the output so far.
    Flush,
    /// Ends a group of messages.
    Sync,
    /// Calls a function.
    FunctionCall,
    /// A piece of the data that is copied in.
    CopyData(&'a [u8]),
    /// All of the data was sent.
    CopyDone,
    /// The client aborts the copy.
    CopyFail(&'a [u8]),
    /// A password, or a step of SASL.
    Password(&'a [u8]),
    /// The client ends the connection.
    Terminate,
}

/// A statement or a portal by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'a> {
    /// A statement.
    Statement(&'a [u8]),
    /// A portal.
    Portal(&'a [u8]),
}

/// A statement's parameters.
#[derive(Clone, Debug)]
pub struct Bind<'a> {
    /// The portal's name.
    pub portal: &'a [u8],
    /// The statement's name.
    pub statement: &'a [u8],
    /// The formats of the parameters.
    pub parameter_formats: Formats,
    /// How many parameters there are.
    pub parameter_count: usize,
    parameters: Reader<'a>,
    /// The formats of the results.
    pub result_formats: Formats,
}

impl<'a> Bind<'a> {
    /// Returns the parameters, in their order; `None` is NULL.
    pub fn parameters(&self) -> impl Iterator<Item = Option<&'a [u8]>> {
        let mut reader = self.parameters;
        // `decode` has walked over them once, so none is cut.
        (0..self.parameter_count).map(move |_| reader.value().unwrap_or_default())
    }
}

/// A message's first five bytes: its kind and its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    kind: u8,
    /// Length of the whole message in bytes.
    pub length: usize,
}

/// The maximum lengths of messages.
#[derive(Clone, Copy, Debug)]
pub struct LengthLimits {
    /// Messages that carry statements and values.
    pub long: usize,
    /// All other messages.
    pub short: usize,
}

impl Header {
    /// Bytes of a header.
    pub const LENGTH: usize = 5;

    /// Reads the header of a message; `None` if it has not arrived completely.
    pub fn peek(input: &[u8], limits: LengthLimits) -> Result<Option<Self>, Malformed> {
        let Some(&kind) = input.first() else { return Ok(None) };
        let limit = match kind {
            b'Q' | b'P' | b'B' | b'd' | b'F' => limits.long,
            b'D' | b'E' | b'C' | b'H' | b'S' | b'c' | b'f' | b'p' | b'X' => limits.short,
            _ => return Err(Malformed("no message begins so")),
        };
        let Some((length, _)) = input[1..].split_first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length < 4 {
            return Err(Malformed("a message is shorter than its length"));
        }
        if length > limit {
            return Err(Malformed("a message is too long"));
        }
        Ok(Some(Self { kind, length: length + 1 }))
    }

    /// Whether the message ends a group.
    pub fn is_sync(self) -> bool {
        self.kind == b'S'
    }

    /// Whether the message is answered without a `Sync`.
    pub fn is_alone(self) -> bool {
        matches!(self.kind, b'Q' | b'F')
    }

    /// Decodes the message `input` begins with, which has `self.length` bytes.
    pub fn decode(self, input: &[u8]) -> Result<Message<'_>, Malformed> {
        let mut reader = Reader::new(input.get(Self::LENGTH..self.length).ok_or(Malformed("a message is cut"))?);
        let message = match self.kind {
            b'Q' => Message::Query(reader.text()?),
            b'P' => {
                let (name, text) = (reader.text()?, reader.text()?);
                let count = usize::from(reader.u16()?);
                Message::Parse { name, text, types: reader.bytes(4 * count)? }
            }
            b'B' => Message::Bind(bind(&mut reader)?),
            b'D' => Message::Describe(target(&mut reader)?),
            b'E' => Message::Execute { portal: reader.text()?, rows_max: reader.i32()? },
            b'C' => Message::Close(target(&mut reader)?),
            b'H' => Message::Flush,
            b'S' => Message::Sync,
            b'F' => {
                reader.rest();
                Message::FunctionCall
            }
            b'd' => Message::CopyData(reader.rest()),
            b'c' => Message::CopyDone,
            b'f' => Message::CopyFail(reader.text()?),
            b'p' => Message::Password(reader.rest()),
            b'X' => Message::Terminate,
            _ => return Err(Malformed("no message begins so")),
        };
        reader.end()?;
        Ok(message)
    }
}

fn target<'a>(reader: &mut Reader<'a>) -> Result<Target<'a>, Malformed> {
    match reader.u8()? {
        b'S' => Ok(Target::Statement(reader.text()?)),
        b'P' => Ok(Target::Portal(reader.text()?)),
        _ => Err(Malformed("neither a statement nor a portal")),
    }
}

fn bind<'a>(reader: &mut Reader<'a>) -> Result<Bind<'a>, Malformed> {
    let (portal, statement) = (reader.text()?, reader.text()?);
    let parameter_formats = reader.formats()?;
    let parameter_count = usize::from(reader.u16()?);
    let parameters = *reader;
    for _ in 0..parameter_count {
        reader.value()?;
    }
    if !parameter_formats.fits(parameter_count) {
        return Err(Malformed("as many formats as parameters are needed, or one, or none"));
    }
    Ok(Bind { portal, statement, parameter_formats, parameter_count, parameters, result_formats: reader.formats()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LengthLimits = LengthLimits { long: 1000, short: 100 };

    fn decode(input: &[u8]) -> Result<Option<Message<'_>>, Malformed> {
        match Header::peek(input, LIMITS)? {
            Some(header) if header.length <= input.len() => header.decode(input).map(Some),
            _ => Ok(None),
        }
    }

    #[test]
    fn a_bind_borrows_what_was_sent() {
        let mut input = vec![b'B', 0, 0, 0, 0];
        input.extend(b"p\0s\0\0\x01\0\x01\0\x02\0\0\0\x01z\xff\xff\xff\xff\0\x02\0\0\0\x01");
        input[4] = (input.len() - 1) as u8;
        let Ok(Some(Message::Bind(bind))) = decode(&input) else { panic!() };
        assert_eq!((bind.portal, bind.statement, bind.parameter_count), (&b"p"[..], &b"s"[..], 2));
        assert_eq!(bind.parameter_formats, Formats::All(Format::Binary));
        assert_eq!(bind.parameters().collect::<Vec<_>>(), [Some(&b"z"[..]), None]);
        assert_eq!(bind.result_formats, Formats::Each([Format::Text, Format::Binary].into()));
    }

    use super::super::Format;

    #[test]
    fn what_is_cut_or_too_long_is_malformed() {
        assert!(decode(b"").unwrap().is_none());
        assert!(decode(b"Q\0\0").unwrap().is_none());
        assert!(decode(b"Q\0\0\0\x08a").unwrap().is_none());
        for input in [
            &b"!\0\0\0\x04"[..],
            b"Q\0\0\0\x03",
            b"Q\0\0\x10\0",
            b"S\0\0\x01\0",
            b"S\0\0\0\x05x",
            b"Q\0\0\0\x05a",
            b"P\0\0\0\x04",
            b"P\0\0\0\x08\0\0\xff\xff",
            b"B\0\0\0\x0c\0\0\0\0\0\0\xff\xff",
            b"B\0\0\0\x0e\0\0\0\0\0\x01\xff\xff\xff\xfe",
            b"D\0\0\0\x06Q\0",
        ] {
            assert!(decode(input).is_err(), "{input:?}");
        }
    }

    #[test]
    fn what_pgwire_writes_is_understood() {
        use pgwire::messages::{
            PgWireFrontendMessage as Written,
            copy::{CopyData, CopyDone, CopyFail},
            extendedquery::{self as extended, Close, Describe, Execute, Flush, Parse, TARGET_TYPE_BYTE_STATEMENT},
            simplequery::Query,
            terminate::Terminate,
        };
        let (portal, statement) = (Some("p".to_owned()), Some("s".to_owned()));
        let bind = extended::Bind::new(
            portal.clone(),
            statement.clone(),
            vec![0, 1],
            vec![None, Some(bytes::Bytes::from_static(b"z"))],
            vec![1],
        );
        let written = [
            Written::Query(Query::new("SELECT 1".into())),
            Written::Parse(Parse::new(statement.clone(), "SELECT $1".into(), vec![23, 0])),
            Written::Bind(bind),
            Written::Describe(Describe::new(TARGET_TYPE_BYTE_STATEMENT, statement)),
            Written::Execute(Execute::new(portal.clone(), 5)),
            Written::Close(Close::new(b'P', portal)),
            Written::Flush(Flush::new()),
            Written::Sync(extended::Sync::new()),
            Written::CopyData(CopyData::new(bytes::Bytes::from_static(b"a\n"))),
            Written::CopyDone(CopyDone::new()),
            Written::CopyFail(CopyFail::new("no".into())),
            Written::Terminate(Terminate::new()),
        ];
        let mut bytes = bytes::BytesMut::new();
        written.iter().for_each(|message| message.encode(&mut bytes).unwrap());
        let (mut rest, mut read) = (&bytes[..], Vec::new());
        while let Some(header) = Header::peek(rest, LIMITS).unwrap() {
            read.push(header.decode(rest).unwrap());
            rest = &rest[header.length..];
        }
        let [
            Message::Query(b"SELECT 1"),
            Message::Parse { name: b"s", text: b"SELECT $1", types: [0, 0, 0, 23, 0, 0, 0, 0] },
            Message::Bind(bind),
            Message::Describe(Target::Statement(b"s")),
            Message::Execute { portal: b"p", rows_max: 5 },
            Message::Close(Target::Portal(b"p")),
            Message::Flush,
            Message::Sync,
            Message::CopyData(b"a\n"),
            Message::CopyDone,
            Message::CopyFail(b"no"),
            Message::Terminate,
        ] = &read[..]
        else {
            panic!("{read:?}")
        };
        assert_eq!((bind.portal, bind.statement, bind.parameter_count), (&b"p"[..], &b"s"[..], 2));
        assert_eq!(bind.parameter_formats, Formats::Each([Format::Text, Format::Binary].into()));
        assert_eq!(bind.parameters().collect::<Vec<_>>(), [None, Some(&b"z"[..])]);
        assert_eq!(bind.result_formats, Formats::All(Format::Binary));
    }

    /// The reason why messages are not decoded by pgwire; if this test fails, that is worth another look.
    #[test]
    fn pgwire_does_not_stand_what_is_cut() {
        use pgwire::messages::{DecodeContext, PgWireFrontendMessage, ProtocolVersion};
        let decode = |input: &[u8]| {
            let mut context = DecodeContext::new(ProtocolVersion::PROTOCOL3_0);
            (context.awaiting_frontend_ssl, context.awaiting_frontend_startup) = (false, false);
            PgWireFrontendMessage::decode(&mut bytes::BytesMut::from(input), &context).map(|_| ())
        };
        for input in [&b"P\0\0\0\x04"[..], b"B\0\0\0\x0e\0\0\0\0\0\x01\0\0\0\xff"] {
            assert!(super::tests::decode(input).is_err());
            assert!(std::panic::catch_unwind(|| decode(input)).is_err(), "{input:?}");
        }
    }
}

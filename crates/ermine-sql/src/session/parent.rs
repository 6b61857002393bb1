//! The span of a client that the text of a statement names (W3C Trace Context), in a comment as sqlcommenter writes it.

/// The span of a client from which a statement was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parent {
    /// The number of its trace.
    pub trace: u128,
    /// Its own number.
    pub span: u64,
}

impl Parent {
    /// Reads `traceparent='00-<trace>-<span>-<flags>'` in a text; `None`: there is none, or its trace is not sampled.
    pub fn of(text: &str) -> Option<Self> {
        let (_, value) = text.rsplit_once("traceparent='")?;
        let (value, _) = value.split_once('\'')?;
        let mut parts = value.split('-');
        let mut hex = |digits: usize| parts.next().filter(|part| part.len() == digits && is_hex(part));
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)?, hex(2)?);
        let trace = u128::from_str_radix(trace, 16).ok().filter(|&trace| trace != 0)?;
        let span = u64::from_str_radix(span, 16).ok().filter(|&span| span != 0)?;
        let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
        (version != "ff" && is_sampled).then_some(Self { trace, span })
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn the_parent_is_read_from_a_comment() {
        let of = |value: &str| Parent::of(&format!("SELECT 1 /*action='x',traceparent='{value}',tracestate='a'*/"));
        let parent = of(&format!("00-{TRACE}-b7ad6b7169203331-01")).unwrap();
        assert_eq!(format!("{:032x} {:016x}", parent.trace, parent.span), format!("{TRACE} b7ad6b7169203331"));
        // Of a later version, which may have more parts.
        assert!(of(&format!("01-{TRACE}-b7ad6b7169203331-03-more")).is_some());
        for wrong in [
            "",
            "00",
            &format!("00-{TRACE}-b7ad6b7169203331-00"),
            &format!("ff-{TRACE}-b7ad6b7169203331-01"),
            &format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
            &format!("00-{TRACE}-0000000000000000-01"),
            &format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
            &format!("00-+{}-b7ad6b7169203331-01", &TRACE[1..]),
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
        assert_eq!(Parent::of("SELECT 'traceparent='"), None);
    }
}

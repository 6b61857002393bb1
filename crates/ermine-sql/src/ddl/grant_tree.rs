//! The grammar of GRANT, REVOKE, ALTER DEFAULT PRIVILEGES, REASSIGN OWNED, DROP OWNED and ALTER DATABASE .. OWNER TO.

use sqlparser::{
    ast::{Ident, ObjectName},
    keywords::Keyword,
    parser::{IsOptional, Parser, ParserError},
    tokenizer::Token,
};

use super::default_rights::DefaultRightsTree;

/// Such a statement, as it was written.
#[derive(Clone, Debug)]
pub(crate) enum RightsTree {
    Objects(GrantObjects),
    Roles(GrantRoles),
    Defaults(DefaultRightsTree),
    Reassign {
        from: Vec<Ident>,
        to: Ident,
    },
    DropOwned {
        roles: Vec<Ident>,
        cascade: bool,
    },
    DatabaseOwner {
        database: Ident,
        owner: Ident,
    },
    /// A kind of object that has no rights here.
    Unsupported(String),
}

/// GRANT and REVOKE of rights to objects.
#[derive(Clone, Debug)]
pub(crate) struct GrantObjects {
    pub(super) is_grant: bool,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub(super) option: bool,
    /// The words of the rights, and the columns that they are for; none: ALL.
    pub(super) rights: Vec<(String, Vec<Ident>)>,
    pub(super) on: On,
    pub(super) roles: Vec<Ident>,
    pub(super) granted_by: Option<Ident>,
    pub(super) cascade: bool,
}

/// The objects of a GRANT.
#[derive(Clone, Debug)]
pub(crate) enum On {
    Tables(Vec<ObjectName>),
    Sequences(Vec<ObjectName>),
    Databases(Vec<ObjectName>),
    Schemas(Vec<ObjectName>),
    Types(Vec<ObjectName>, &'static str),
    AllTables(Vec<ObjectName>),
    AllSequences(Vec<ObjectName>),
}

/// GRANT and REVOKE of roles.
#[derive(Clone, Debug)]
pub(crate) struct GrantRoles {
    pub(super) is_grant: bool,
    /// WITH ADMIN OPTION, or ADMIN OPTION FOR.
    pub(super) option: bool,
    pub(super) roles: Vec<Ident>,
    pub(super) members: Vec<Ident>,
    pub(super) granted_by: Option<Ident>,
}

impl RightsTree {
    /// Parses such a statement, if one comes next.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        use Keyword::{ALTER, BY, DATABASE, DROP, GRANT, OWNED, OWNER, REVOKE, TO};
        if parser.parse_keyword(GRANT) {
            return Self::parse_grant(parser, true).map(Some);
        }
        if parser.parse_keyword(REVOKE) {
            return Self::parse_grant(parser, false).map(Some);
        }
        if parser.parse_keywords(&[ALTER, Keyword::DEFAULT, Keyword::PRIVILEGES]) {
            return DefaultRightsTree::parse(parser).map(Some);
        }
        if is_word(parser, 0, "reassign") {
            parser.next_token();
            parser.expect_keywords(&[OWNED, BY])?;
            let from = parser.parse_comma_separated(parse_role)?;
            parser.expect_keyword_is(TO)?;
            return Ok(Some(Self::Reassign { from, to: parse_role(parser)? }));
        }
        if parser.parse_keywords(&[DROP, OWNED]) {
            parser.expect_keyword_is(BY)?;
            let roles = parser.parse_comma_separated(parse_role)?;
            return Ok(Some(Self::DropOwned { roles, cascade: parse_behavior(parser) }));
        }
        if is_word(parser, 3, "owner") && parser.parse_keywords(&[ALTER, DATABASE]) {
            let database = parser.parse_identifier()?;
            parser.expect_keywords(&[OWNER, TO])?;
            return Ok(Some(Self::DatabaseOwner { database, owner: parse_role(parser)? }));
        }
        Ok(None)
    }

    /// Returns the statement's name, which is also its tag.
    pub(crate) fn words(&self) -> &'static str {
        match self {
            Self::Objects(GrantObjects { is_grant: true, .. }) => "GRANT",
            Self::Objects(_) => "REVOKE",
            Self::Roles(GrantRoles { is_grant: true, .. }) => "GRANT ROLE",
            Self::Roles(_) => "REVOKE ROLE",
            Self::Defaults(_) => "ALTER DEFAULT PRIVILEGES",
            Self::Reassign { .. } => "REASSIGN OWNED",
            Self::DropOwned { .. } => "DROP OWNED",
            Self::DatabaseOwner { .. } => "ALTER DATABASE",
            Self::Unsupported(_) => "GRANT",
        }
    }

    pub(super) fn parse_grant(parser: &mut Parser<'_>, is_grant: bool) -> Result<Self, ParserError> {
        use Keyword::{ADMIN, ALL, FOR, FROM, GRANT, ON, OPTION, PRIVILEGES, TO, WITH};
        let mut option =
            !is_grant && (parser.parse_keywords(&[GRANT, OPTION, FOR]) || parser.parse_keywords(&[ADMIN, OPTION, FOR]));
        let mut rights = Vec::new();
        if parser.parse_keyword(ALL) {
            let _ = parser.parse_keyword(PRIVILEGES);
            let columns = parser.parse_parenthesized_column_list(IsOptional::Optional, false)?;
            if !columns.is_empty() {
                rights.push((Ident::new("all"), columns));
            }
        } else {
            rights = parser.parse_comma_separated(|parser| {
                let word = parse_role(parser)?;
                Ok((word, parser.parse_parenthesized_column_list(IsOptional::Optional, false)?))
            })?;
        }
        let on = if parser.parse_keyword(ON) { Some(On::parse(parser)?) } else { None };
        let on = match on {
            Some(Err(what)) => return Ok(Self::Unsupported(what)),
            Some(Ok(on)) => Some(on),
            None => None,
        };
        parser.expect_keyword_is(if is_grant { TO } else { FROM })?;
        let roles = parser.parse_comma_separated(|parser| {
            let _ = parser.parse_keyword(Keyword::GROUP);
            parse_role(parser)
        })?;
        if is_grant && parser.parse_keyword(WITH) {
            let _ = parser.expect_one_of_keywords(&[GRANT, ADMIN])?;
            parser.expect_keyword_is(OPTION)?;
            option = true;
        }
        let granted_by = match parser.parse_keywords(&[Keyword::GRANTED, Keyword::BY]) {
            true => Some(parse_role(parser)?),
            false => None,
        };
        let cascade = !is_grant && parse_behavior(parser);
        Ok(match on {
            Some(on) => {
                let word = |(word, columns): (Ident, Vec<Ident>)| (word.value.to_lowercase(), columns);
                let rights = rights.into_iter().map(word).collect();
                Self::Objects(GrantObjects { is_grant, option, rights, on, roles, granted_by, cascade })
            }
            None => {
                if rights.is_empty() || rights.iter().any(|(_, columns)| !columns.is_empty()) {
                    return Err(ParserError::ParserError("Expected: ON and the objects of the rights".into()));
                }
                let granted = rights.into_iter().map(|(role, _)| role).collect();
                Self::Roles(GrantRoles { is_grant, option, roles: granted, members: roles, granted_by })
            }
        })
    }
}

impl On {
    /// Parses the objects; the inner error is a kind of objects that has no rights here.
    fn parse(parser: &mut Parser<'_>) -> Result<Result<Self, String>, ParserError> {
        use Keyword::{ALL, DATABASE, DOMAIN, IN, SCHEMA, SEQUENCE, TABLE, TYPE};
        if parser.parse_keyword(ALL) {
            let kind = parser.next_token().to_string().to_uppercase();
            parser.expect_keywords(&[IN, SCHEMA])?;
            let schemas = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
            return Ok(match &*kind {
                "TABLES" => Ok(Self::AllTables(schemas)),
                "SEQUENCES" => Ok(Self::AllSequences(schemas)),
                _ => Err(format!("rights to all {kind}")),
            });
        }
        const OTHERS: [&str; 10] = [
            "FUNCTION",
            "PROCEDURE",
            "ROUTINE",
            "LANGUAGE",
            "FOREIGN",
            "TABLESPACE",
            "PARAMETER",
            "LARGE",
            "SERVER",
            "AGGREGATE",
        ];
        let next = parser.peek_token_ref().to_string().to_uppercase();
        let has_name = matches!(parser.peek_nth_token_ref(1).token, Token::Word(_) | Token::Number(..));
        if OTHERS.contains(&&*next) && has_name {
            while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
                parser.next_token();
            }
            return Ok(Err(format!("rights to a {next}")));
        }
        let kind = parser.parse_one_of_keywords(&[TABLE, SEQUENCE, DATABASE, SCHEMA, TYPE, DOMAIN]);
        let names = parser.parse_comma_separated(|parser| parser.parse_object_name(false))?;
        Ok(Ok(match kind {
            Some(SEQUENCE) => Self::Sequences(names),
            Some(DATABASE) => Self::Databases(names),
            Some(SCHEMA) => Self::Schemas(names),
            Some(TYPE) => Self::Types(names, "type"),
            Some(DOMAIN) => Self::Types(names, "domain"),
            _ => Self::Tables(names),
        }))
    }
}

/// Whether the next token but some is an unquoted word.
fn is_word(parser: &Parser<'_>, at: usize, word: &str) -> bool {
    matches!(&parser.peek_nth_token_ref(at).token,
        Token::Word(next) if next.quote_style.is_none() && next.value.eq_ignore_ascii_case(word))
}

/// Parses a word that is the name of a role, or stands for one.
pub(super) fn parse_role(parser: &mut Parser<'_>) -> Result<Ident, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::Word(word) => Ok(word.into_ident(next.span)),
        _ => {
            parser.prev_token();
            parser.expected_ref("the name of a role", parser.peek_token_ref())
        }
    }
}

/// Consumes CASCADE or RESTRICT; returns whether it was CASCADE.
fn parse_behavior(parser: &mut Parser<'_>) -> bool {
    parser.parse_one_of_keywords(&[Keyword::CASCADE, Keyword::RESTRICT]) == Some(Keyword::CASCADE)
}

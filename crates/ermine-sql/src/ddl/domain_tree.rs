//! The trees of statements about domains, in a grammar of our own: that of sqlparser has neither ALTER DOMAIN nor NOT
//! NULL.

use sqlparser::{
    ast::{DataType, Expr, Ident, ObjectName},
    dialect::{Dialect as _, PostgreSqlDialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::type_tree::{TypeDrop, TypeTree};

/// CREATE DOMAIN.
#[derive(Clone, Debug)]
pub(crate) struct DomainTree {
    pub(crate) name: ObjectName,
    pub(crate) base: DataType,
    pub(crate) collation: Option<ObjectName>,
    pub(crate) options: Vec<DomainOption>,
}

/// An option of CREATE DOMAIN.
#[derive(Clone, Debug)]
pub(crate) enum DomainOption {
    Default(Expr),
    NotNull,
    Null,
    Check(DomainCheckTree),
    /// A constraint that only tables have.
    OfTables(&'static str),
}

/// A condition on the values of a domain.
#[derive(Clone, Debug)]
pub(crate) struct DomainCheckTree {
    pub(crate) name: Option<Ident>,
    pub(crate) condition: Expr,
}

/// A change of a domain.
#[derive(Clone, Debug)]
pub(crate) enum DomainChange {
    SetDefault(Option<Expr>),
    SetNotNull(bool),
    Add(DomainCheckTree),
    Drop { name: Ident, if_exists: bool },
    RenameConstraint(Ident, Ident),
}

impl TypeTree {
    /// Parses the rest of CREATE DOMAIN.
    pub(super) fn create_domain(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{AS, COLLATE, DEFAULT};
        let name = parser.parse_object_name(false)?;
        let _ = parser.parse_keyword(AS);
        let base = parser.parse_data_type()?;
        let collation = if parser.parse_keyword(COLLATE) { Some(parser.parse_object_name(false)?) } else { None };
        let mut options = Vec::new();
        while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            options.push(match parser.parse_keyword(DEFAULT) {
                true => DomainOption::Default(default(parser)?),
                false => DomainOption::constraint(parser)?,
            });
        }
        Ok(Self::CreateDomain(Box::new(DomainTree { name, base, collation, options })))
    }

    /// Parses the rest of ALTER DOMAIN.
    pub(super) fn alter_domain(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{ADD, CASCADE, CONSTRAINT, DEFAULT, DROP, EXISTS, IF, NOT, NULL, RENAME, RESTRICT, SET, TO};
        let name = parser.parse_object_name(false)?;
        let change = if parser.parse_keywords(&[SET, DEFAULT]) {
            DomainChange::SetDefault(Some(default(parser)?))
        } else if parser.parse_keywords(&[DROP, DEFAULT]) {
            DomainChange::SetDefault(None)
        } else if parser.parse_keywords(&[SET, NOT, NULL]) {
            DomainChange::SetNotNull(true)
        } else if parser.parse_keywords(&[DROP, NOT, NULL]) {
            DomainChange::SetNotNull(false)
        } else if parser.parse_keyword(ADD) {
            match DomainOption::constraint(parser)? {
                DomainOption::Check(check) if !parser.parse_keywords(&[NOT, Keyword::VALID]) => {
                    DomainChange::Add(check)
                }
                _ => return Ok(Self::skipped(parser, "this form of ALTER DOMAIN")),
            }
        } else if parser.parse_keywords(&[DROP, CONSTRAINT]) {
            let if_exists = parser.parse_keywords(&[IF, EXISTS]);
            let name = parser.parse_identifier()?;
            let _ = parser.parse_one_of_keywords(&[CASCADE, RESTRICT]);
            DomainChange::Drop { name, if_exists }
        } else if parser.parse_keywords(&[RENAME, CONSTRAINT]) {
            let old = parser.parse_identifier()?;
            parser.expect_keyword(TO)?;
            DomainChange::RenameConstraint(old, parser.parse_identifier()?)
        } else {
            return Ok(match Self::common_change(parser)? {
                Some(change) => Self::AlterType(name, change, true),
                None => Self::skipped(parser, "this form of ALTER DOMAIN"),
            });
        };
        Ok(Self::AlterDomain(name, Box::new(change)))
    }

    /// Parses the rest of DROP DOMAIN.
    pub(super) fn drop_domain(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        Ok(Self::DropTypes(TypeDrop::parse(parser)?, true))
    }
}

impl DomainOption {
    fn constraint(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        use Keyword::{CHECK, CONSTRAINT, KEY, NOT, NULL, PRIMARY, REFERENCES, UNIQUE};
        let name = if parser.parse_keyword(CONSTRAINT) { Some(parser.parse_identifier()?) } else { None };
        Ok(if parser.parse_keyword(CHECK) {
            parser.expect_token(&Token::LParen)?;
            let condition = parser.parse_expr()?;
            parser.expect_token(&Token::RParen)?;
            Self::Check(DomainCheckTree { name, condition })
        } else if parser.parse_keywords(&[NOT, NULL]) {
            Self::NotNull
        } else if parser.parse_keyword(NULL) {
            Self::Null
        } else if parser.parse_keyword(UNIQUE) {
            Self::OfTables("unique")
        } else if parser.parse_keywords(&[PRIMARY, KEY]) {
            Self::OfTables("primary key")
        } else if parser.parse_keyword(REFERENCES) {
            while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
                parser.next_token();
            }
            Self::OfTables("foreign key")
        } else {
            return parser.expected_ref("a constraint of a domain", parser.peek_token_ref());
        })
    }
}

/// Parses the expression of a default: it ends before NOT NULL, and has no comparisons outside of parentheses.
fn default(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.parse_subexpr(PostgreSqlDialect {}.prec_value(Precedence::Like))
}

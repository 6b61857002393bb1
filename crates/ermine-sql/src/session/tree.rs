//! The trees of statements: those of sqlparser, and those of statements that it does not know.

use sqlparser::{
    ast::Statement,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{
    alter_system::AlterSystem, constraints::SetConstraints, cursor::Fetch, extension::ExtensionTree,
    maintenance::Maintenance, modes::ModesTree,
};
use crate::{
    bind::{names::name_of, search::expand_searches},
    copy::CopyTree,
    ddl::{
        alter_object::AlterObject, alter_sequence::AlterSequence, comment::CommentTree, database::DatabaseTree,
        grant_tree::RightsTree, materialized::RefreshTree, publication_tree::PublicationTree, role::RoleTree,
        table_as::TableAsTree, type_tree::TypeTree, view::ViewTree,
    },
    error::{Result, SqlError, SqlState},
    parse::{Tokens, check_grammar, check_query, correct_precedence, failure, lacking, parser, parser_of, query},
};

/// The tree of a statement.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    /// A statement as sqlparser represents it.
    Plain(Box<Statement>),
    Comment(CommentTree),
    Constraints(SetConstraints),
    Copy(CopyTree),
    Database(DatabaseTree),
    Do(DoTree),
    Extension(ExtensionTree),
    Fetch(Fetch),
    /// A statement of PostgreSQL that is missing here, by its first words.
    Lacking(&'static str),
    Maintenance(Maintenance),
    Modes(ModesTree),
    Object(AlterObject),
    Publication(PublicationTree),
    Rights(RightsTree),
    Role(RoleTree),
    Sequence(AlterSequence),
    System(AlterSystem),
    Type(TypeTree),
    TableAs(TableAsTree),
    Refresh(RefreshTree),
    View(ViewTree),
    /// Prepares or ends the prepared transaction of this name.
    TwoPhase(TwoPhase, String),
}

impl Tree {
    /// Whether it reads by names of the catalog.
    pub(super) fn has_names(&self) -> bool {
        match self {
            Self::Plain(statement) => matches!(
                **statement,
                Statement::Query(_) | Statement::Explain { .. } | Statement::Declare { .. } | Statement::Prepare { .. }
            ),
            Self::Copy(_) => true,
            _ => false,
        }
    }
}

/// An operation on a prepared transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TwoPhase {
    Prepare,
    Commit,
    RollBack,
}

impl TwoPhase {
    /// Returns the words that the statement begins with, which are also its tag.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Prepare => "PREPARE TRANSACTION",
            Self::Commit => "COMMIT PREPARED",
            Self::RollBack => "ROLLBACK PREPARED",
        }
    }

    /// Consumes the words, if they come next.
    fn parse(parser: &mut Parser<'_>) -> Option<Self> {
        let next = format!("{} {}", parser.peek_nth_token_ref(0), parser.peek_nth_token_ref(1));
        let all = [Self::Prepare, Self::Commit, Self::RollBack];
        let found = all.into_iter().find(|one| next.eq_ignore_ascii_case(one.words()))?;
        parser.next_token();
        parser.next_token();
        Some(found)
    }
}

/// Returns the statements of a text.
pub(crate) fn statements(text: &str) -> Result<Vec<Tree>> {
    // The options of VACUUM are dropped: the engine reclaims space automatically, and the grammar accepts one form of
    // it only.
    let first = text.split_whitespace().next().unwrap_or_default();
    let text = if first.eq_ignore_ascii_case("vacuum") && !text.trim_end().trim_end_matches(';').contains(';') {
        "VACUUM"
    } else {
        text
    };
    checked(&mut parser(text)?, text)
}

/// Returns the statement that tokens of a text consist of.
pub(crate) fn statement_of(tokens: Tokens, text: &str) -> Result<Tree> {
    let trees = checked(&mut parser_of(tokens), text)?;
    trees.into_iter().next().ok_or_else(|| SqlError::new(SqlState::SYNTAX_ERROR, "there is no statement"))
}

fn checked(parser: &mut Parser<'_>, text: &str) -> Result<Vec<Tree>> {
    let mut trees = trees(parser).map_err(|error| failure(text, &error))?;
    for tree in &mut trees {
        match tree {
            Tree::Plain(statement) => {
                expand_searches(&mut **statement)?;
                check_grammar(statement, text)?;
                correct_precedence(&mut **statement);
                if let Statement::Query(query) = &**statement
                    && let Some(into) = TableAsTree::of_query(query)
                {
                    *tree = Tree::TableAs(into);
                }
            }
            Tree::TableAs(create) => {
                expand_searches(&mut *create.query)?;
                check_query(&create.query, text)?;
                correct_precedence(&mut *create.query);
                create.execute.iter_mut().flat_map(|(_, arguments)| arguments).for_each(correct_precedence);
            }
            Tree::View(ViewTree::Create(create)) => {
                expand_searches(&mut *create.query)?;
                check_query(&create.query, text)?;
                correct_precedence(&mut *create.query);
            }
            Tree::Copy(copy) => {
                if let Some(query) = copy.query_mut() {
                    expand_searches(query)?;
                    check_query(query, text)?;
                    correct_precedence(query);
                }
            }
            _ => {}
        }
    }
    Ok(trees)
}

fn trees(parser: &mut Parser<'_>) -> Result<Vec<Tree>, ParserError> {
    let mut trees = Vec::new();
    loop {
        while parser.consume_token(&Token::SemiColon) {}
        if parser.peek_token_ref().token == Token::EOF {
            return Ok(trees);
        }
        trees.push(if parser.parse_keyword(Keyword::COPY) {
            Tree::Copy(CopyTree::parse(parser)?)
        } else if parser.peek_token_ref().to_string().eq_ignore_ascii_case("do") {
            parser.next_token();
            Tree::Do(DoTree::parse(parser)?)
        } else if let Some(fetch) = Fetch::parse(parser)? {
            Tree::Fetch(fetch)
        } else if let Some(what) = TwoPhase::parse(parser) {
            Tree::TwoPhase(what, parser.parse_literal_string()?)
        } else if let Some(what) = Maintenance::parse(parser)? {
            Tree::Maintenance(what)
        } else if let Some(set) = SetConstraints::parse(parser)? {
            Tree::Constraints(set)
        } else if let Some(modes) = ModesTree::parse(parser)? {
            Tree::Modes(modes)
        } else if let Some(database) = DatabaseTree::parse(parser)? {
            Tree::Database(database)
        } else if let Some(rights) = RightsTree::parse(parser)? {
            Tree::Rights(rights)
        } else if let Some(role) = RoleTree::parse(parser)? {
            Tree::Role(role)
        } else if let Some(tree) = ExtensionTree::parse(parser)? {
            Tree::Extension(tree)
        } else if let Some(tree) = AlterSystem::parse(parser)? {
            Tree::System(tree)
        } else if let Some(comment) = CommentTree::parse(parser)? {
            Tree::Comment(comment)
        } else if let Some(alter) = AlterObject::parse(parser)? {
            Tree::Object(alter)
        } else if let Some(alter) = AlterSequence::parse(parser)? {
            Tree::Sequence(alter)
        } else if let Some(tree) = TypeTree::parse(parser)? {
            Tree::Type(tree)
        } else if let Some(tree) = PublicationTree::parse(parser)? {
            Tree::Publication(tree)
        } else if let Some(create) = TableAsTree::parse(parser)? {
            Tree::TableAs(create)
        } else if let Some(refresh) = RefreshTree::parse(parser)? {
            Tree::Refresh(refresh)
        } else if let Some(view) = ViewTree::parse(parser)? {
            Tree::View(view)
        } else if let Some(what) = lacking(parser) {
            Tree::Lacking(what)
        } else if is_alone(parser) {
            parser.next_token();
            // One row without columns, which the grammar accepts only with FROM.
            Tree::Plain(Box::new(Statement::Query(query("SELECT FROM (VALUES (1)) AS one")?)))
        } else {
            Tree::Plain(Box::new(parser.parse_statement()?))
        });
        if !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            return parser.expected_ref("end of statement", parser.peek_token_ref());
        }
    }
}

/// A block in a procedural language, as DO has it.
#[derive(Clone, Debug)]
pub(crate) struct DoTree {
    pub(crate) text: String,
    /// The name of the language, if it is not the usual one.
    pub(crate) language: Option<String>,
}

impl DoTree {
    /// Parses DO behind its word.
    fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        let mut language = None;
        let mut text = None;
        while !matches!(parser.peek_token_ref().token, Token::SemiColon | Token::EOF) {
            if language.is_none() && parser.parse_keyword(Keyword::LANGUAGE) {
                language = Some(name_of(&parser.parse_identifier()?));
                continue;
            }
            if text.is_some() {
                return parser.expected_ref("end of statement", parser.peek_token_ref());
            }
            text = Some(match &parser.peek_token_ref().token {
                Token::DollarQuotedString(quoted) => {
                    let text = quoted.value.clone();
                    parser.next_token();
                    text
                }
                _ => parser.parse_literal_string()?,
            });
        }
        let language = language.filter(|name| name != "plpgsql");
        match text {
            Some(text) => Ok(Self { text, language }),
            None => parser.expected_ref("the text of a block", parser.peek_token_ref()),
        }
    }
}

/// Whether the next statement is the single word SELECT.
fn is_alone(parser: &Parser<'_>) -> bool {
    matches!(&parser.peek_nth_token_ref(0).token, Token::Word(word) if word.keyword == Keyword::SELECT)
        && matches!(parser.peek_nth_token_ref(1).token, Token::SemiColon | Token::EOF)
}

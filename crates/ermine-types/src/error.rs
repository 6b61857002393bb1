//! The errors of statements: PostgreSQL's error codes, and fields that describe the problem and its remedy.

use std::{fmt, sync::Arc};

/// The result of everything in this crate.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

/// A five-character error code (PostgreSQL, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($name:ident $code:literal)*) => {
        #[allow(missing_docs, reason = "the names are PostgreSQL's")]
        impl SqlState {
            $(pub const $name: Self = Self($code);)*

            /// Returns the code of a name, in small letters or large ones.
            pub fn named(name: &str) -> Option<Self> {
                [$((stringify!($name), Self::$name)),*].into_iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, state)| state)
            }
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION "00000"
    FEATURE_NOT_SUPPORTED "0A000"
    PROTOCOL_VIOLATION "08P01"
    CARDINALITY_VIOLATION "21000"
    DATA_EXCEPTION "22000"
    STRING_DATA_RIGHT_TRUNCATION "22001"
    NUMERIC_VALUE_OUT_OF_RANGE "22003"
    NULL_VALUE_NOT_ALLOWED "22004"
    INVALID_DATETIME_FORMAT "22007"
    DATETIME_FIELD_OVERFLOW "22008"
    SUBSTRING_ERROR "22011"
    DIVISION_BY_ZERO "22012"
    INVALID_PRECEDING_OR_FOLLOWING_SIZE "22013"
    INVALID_ARGUMENT_FOR_NTILE "22014"
    INTERVAL_FIELD_OVERFLOW "22015"
    INVALID_ARGUMENT_FOR_NTH_VALUE "22016"
    CHARACTER_NOT_IN_REPERTOIRE "22021"
    INVALID_PARAMETER_VALUE "22023"
    INVALID_ESCAPE_SEQUENCE "22025"
    INVALID_TEXT_REPRESENTATION "22P02"
    INVALID_BINARY_REPRESENTATION "22P03"
    BAD_COPY_FILE_FORMAT "22P04"
    ARRAY_SUBSCRIPT_ERROR "2202E"
    INVALID_ROW_COUNT_IN_LIMIT "2201W"
    INVALID_ROW_COUNT_IN_OFFSET "2201X"
    NOT_NULL_VIOLATION "23502"
    FOREIGN_KEY_VIOLATION "23503"
    UNIQUE_VIOLATION "23505"
    CHECK_VIOLATION "23514"
    INVALID_CURSOR_STATE "24000"
    ACTIVE_SQL_TRANSACTION "25001"
    READ_ONLY_SQL_TRANSACTION "25006"
    NO_ACTIVE_SQL_TRANSACTION "25P01"
    IN_FAILED_SQL_TRANSACTION "25P02"
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT "25P03"
    INVALID_SQL_STATEMENT_NAME "26000"
    INVALID_AUTHORIZATION "28000"
    INVALID_PASSWORD "28P01"
    DEPENDENT_OBJECTS_STILL_EXIST "2BP01"
    INVALID_CURSOR_NAME "34000"
    INVALID_SAVEPOINT "3B001"
    INVALID_CATALOG_NAME "3D000"
    DUPLICATE_DATABASE "42P04"
    INVALID_SCHEMA_NAME "3F000"
    SERIALIZATION_FAILURE "40001"
    STATEMENT_COMPLETION_UNKNOWN "40003"
    DEADLOCK_DETECTED "40P01"
    WITH_CHECK_OPTION_VIOLATION "44000"
    SYNTAX_ERROR "42601"
    INSUFFICIENT_PRIVILEGE "42501"
    CANNOT_COERCE "42846"
    INVALID_RECURSION "42P19"
    WINDOWING_ERROR "42P20"
    COLLATION_MISMATCH "42P21"
    GROUPING_ERROR "42803"
    DATATYPE_MISMATCH "42804"
    WRONG_OBJECT_TYPE "42809"
    AMBIGUOUS_PARAMETER "42P08"
    INDETERMINATE_DATATYPE "42P18"
    UNDEFINED_COLUMN "42703"
    UNDEFINED_FUNCTION "42883"
    UNDEFINED_TABLE "42P01"
    UNDEFINED_PARAMETER "42P02"
    UNDEFINED_OBJECT "42704"
    DUPLICATE_COLUMN "42701"
    DUPLICATE_CURSOR "42P03"
    INVALID_CURSOR_DEFINITION "42P11"
    DUPLICATE_PREPARED_STATEMENT "42P05"
    DUPLICATE_SCHEMA "42P06"
    DUPLICATE_TABLE "42P07"
    DUPLICATE_ALIAS "42712"
    DUPLICATE_OBJECT "42710"
    INVALID_NAME "42602"
    WARNING "01000"
    EXTERNAL_ROUTINE_EXCEPTION "39000"
    AMBIGUOUS_COLUMN "42702"
    AMBIGUOUS_FUNCTION "42725"
    INVALID_COLUMN_REFERENCE "42P10"
    INVALID_TABLE_DEFINITION "42P16"
    INVALID_OBJECT_DEFINITION "42P17"
    NAME_TOO_LONG "42622"
    RESERVED_NAME "42939"
    PROGRAM_LIMIT_EXCEEDED "54000"
    STATEMENT_TOO_COMPLEX "54001"
    TOO_MANY_COLUMNS "54011"
    TOO_MANY_ARGUMENTS "54023"
    TOO_MANY_CONNECTIONS "53300"
    OUT_OF_MEMORY "53200"
    DISK_FULL "53100"
    CONFIGURATION_LIMIT_EXCEEDED "53400"
    OBJECT_NOT_IN_PREREQUISITE_STATE "55000"
    OBJECT_IN_USE "55006"
    CANT_CHANGE_RUNTIME_PARAM "55P02"
    LOCK_NOT_AVAILABLE "55P03"
    QUERY_CANCELED "57014"
    ADMIN_SHUTDOWN "57P01"
    CANNOT_CONNECT_NOW "57P03"
    IO_ERROR "58030"
    UNDEFINED_FILE "58P01"
    INTERNAL_ERROR "XX000"
    DATA_CORRUPTED "XX001"
}

/// The conflict that a statement has lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost {
    /// The engine's number of the transaction that won, if known.
    pub to: Option<u64>,
    /// A number for the row: different rows may have the same one.
    pub row: u64,
}

/// The place of an error in a text that is not at hand where the error arises.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Place {
    /// The line, from 1 on; 0: it is unknown.
    pub line: u64,
    /// The column, in characters from 1 on.
    pub column: u64,
    /// Words of which the nearest one from there on is meant, if there are any.
    pub words: String,
}

impl Place {
    /// The place of an error that concerns no part of the text.
    pub const NOWHERE: Self = Self { line: 0, column: 0, words: String::new() };
}

/// The error of a statement.
#[derive(Clone, Debug)]
pub struct SqlError(Box<Report>);

/// The fields of an error, as PostgreSQL's clients expect them.
#[derive(Clone, Debug)]
pub struct Report {
    /// The code.
    pub state: SqlState,
    /// The description of the problem.
    pub message: String,
    /// Further details of the problem.
    pub detail: Option<String>,
    /// Advice on the remedy.
    pub hint: Option<String>,
    /// The operation during which it happened: the row of a COPY.
    pub context: Option<String>,
    /// The position in the statement, in characters from 1 on.
    pub position: Option<usize>,
    /// The place from which the position is determined.
    pub place: Option<Place>,
    /// The schema of the table or type that it concerns.
    pub schema: Option<String>,
    /// The table that it concerns.
    pub table: Option<String>,
    /// The column that it concerns.
    pub column: Option<String>,
    /// The constraint that is violated.
    pub constraint: Option<String>,
    /// The conflict, if it is about one.
    pub lost: Option<Lost>,
    /// The error of a layer below from which it was made.
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl SqlError {
    /// Whether the error comes from the circumstances of a run, which may differ the next time: a cancellation, a limit
    /// of time or memory, a device.
    pub fn is_of_circumstances(&self) -> bool {
        ["53", "57", "58"].iter().any(|class| self.0.state.0.starts_with(class))
    }

    /// Returns the error of a statement or function that writes in a read-only transaction.
    pub fn read_only(what: &str) -> Self {
        let message = format!("cannot execute {what} in a read-only transaction");
        Self::new(SqlState::READ_ONLY_SQL_TRANSACTION, message)
    }

    /// Returns the error of a statement or function that a standby does not run, also where it writes no rows.
    pub fn during_recovery(what: &str) -> Self {
        Self::new(SqlState::READ_ONLY_SQL_TRANSACTION, format!("cannot execute {what} during recovery"))
    }

    /// Creates an error that has only a message.
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        Self(Box::new(Report {
            state,
            message: message.into(),
            detail: None,
            hint: None,
            context: None,
            position: None,
            place: None,
            schema: None,
            table: None,
            column: None,
            constraint: None,
            lost: None,
            source: None,
        }))
    }

    /// The error for a statement, or a part of one, that this path cannot run.
    pub fn unsupported(construct: impl fmt::Display) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{construct} is not supported"))
    }

    /// The error of a statement that was canceled from outside.
    pub fn canceled(due_to: &str) -> Self {
        Self::new(SqlState::QUERY_CANCELED, format!("canceling statement due to {due_to}"))
    }

    /// Adds details.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// Removes its details.
    pub fn without_detail(mut self) -> Self {
        self.0.detail = None;
        self
    }

    /// Replaces its texts.
    pub(crate) fn map_texts(mut self, change: impl Fn(String) -> String) -> Self {
        self.0.message = change(std::mem::take(&mut self.0.message));
        self.0.detail = self.0.detail.take().map(&change);
        self.0.hint = self.0.hint.take().map(&change);
        self
    }

    /// Adds advice.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the context.
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.0.context = Some(context.into());
        self
    }

    /// Adds the position in the statement.
    pub fn at(mut self, position: Option<usize>) -> Self {
        self.0.position = self.0.position.or(position);
        self
    }

    /// Adds the place from which the position is determined, if it has none.
    pub fn placed(mut self, place: Place) -> Self {
        self.0.place.get_or_insert(place);
        self
    }

    /// Replaces the place by another one.
    pub fn placed_anew(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Removes the place: it is one of another text.
    pub fn nowhere(self) -> Self {
        self.placed_anew(Place::NOWHERE)
    }

    /// Returns the place from which the position is determined.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// Adds the table that it concerns, and its schema.
    pub fn table(mut self, schema: impl Into<String>, table: impl Into<String>) -> Self {
        (self.0.schema, self.0.table) = (Some(schema.into()), Some(table.into()));
        self
    }

    /// Adds the column that it concerns.
    pub fn column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// Adds the constraint that is violated.
    pub fn constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// Adds the conflict.
    pub fn lost(mut self, lost: Lost) -> Self {
        self.0.lost = Some(lost);
        self
    }

    /// Adds the error of a layer below.
    pub fn source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Replaces the message.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Returns the code.
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// Returns all fields.
    pub fn report(&self) -> &Report {
        &self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { state, message, detail, hint, context, .. } = &*self.0;
        write!(f, "{message} ({})", state.0)?;
        context.iter().try_for_each(|context| write!(f, "; {context}"))?;
        detail.iter().try_for_each(|detail| write!(f, "; {detail}"))?;
        hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for SqlError {}

//! SQLSTATE codes, named as in PostgreSQL's list of error codes.

/// A five-character SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl SqlState {
    /// The five characters.
    pub fn code(self) -> &'static str {
        self.0
    }

    /// The statement succeeded.
    pub const SUCCESSFUL_COMPLETION: SqlState = SqlState("00000");
    /// A warning.
    pub const WARNING: SqlState = SqlState("01000");
    /// COMMIT or ROLLBACK outside a transaction.
    pub const NO_ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25P01");
    /// No savepoint of this name.
    pub const INVALID_SAVEPOINT_SPECIFICATION: SqlState = SqlState("3B001");
    /// BEGIN inside a transaction.
    pub const ACTIVE_SQL_TRANSACTION: SqlState = SqlState("25001");
    /// A malformed or unexpected message.
    pub const PROTOCOL_VIOLATION: SqlState = SqlState("08P01");
    /// The connection broke.
    pub const CONNECTION_FAILURE: SqlState = SqlState("08006");
    /// Valid SQL that is not supported.
    pub const FEATURE_NOT_SUPPORTED: SqlState = SqlState("0A000");
    /// A grant that cannot be, such as of a role to itself.
    pub const INVALID_GRANT_OPERATION: SqlState = SqlState("0LP01");
    /// A scalar subquery gave more than one row.
    pub const CARDINALITY_VIOLATION: SqlState = SqlState("21000");
    /// A string is too long for its type.
    pub const STRING_DATA_RIGHT_TRUNCATION: SqlState = SqlState("22001");
    /// Overflow.
    pub const NUMERIC_VALUE_OUT_OF_RANGE: SqlState = SqlState("22003");
    /// NULL where none may be.
    pub const NULL_VALUE_NOT_ALLOWED: SqlState = SqlState("22004");
    /// Not a date or time.
    pub const INVALID_DATETIME_FORMAT: SqlState = SqlState("22007");
    /// A date or time out of range.
    pub const DATETIME_FIELD_OVERFLOW: SqlState = SqlState("22008");
    /// Not a time zone offset.
    pub const INVALID_TIME_ZONE_DISPLACEMENT_VALUE: SqlState = SqlState("22009");
    /// Division by zero.
    pub const DIVISION_BY_ZERO: SqlState = SqlState("22012");
    /// Logarithm of a non-positive number.
    pub const INVALID_ARGUMENT_FOR_LOGARITHM: SqlState = SqlState("2201E");
    /// Invalid argument of power or sqrt.
    pub const INVALID_ARGUMENT_FOR_POWER_FUNCTION: SqlState = SqlState("2201F");
    /// Negative LIMIT.
    pub const INVALID_ROW_COUNT_IN_LIMIT_CLAUSE: SqlState = SqlState("2201W");
    /// Negative OFFSET.
    pub const INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE: SqlState = SqlState("2201X");
    /// Not a regular expression.
    pub const INVALID_REGULAR_EXPRESSION: SqlState = SqlState("2201B");
    /// Invalid byte sequence for the encoding.
    pub const CHARACTER_NOT_IN_REPERTOIRE: SqlState = SqlState("22021");
    /// A time whose state is not kept any more.
    pub const SNAPSHOT_TOO_OLD: SqlState = SqlState("72000");
    /// A parameter has an invalid value.
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState("22023");
    /// A negative substring length.
    pub const SUBSTRING_ERROR: SqlState = SqlState("22011");
    /// Bad array dimensions or subscripts.
    pub const ARRAY_SUBSCRIPT_ERROR: SqlState = SqlState("2202E");
    /// Text that is not a value of the type.
    pub const INVALID_TEXT_REPRESENTATION: SqlState = SqlState("22P02");
    /// Bytes that are not a value of the type.
    pub const INVALID_BINARY_REPRESENTATION: SqlState = SqlState("22P03");
    /// A malformed COPY row.
    pub const BAD_COPY_FILE_FORMAT: SqlState = SqlState("22P04");
    /// A sequence has no values left.
    pub const SEQUENCE_GENERATOR_LIMIT_EXCEEDED: SqlState = SqlState("2200H");
    /// A bad LIKE escape.
    pub const INVALID_ESCAPE_SEQUENCE: SqlState = SqlState("22025");
    /// NULL in a NOT NULL column.
    pub const NOT_NULL_VIOLATION: SqlState = SqlState("23502");
    /// A duplicate key.
    pub const FOREIGN_KEY_VIOLATION: SqlState = SqlState("23503");
    /// `23505 unique_violation`.
    pub const UNIQUE_VIOLATION: SqlState = SqlState("23505");
    /// A row of which a CHECK is false.
    pub const CHECK_VIOLATION: SqlState = SqlState("23514");
    /// A write in a read-only transaction.
    pub const READ_ONLY_SQL_TRANSACTION: SqlState = SqlState("25006");
    /// The transaction cannot run this statement.
    pub const INVALID_TRANSACTION_STATE: SqlState = SqlState("25000");
    /// A statement in a failed transaction.
    pub const IN_FAILED_SQL_TRANSACTION: SqlState = SqlState("25P02");
    /// A transaction was idle for too long.
    pub const IDLE_IN_TRANSACTION_SESSION_TIMEOUT: SqlState = SqlState("25P03");
    /// No such prepared statement.
    pub const INVALID_SQL_STATEMENT_NAME: SqlState = SqlState("26000");
    /// Not allowed to log in.
    pub const INVALID_AUTHORIZATION_SPECIFICATION: SqlState = SqlState("28000");
    /// The password is wrong, or there is no such user.
    pub const INVALID_PASSWORD: SqlState = SqlState("28P01");
    /// Other objects depend on this one.
    pub const DEPENDENT_OBJECTS_STILL_EXIST: SqlState = SqlState("2BP01");
    /// No such cursor or portal.
    pub const INVALID_CURSOR_NAME: SqlState = SqlState("34000");
    /// The cursor or portal exists.
    pub const DUPLICATE_CURSOR: SqlState = SqlState("42P03");
    /// No such database.
    pub const INVALID_CATALOG_NAME: SqlState = SqlState("3D000");
    /// No such schema.
    pub const INVALID_SCHEMA_NAME: SqlState = SqlState("3F000");
    /// A conflict with another transaction.
    pub const SERIALIZATION_FAILURE: SqlState = SqlState("40001");
    /// Sessions wait for each other.
    pub const DEADLOCK_DETECTED: SqlState = SqlState("40P01");
    /// Not SQL.
    pub const SYNTAX_ERROR: SqlState = SqlState("42601");
    /// Not allowed.
    pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState("42501");
    /// No such cast.
    pub const CANNOT_COERCE: SqlState = SqlState("42846");
    /// A column outside GROUP BY and aggregates.
    pub const GROUPING_ERROR: SqlState = SqlState("42803");
    /// A misplaced window function.
    pub const WINDOWING_ERROR: SqlState = SqlState("42P20");
    /// A recursive query that cannot be.
    pub const INVALID_RECURSION: SqlState = SqlState("42P19");
    /// A name over the limit.
    pub const NAME_TOO_LONG: SqlState = SqlState("42622");
    /// A name the system keeps for itself.
    pub const RESERVED_NAME: SqlState = SqlState("42939");
    /// Types that do not go together.
    pub const DATATYPE_MISMATCH: SqlState = SqlState("42804");
    /// A type that cannot be determined.
    pub const INDETERMINATE_DATATYPE: SqlState = SqlState("42P18");
    /// A value for a column that only a sequence gives values to.
    pub const GENERATED_ALWAYS: SqlState = SqlState("428C9");
    /// The object is of another kind.
    pub const WRONG_OBJECT_TYPE: SqlState = SqlState("42809");
    /// No such column.
    pub const UNDEFINED_COLUMN: SqlState = SqlState("42703");
    /// No such function or operator.
    pub const UNDEFINED_FUNCTION: SqlState = SqlState("42883");
    /// No such relation.
    pub const UNDEFINED_TABLE: SqlState = SqlState("42P01");
    /// No such parameter.
    pub const UNDEFINED_PARAMETER: SqlState = SqlState("42P02");
    /// No such object.
    pub const UNDEFINED_OBJECT: SqlState = SqlState("42704");
    /// The column exists or is named twice.
    pub const DUPLICATE_COLUMN: SqlState = SqlState("42701");
    /// The database exists.
    pub const DUPLICATE_DATABASE: SqlState = SqlState("42P04");
    /// The prepared statement exists.
    pub const DUPLICATE_PREPARED_STATEMENT: SqlState = SqlState("42P05");
    /// The schema exists.
    pub const DUPLICATE_SCHEMA: SqlState = SqlState("42P06");
    /// The relation exists.
    pub const DUPLICATE_TABLE: SqlState = SqlState("42P07");
    /// A table alias is used twice.
    pub const DUPLICATE_ALIAS: SqlState = SqlState("42712");
    /// The object exists.
    pub const DUPLICATE_OBJECT: SqlState = SqlState("42710");
    /// Several columns have this name.
    pub const AMBIGUOUS_COLUMN: SqlState = SqlState("42702");
    /// Several functions fit.
    pub const AMBIGUOUS_FUNCTION: SqlState = SqlState("42725");
    /// A bad reference to a column or position.
    pub const INVALID_COLUMN_REFERENCE: SqlState = SqlState("42P10");
    /// A bad table definition.
    pub const INVALID_TABLE_DEFINITION: SqlState = SqlState("42P16");
    /// A bad object definition.
    pub const INVALID_OBJECT_DEFINITION: SqlState = SqlState("42P17");
    /// Not enough resources.
    pub const INSUFFICIENT_RESOURCES: SqlState = SqlState("53000");
    /// No space left.
    pub const DISK_FULL: SqlState = SqlState("53100");
    /// Not enough memory.
    pub const OUT_OF_MEMORY: SqlState = SqlState("53200");
    /// No connection slot left.
    pub const TOO_MANY_CONNECTIONS: SqlState = SqlState("53300");
    /// A limit that is set has been reached.
    pub const CONFIGURATION_LIMIT_EXCEEDED: SqlState = SqlState("53400");
    /// A limit of the program.
    pub const PROGRAM_LIMIT_EXCEEDED: SqlState = SqlState("54000");
    /// A statement is too complex.
    pub const STATEMENT_TOO_COMPLEX: SqlState = SqlState("54001");
    /// Too many arguments.
    pub const TOO_MANY_ARGUMENTS: SqlState = SqlState("54023");
    /// The object is in use.
    pub const OBJECT_IN_USE: SqlState = SqlState("55006");
    /// The object is not in the state needed.
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: SqlState = SqlState("55000");
    /// The parameter cannot be changed now.
    pub const CANT_CHANGE_RUNTIME_PARAM: SqlState = SqlState("55P02");
    /// A lock was not to be had in time.
    pub const LOCK_NOT_AVAILABLE: SqlState = SqlState("55P03");
    /// Cancelled, or timed out.
    pub const QUERY_CANCELED: SqlState = SqlState("57014");
    /// The server is stopping.
    pub const ADMIN_SHUTDOWN: SqlState = SqlState("57P01");
    /// The server is crashing.
    pub const CRASH_SHUTDOWN: SqlState = SqlState("57P02");
    /// The server is starting.
    pub const CANNOT_CONNECT_NOW: SqlState = SqlState("57P03");
    /// The session was idle for too long.
    pub const IDLE_SESSION_TIMEOUT: SqlState = SqlState("57P05");
    /// The storage failed.
    pub const IO_ERROR: SqlState = SqlState("58030");
    /// A bug.
    pub const INTERNAL_ERROR: SqlState = SqlState("XX000");
    /// Stored data is damaged.
    pub const DATA_CORRUPTED: SqlState = SqlState("XX001");

    /// The code with these five bytes, if it is one of ours.
    pub fn from_code(code: &[u8]) -> Option<SqlState> {
        ALL.iter().copied().find(|state| state.0.as_bytes() == code)
    }
}

const ALL: &[SqlState] = &[
    SqlState::SUCCESSFUL_COMPLETION,
    SqlState::WARNING,
    SqlState::NO_ACTIVE_SQL_TRANSACTION,
    SqlState::INVALID_SAVEPOINT_SPECIFICATION,
    SqlState::ACTIVE_SQL_TRANSACTION,
    SqlState::PROTOCOL_VIOLATION,
    SqlState::CONNECTION_FAILURE,
    SqlState::FEATURE_NOT_SUPPORTED,
    SqlState::INVALID_GRANT_OPERATION,
    SqlState::CARDINALITY_VIOLATION,
    SqlState::STRING_DATA_RIGHT_TRUNCATION,
    SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
    SqlState::NULL_VALUE_NOT_ALLOWED,
    SqlState::INVALID_DATETIME_FORMAT,
    SqlState::DATETIME_FIELD_OVERFLOW,
    SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
    SqlState::DIVISION_BY_ZERO,
    SqlState::INVALID_ARGUMENT_FOR_LOGARITHM,
    SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
    SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE,
    SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE,
    SqlState::INVALID_REGULAR_EXPRESSION,
    SqlState::CHARACTER_NOT_IN_REPERTOIRE,
    SqlState::INVALID_PARAMETER_VALUE,
    SqlState::SNAPSHOT_TOO_OLD,
    SqlState::SUBSTRING_ERROR,
    SqlState::ARRAY_SUBSCRIPT_ERROR,
    SqlState::INVALID_TEXT_REPRESENTATION,
    SqlState::INVALID_BINARY_REPRESENTATION,
    SqlState::BAD_COPY_FILE_FORMAT,
    SqlState::SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
    SqlState::INVALID_ESCAPE_SEQUENCE,
    SqlState::NOT_NULL_VIOLATION,
    SqlState::UNIQUE_VIOLATION,
    SqlState::CHECK_VIOLATION,
    SqlState::READ_ONLY_SQL_TRANSACTION,
    SqlState::INVALID_TRANSACTION_STATE,
    SqlState::IN_FAILED_SQL_TRANSACTION,
    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    SqlState::INVALID_SQL_STATEMENT_NAME,
    SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
    SqlState::INVALID_PASSWORD,
    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
    SqlState::INVALID_CURSOR_NAME,
    SqlState::DUPLICATE_CURSOR,
    SqlState::INVALID_CATALOG_NAME,
    SqlState::INVALID_SCHEMA_NAME,
    SqlState::SERIALIZATION_FAILURE,
    SqlState::DEADLOCK_DETECTED,
    SqlState::LOCK_NOT_AVAILABLE,
    SqlState::SYNTAX_ERROR,
    SqlState::INSUFFICIENT_PRIVILEGE,
    SqlState::CANNOT_COERCE,
    SqlState::GROUPING_ERROR,
    SqlState::WINDOWING_ERROR,
    SqlState::INVALID_RECURSION,
    SqlState::NAME_TOO_LONG,
    SqlState::RESERVED_NAME,
    SqlState::DATATYPE_MISMATCH,
    SqlState::INDETERMINATE_DATATYPE,
    SqlState::GENERATED_ALWAYS,
    SqlState::WRONG_OBJECT_TYPE,
    SqlState::UNDEFINED_COLUMN,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::UNDEFINED_TABLE,
    SqlState::UNDEFINED_PARAMETER,
    SqlState::UNDEFINED_OBJECT,
    SqlState::DUPLICATE_COLUMN,
    SqlState::DUPLICATE_DATABASE,
    SqlState::DUPLICATE_PREPARED_STATEMENT,
    SqlState::DUPLICATE_SCHEMA,
    SqlState::DUPLICATE_TABLE,
    SqlState::DUPLICATE_ALIAS,
    SqlState::DUPLICATE_OBJECT,
    SqlState::AMBIGUOUS_COLUMN,
    SqlState::AMBIGUOUS_FUNCTION,
    SqlState::INVALID_COLUMN_REFERENCE,
    SqlState::INVALID_TABLE_DEFINITION,
    SqlState::INVALID_OBJECT_DEFINITION,
    SqlState::INSUFFICIENT_RESOURCES,
    SqlState::DISK_FULL,
    SqlState::OUT_OF_MEMORY,
    SqlState::TOO_MANY_CONNECTIONS,
    SqlState::PROGRAM_LIMIT_EXCEEDED,
    SqlState::STATEMENT_TOO_COMPLEX,
    SqlState::TOO_MANY_ARGUMENTS,
    SqlState::OBJECT_IN_USE,
    SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
    SqlState::CANT_CHANGE_RUNTIME_PARAM,
    SqlState::QUERY_CANCELED,
    SqlState::ADMIN_SHUTDOWN,
    SqlState::CRASH_SHUTDOWN,
    SqlState::CANNOT_CONNECT_NOW,
    SqlState::IDLE_SESSION_TIMEOUT,
    SqlState::IO_ERROR,
    SqlState::INTERNAL_ERROR,
    SqlState::DATA_CORRUPTED,
];

impl std::fmt::Display for SqlState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

//! Postgres types and the Arrow types that carry them.
//!
//! A column's Arrow type says how it is stored and computed; its `PgType` says what a client sees. Where several
//! Postgres types share an Arrow type (text, varchar, jsonb …), the field's metadata carries the difference under
//! [`TAG_KEY`].
//!
//! Numerics are decimals. A declared `numeric(p, s)` and every intermediate result whose scale is known print all
//! their digits; a column of unconstrained `numeric` and a quotient are stored with [`NUMERIC_SCALE`] digits and print
//! as their [`NumericDisplay`] says.

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The metadata key of the Postgres type tag in an Arrow field.
pub const TAG_KEY: &str = "pg";
/// Digits of precision of an unconstrained numeric.
pub const NUMERIC_PRECISION: u8 = 76;
/// Digits after the point of an unconstrained numeric.
pub const NUMERIC_SCALE: i8 = 20;

/// Unconstrained numeric.
pub const NUMERIC: PgType = PgType::Numeric(NumericDisplay::Trimmed);

/// How the digits after the point of a numeric are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumericDisplay {
    /// Declared `numeric(precision, scale)`: always `scale` digits.
    Declared(u8, i8),
    /// A computed value: as many digits as its Arrow scale.
    Scale,
    /// An unconstrained column: no trailing zeros.
    Trimmed,
    /// A quotient or average: the number of digits Postgres would compute.
    Quotient,
}

/// A Postgres type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the variants are the types' own names")]
pub enum PgType {
    Bool,
    Int2,
    Int4,
    Int8,
    Oid,
    Float4,
    Float8,
    Numeric(NumericDisplay),
    Text,
    /// With its length limit.
    Varchar(Option<u32>),
    /// Blank-padded, with its length.
    Bpchar(Option<u32>),
    Name,
    /// The one-byte `"char"`.
    Char,
    Bytea,
    Uuid,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Json,
    Jsonb,
    /// An oid that is shown as the name of what it is of.
    Reg(Reg),
    /// A literal or parameter whose type the context decides.
    Unknown,
    Void,
    Record,
    /// A one-dimensional array.
    Array(Box<PgType>),
    /// The lists of the catalogs: stored as arrays, printed with blanks, counted from 0.
    Int2Vector,
    /// The same of oids.
    OidVector,
}

/// What the numbers of an alias of `oid` are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reg {
    /// A relation, `regclass`.
    Class,
    /// A function that is the only one of its name, `regproc`.
    Proc,
    /// A function with the types of its arguments, `regprocedure`.
    Procedure,
    /// A type, `regtype`.
    Type,
    /// A schema, `regnamespace`.
    Namespace,
    /// A role, `regrole`.
    Role,
}

impl Reg {
    /// Every alias.
    pub const ALL: [Reg; 6] = [Reg::Class, Reg::Proc, Reg::Procedure, Reg::Type, Reg::Namespace, Reg::Role];

    /// The type's name.
    pub fn name(self) -> &'static str {
        match self {
            Reg::Class => "regclass",
            Reg::Proc => "regproc",
            Reg::Procedure => "regprocedure",
            Reg::Type => "regtype",
            Reg::Namespace => "regnamespace",
            Reg::Role => "regrole",
        }
    }

    /// The alias of this name.
    pub fn named(name: &str) -> Option<Reg> {
        Reg::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl PgType {
    /// The type a client sees for an Arrow field: its tag, or what its Arrow type means untagged.
    pub fn from_field(field: &Field) -> PgType {
        match field.metadata().get(TAG_KEY).and_then(|tag| PgType::from_tag(tag)) {
            // A tag outlives a cast that the planner put over the column; it counts only while it fits.
            Some(ty) if fits(&ty.data_type(), field.data_type()) => ty,
            _ => PgType::from_data_type(field.data_type()),
        }
    }

    /// Whether its values are numbers of objects whose names only the catalog knows, or contain such.
    pub fn names_objects(&self) -> bool {
        match self {
            PgType::Reg(_) => true,
            PgType::Array(item) => item.names_objects(),
            _ => false,
        }
    }

    /// What a list of the catalogs has as elements.
    pub fn vector_item(&self) -> Option<PgType> {
        match self {
            PgType::Int2Vector => Some(PgType::Int2),
            PgType::OidVector => Some(PgType::Oid),
            _ => None,
        }
    }

    /// What an Arrow type means without a tag.
    pub fn from_data_type(data_type: &DataType) -> PgType {
        match data_type {
            DataType::Boolean => PgType::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => PgType::Int2,
            DataType::Int32 | DataType::UInt16 => PgType::Int4,
            DataType::Int64 => PgType::Int8,
            DataType::UInt32 => PgType::Oid,
            DataType::UInt64 => PgType::Int8,
            DataType::Float16 | DataType::Float32 => PgType::Float4,
            DataType::Float64 => PgType::Float8,
            DataType::Decimal128(..) | DataType::Decimal256(..) => PgType::Numeric(NumericDisplay::Scale),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => PgType::Bytea,
            DataType::FixedSizeBinary(16) => PgType::Uuid,
            DataType::FixedSizeBinary(_) => PgType::Bytea,
            DataType::Date32 | DataType::Date64 => PgType::Date,
            DataType::Time32(_) | DataType::Time64(_) => PgType::Time,
            DataType::Timestamp(_, None) => PgType::Timestamp,
            DataType::Timestamp(_, Some(_)) => PgType::Timestamptz,
            DataType::Interval(_) | DataType::Duration(_) => PgType::Interval,
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                PgType::Array(Box::new(PgType::from_field(item)))
            }
            DataType::Struct(_) => PgType::Record,
            DataType::Dictionary(_, value) => PgType::from_data_type(value),
            _ => PgType::Text,
        }
    }

    /// The Arrow type that stores this type.
    pub fn data_type(&self) -> DataType {
        match self {
            PgType::Bool => DataType::Boolean,
            PgType::Int2 => DataType::Int16,
            PgType::Int4 => DataType::Int32,
            PgType::Int8 => DataType::Int64,
            PgType::Oid | PgType::Reg(_) => DataType::UInt32,
            PgType::Float4 => DataType::Float32,
            PgType::Float8 => DataType::Float64,
            PgType::Numeric(NumericDisplay::Declared(p, s)) if *p <= 38 => DataType::Decimal128(*p, *s),
            PgType::Numeric(NumericDisplay::Declared(p, s)) => DataType::Decimal256(*p, *s),
            PgType::Numeric(_) => DataType::Decimal256(NUMERIC_PRECISION, NUMERIC_SCALE),
            PgType::Bytea => DataType::BinaryView,
            PgType::Uuid => DataType::FixedSizeBinary(16),
            PgType::Date => DataType::Date32,
            PgType::Time => DataType::Time64(TimeUnit::Microsecond),
            PgType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            PgType::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            PgType::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            PgType::Array(item) => DataType::List(Arc::new(item.field("item", true))),
            PgType::Int2Vector => DataType::List(Arc::new(PgType::Int2.field("item", true))),
            PgType::OidVector => DataType::List(Arc::new(PgType::Oid.field("item", true))),
            PgType::Record => DataType::Struct(Default::default()),
            PgType::Text
            | PgType::Varchar(_)
            | PgType::Bpchar(_)
            | PgType::Name
            | PgType::Char
            | PgType::Void
            | PgType::Json
            | PgType::Jsonb
            | PgType::Unknown => DataType::Utf8View,
        }
    }

    /// An Arrow field of this type, tagged.
    pub fn field(&self, name: &str, nullable: bool) -> Field {
        let field = Field::new(name, self.data_type(), nullable);
        match self.tag() {
            Some(tag) => field.with_metadata(HashMap::from([(TAG_KEY.to_owned(), tag)])),
            None => field,
        }
    }

    /// The metadata tag, where the Arrow type alone does not say it all.
    pub fn tag(&self) -> Option<String> {
        Some(match self {
            PgType::Numeric(NumericDisplay::Declared(p, s)) => format!("numeric({p},{s})"),
            PgType::Numeric(NumericDisplay::Trimmed) => "numeric".to_owned(),
            PgType::Numeric(NumericDisplay::Quotient) => "quotient".to_owned(),
            PgType::Varchar(None) => "varchar".to_owned(),
            PgType::Varchar(Some(n)) => format!("varchar({n})"),
            PgType::Bpchar(None) => "bpchar".to_owned(),
            PgType::Bpchar(Some(n)) => format!("bpchar({n})"),
            PgType::Name => "name".to_owned(),
            PgType::Char => "char".to_owned(),
            PgType::Json => "json".to_owned(),
            PgType::Jsonb => "jsonb".to_owned(),
            PgType::Reg(kind) => kind.name().to_owned(),
            PgType::Int2Vector => "int2vector".to_owned(),
            PgType::OidVector => "oidvector".to_owned(),
            PgType::Unknown => "unknown".to_owned(),
            PgType::Void => "void".to_owned(),
            _ => return None,
        })
    }

    fn from_tag(tag: &str) -> Option<PgType> {
        let (name, arguments) = match tag.split_once('(') {
            Some((name, rest)) => (name, Some(rest.trim_end_matches(')'))),
            None => (tag, None),
        };
        let length = arguments.and_then(|a| a.parse().ok());
        Some(match name {
            "numeric" => match arguments.and_then(|a| a.split_once(',')) {
                Some((p, s)) => PgType::Numeric(NumericDisplay::Declared(p.parse().ok()?, s.parse().ok()?)),
                None => PgType::Numeric(NumericDisplay::Trimmed),
            },
            "quotient" => PgType::Numeric(NumericDisplay::Quotient),
            "varchar" => PgType::Varchar(length),
            "bpchar" => PgType::Bpchar(length),
            "name" => PgType::Name,
            "char" => PgType::Char,
            "json" => PgType::Json,
            "jsonb" => PgType::Jsonb,
            "int2vector" => PgType::Int2Vector,
            "oidvector" => PgType::OidVector,
            "unknown" => PgType::Unknown,
            "void" => PgType::Void,
            name => PgType::Reg(Reg::named(name)?),
        })
    }

    /// The name Postgres prints for the type (`format_type` without its modifier).
    pub fn name(&self) -> String {
        match self {
            PgType::Bool => "boolean",
            PgType::Int2 => "smallint",
            PgType::Int4 => "integer",
            PgType::Int8 => "bigint",
            PgType::Oid => "oid",
            PgType::Float4 => "real",
            PgType::Float8 => "double precision",
            PgType::Numeric(_) => "numeric",
            PgType::Text => "text",
            PgType::Varchar(_) => "character varying",
            PgType::Bpchar(_) => "character",
            PgType::Name => "name",
            PgType::Char => "\"char\"",
            PgType::Bytea => "bytea",
            PgType::Uuid => "uuid",
            PgType::Date => "date",
            PgType::Time => "time without time zone",
            PgType::Timestamp => "timestamp without time zone",
            PgType::Timestamptz => "timestamp with time zone",
            PgType::Interval => "interval",
            PgType::Json => "json",
            PgType::Jsonb => "jsonb",
            PgType::Reg(kind) => kind.name(),
            PgType::Unknown => "unknown",
            PgType::Void => "void",
            PgType::Record => "record",
            PgType::Int2Vector => "int2vector",
            PgType::OidVector => "oidvector",
            PgType::Array(item) => return format!("{}[]", item.name()),
        }
        .to_owned()
    }
}

impl fmt::Display for PgType {
    /// The type with its modifier, as `format_type` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PgType::Numeric(NumericDisplay::Declared(p, s)) => write!(f, "numeric({p},{s})"),
            PgType::Varchar(Some(n)) => write!(f, "character varying({n})"),
            PgType::Bpchar(Some(n)) => write!(f, "character({n})"),
            PgType::Array(item) => write!(f, "{item}[]"),
            other => f.write_str(&other.name()),
        }
    }
}

/// Whether a value of Arrow type `actual` may still be shown under a tag whose own Arrow type is `tagged`.
fn fits(tagged: &DataType, actual: &DataType) -> bool {
    match (tagged, actual) {
        (DataType::Utf8View, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => true,
        (DataType::Decimal128(..) | DataType::Decimal256(..), DataType::Decimal128(..) | DataType::Decimal256(..)) => {
            match (tagged, actual) {
                (
                    DataType::Decimal128(_, a) | DataType::Decimal256(_, a),
                    DataType::Decimal128(_, b) | DataType::Decimal256(_, b),
                ) => a == b || *a == NUMERIC_SCALE,
                _ => false,
            }
        }
        (tagged, actual) => tagged == actual,
    }
}

/// A shared, tagged Arrow field.
pub fn field_ref(ty: &PgType, name: &str, nullable: bool) -> FieldRef {
    Arc::new(ty.field(name, nullable))
}

#[cfg(test)]
mod tests {
    use super::{NumericDisplay, PgType};

    #[test]
    fn fields_keep_the_type() {
        let types = [
            PgType::Bool,
            PgType::Oid,
            PgType::Numeric(NumericDisplay::Declared(10, 2)),
            PgType::Numeric(NumericDisplay::Declared(50, 2)),
            PgType::Numeric(NumericDisplay::Trimmed),
            PgType::Varchar(Some(3)),
            PgType::Bpchar(None),
            PgType::Jsonb,
            PgType::Uuid,
            PgType::Timestamptz,
            PgType::Array(Box::new(PgType::Varchar(None))),
        ];
        for ty in types {
            assert_eq!(PgType::from_field(&ty.field("x", true)), ty, "{ty}");
        }
    }

    #[test]
    fn a_tag_that_no_longer_fits_is_ignored() {
        let field = PgType::Varchar(Some(3)).field("x", true).with_data_type(arrow::datatypes::DataType::Int32);
        assert_eq!(PgType::from_field(&field), PgType::Int4);
    }
}

//! What PostgreSQL's `pg_type` says about each type: OID, length, category, array type.
//!
//! The numbers are PostgreSQL's own and clients have them compiled in, so they are written down here once; the wire,
//! the catalog's `pg_type` and `format_type` all read this table.

use repr::types::{NumericDisplay, PgType, Reg};

/// A row of `pg_type`. Array types are derived from their element's row.
#[derive(Debug)]
pub struct TypeInfo {
    /// The type, without a modifier.
    pub ty: PgType,
    /// Its OID.
    pub oid: u32,
    /// `typname`.
    pub name: &'static str,
    /// `typlen`: bytes, or -1 for variable length.
    pub len: i16,
    /// `typbyval`.
    pub by_value: bool,
    /// `typcategory`.
    pub category: char,
    /// `typispreferred`.
    pub preferred: bool,
    /// `typtype`: `b`ase or `p`seudo.
    pub kind: char,
    /// `typalign`.
    pub align: char,
    /// `typstorage`.
    pub storage: char,
    /// The stem of the input and output functions: `int4` for `int4in`, `bool` for `boolin`, `date_` for `date_in`.
    pub io: &'static str,
    /// The OID of its array type, 0 where there is none.
    pub array_oid: u32,
}

/// The OID of the collation `default`, which every text-like type has.
pub const DEFAULT_COLLATION_OID: u32 = 100;
/// The OID of the collation `C`, which `name` has.
pub const C_COLLATION_OID: u32 = 950;

macro_rules! info {
    ($ty:expr, $oid:literal, $name:literal, $len:literal, $by_value:literal, $category:literal, $preferred:literal,
     $kind:literal, $align:literal, $storage:literal, $io:literal, $array:literal) => {
        TypeInfo {
            ty: $ty,
            oid: $oid,
            name: $name,
            len: $len,
            by_value: $by_value,
            category: $category,
            preferred: $preferred,
            kind: $kind,
            align: $align,
            storage: $storage,
            io: $io,
            array_oid: $array,
        }
    };
}

/// Every type that is not an array, by OID.
pub static TYPES: &[TypeInfo] = &[
    info!(PgType::Bool, 16, "bool", 1, true, 'B', true, 'b', 'c', 'p', "bool", 1000),
    info!(PgType::Bytea, 17, "bytea", -1, false, 'U', false, 'b', 'i', 'x', "bytea", 1001),
    info!(PgType::Char, 18, "char", 1, true, 'Z', false, 'b', 'c', 'p', "char", 1002),
    info!(PgType::Name, 19, "name", 64, false, 'S', false, 'b', 'c', 'p', "name", 1003),
    info!(PgType::Int8, 20, "int8", 8, true, 'N', false, 'b', 'd', 'p', "int8", 1016),
    info!(PgType::Int2, 21, "int2", 2, true, 'N', false, 'b', 's', 'p', "int2", 1005),
    info!(PgType::Int2Vector, 22, "int2vector", -1, false, 'A', false, 'b', 'i', 'p', "int2vector", 1006),
    info!(PgType::Int4, 23, "int4", 4, true, 'N', false, 'b', 'i', 'p', "int4", 1007),
    info!(PgType::Reg(Reg::Proc), 24, "regproc", 4, true, 'N', false, 'b', 'i', 'p', "regproc", 1008),
    info!(PgType::Text, 25, "text", -1, false, 'S', true, 'b', 'i', 'x', "text", 1009),
    info!(PgType::Oid, 26, "oid", 4, true, 'N', true, 'b', 'i', 'p', "oid", 1028),
    info!(PgType::OidVector, 30, "oidvector", -1, false, 'A', false, 'b', 'i', 'p', "oidvector", 1013),
    info!(PgType::Json, 114, "json", -1, false, 'U', false, 'b', 'i', 'x', "json_", 199),
    info!(PgType::Float4, 700, "float4", 4, true, 'N', false, 'b', 'i', 'p', "float4", 1021),
    info!(PgType::Float8, 701, "float8", 8, true, 'N', true, 'b', 'd', 'p', "float8", 1022),
    info!(PgType::Unknown, 705, "unknown", -2, false, 'X', false, 'p', 'c', 'p', "unknown", 0),
    info!(PgType::Bpchar(None), 1042, "bpchar", -1, false, 'S', false, 'b', 'i', 'x', "bpchar", 1014),
    info!(PgType::Varchar(None), 1043, "varchar", -1, false, 'S', false, 'b', 'i', 'x', "varchar", 1015),
    info!(PgType::Date, 1082, "date", 4, true, 'D', false, 'b', 'i', 'p', "date_", 1182),
    info!(PgType::Time, 1083, "time", 8, true, 'D', false, 'b', 'd', 'p', "time_", 1183),
    info!(PgType::Timestamp, 1114, "timestamp", 8, true, 'D', false, 'b', 'd', 'p', "timestamp_", 1115),
    info!(PgType::Timestamptz, 1184, "timestamptz", 8, true, 'D', true, 'b', 'd', 'p', "timestamptz_", 1185),
    info!(PgType::Interval, 1186, "interval", 16, false, 'T', true, 'b', 'd', 'p', "interval_", 1187),
    info!(
        PgType::Numeric(NumericDisplay::Trimmed),
        1700, "numeric", -1, false, 'N', false, 'b', 'i', 'm', "numeric_", 1231
    ),
    info!(PgType::Reg(Reg::Procedure), 2202, "regprocedure", 4, true, 'N', false, 'b', 'i', 'p', "regprocedure", 2207),
    info!(PgType::Reg(Reg::Class), 2205, "regclass", 4, true, 'N', false, 'b', 'i', 'p', "regclass", 2210),
    info!(PgType::Reg(Reg::Type), 2206, "regtype", 4, true, 'N', false, 'b', 'i', 'p', "regtype", 2211),
    info!(PgType::Record, 2249, "record", -1, false, 'P', false, 'p', 'd', 'x', "record_", 2287),
    info!(PgType::Void, 2278, "void", 4, true, 'P', false, 'p', 'i', 'p', "void_", 0),
    info!(PgType::Uuid, 2950, "uuid", 16, false, 'U', false, 'b', 'c', 'p', "uuid_", 2951),
    info!(PgType::Jsonb, 3802, "jsonb", -1, false, 'U', false, 'b', 'i', 'x', "jsonb_", 3807),
    info!(PgType::Reg(Reg::Namespace), 4089, "regnamespace", 4, true, 'N', false, 'b', 'i', 'p', "regnamespace", 4090),
    info!(PgType::Reg(Reg::Role), 4096, "regrole", 4, true, 'N', false, 'b', 'i', 'p', "regrole", 4097),
];

impl TypeInfo {
    /// `typcollation`.
    pub fn collation(&self) -> u32 {
        match self.ty {
            PgType::Text | PgType::Varchar(_) | PgType::Bpchar(_) => DEFAULT_COLLATION_OID,
            PgType::Name => C_COLLATION_OID,
            _ => 0,
        }
    }
}

/// The OID that the wire and the catalog know the type by.
pub fn oid(ty: &PgType) -> u32 {
    match ty {
        PgType::Bool => 16,
        PgType::Bytea => 17,
        PgType::Char => 18,
        PgType::Name => 19,
        PgType::Int8 => 20,
        PgType::Int2 => 21,
        PgType::Int2Vector => 22,
        PgType::Int4 => 23,
        PgType::Reg(Reg::Proc) => 24,
        PgType::Text => 25,
        PgType::Oid => 26,
        PgType::OidVector => 30,
        PgType::Json => 114,
        PgType::Float4 => 700,
        PgType::Float8 => 701,
        PgType::Unknown => 705,
        PgType::Bpchar(_) => 1042,
        PgType::Varchar(_) => 1043,
        PgType::Date => 1082,
        PgType::Time => 1083,
        PgType::Timestamp => 1114,
        PgType::Timestamptz => 1184,
        PgType::Interval => 1186,
        PgType::Numeric(_) => 1700,
        PgType::Reg(Reg::Procedure) => 2202,
        PgType::Reg(Reg::Class) => 2205,
        PgType::Reg(Reg::Type) => 2206,
        PgType::Record => 2249,
        PgType::Void => 2278,
        PgType::Uuid => 2950,
        PgType::Jsonb => 3802,
        PgType::Reg(Reg::Namespace) => 4089,
        PgType::Reg(Reg::Role) => 4096,
        PgType::Array(item) => array_oid(item),
    }
}

/// The OID of the array type over `item`. PostgreSQL's arrays of arrays are the same type as arrays; an element
/// without an array type prints as text.
pub fn array_oid(item: &PgType) -> u32 {
    match item {
        PgType::Array(inner) => array_oid(inner),
        PgType::Unknown | PgType::Void => 1009,
        _ => info(item).array_oid,
    }
}

/// The table's row for a type that is not an array; for an array, the row of its innermost element.
pub fn info(ty: &PgType) -> &'static TypeInfo {
    let ty = match ty {
        PgType::Array(item) => return info(item),
        other => oid(other),
    };
    TYPES.iter().find(|info| info.oid == ty).expect("TYPES has a row for each variant")
}

/// The type with this OID, without a modifier.
pub fn from_oid(oid: u32) -> Option<PgType> {
    TYPES.iter().find_map(|info| match oid {
        0 => None,
        oid if oid == info.oid => Some(info.ty.clone()),
        oid if oid == info.array_oid => Some(PgType::Array(Box::new(info.ty.clone()))),
        _ => None,
    })
}

/// The type's length in bytes, -1 for variable length.
pub fn typlen(ty: &PgType) -> i16 {
    match ty {
        PgType::Array(_) => -1,
        _ => info(ty).len,
    }
}

/// The type's modifier as the wire and `pg_attribute` give it, -1 for none.
pub fn typmod(ty: &PgType) -> i32 {
    match ty {
        PgType::Numeric(NumericDisplay::Declared(p, s)) => ((i32::from(*p) << 16) | (i32::from(*s) & 0x7ff)) + 4,
        PgType::Varchar(Some(n)) | PgType::Bpchar(Some(n)) => i32::try_from(*n).map_or(-1, |n| n.saturating_add(4)),
        PgType::Array(item) => typmod(item),
        _ => -1,
    }
}

/// The type that an OID and a modifier stand for.
pub fn from_oid_and_typmod(oid: u32, typmod: i32) -> Option<PgType> {
    let ty = from_oid(oid)?;
    Some(with_typmod(ty, typmod))
}

fn with_typmod(ty: PgType, typmod: i32) -> PgType {
    let Some(value) = typmod.checked_sub(4).filter(|value| *value >= 0) else { return ty };
    match ty {
        PgType::Varchar(_) => PgType::Varchar(u32::try_from(value).ok()),
        PgType::Bpchar(_) => PgType::Bpchar(u32::try_from(value).ok()),
        PgType::Numeric(_) => {
            let scale = (value & 0x7ff ^ 0x400) - 0x400;
            match (u8::try_from(value >> 16), i8::try_from(scale)) {
                (Ok(p), Ok(s)) => PgType::Numeric(NumericDisplay::Declared(p, s)),
                _ => PgType::Numeric(NumericDisplay::Trimmed),
            }
        }
        PgType::Array(item) => PgType::Array(Box::new(with_typmod(*item, typmod))),
        other => other,
    }
}

/// `typname`: `int4`, `_int4`.
pub fn typname(ty: &PgType) -> String {
    match ty {
        PgType::Array(item) => format!("_{}", info(item).name),
        _ => info(ty).name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{TYPES, from_oid, from_oid_and_typmod, oid, typmod};
    use repr::types::{NumericDisplay, PgType};

    #[test]
    fn oids_go_both_ways() {
        for info in TYPES {
            assert_eq!(oid(&info.ty), info.oid);
            assert_eq!(from_oid(info.oid).as_ref(), Some(&info.ty));
            if info.array_oid != 0 {
                let array = PgType::Array(Box::new(info.ty.clone()));
                assert_eq!(oid(&array), info.array_oid);
                assert_eq!(from_oid(info.array_oid), Some(array));
            }
        }
        assert_eq!(from_oid(0), None);
        assert_eq!(from_oid(12_345), None);
    }

    #[test]
    fn typmods_go_both_ways() {
        let types = [
            (PgType::Varchar(Some(3)), 7),
            (PgType::Bpchar(Some(10)), 14),
            (PgType::Numeric(NumericDisplay::Declared(10, 2)), 655_366),
            (PgType::Numeric(NumericDisplay::Declared(5, -2)), (5 << 16 | 0x7fe) + 4),
            (PgType::Array(Box::new(PgType::Varchar(Some(3)))), 7),
            (PgType::Int4, -1),
        ];
        for (ty, expected) in types {
            assert_eq!(typmod(&ty), expected, "{ty}");
            assert_eq!(from_oid_and_typmod(oid(&ty), expected), Some(ty));
        }
    }
}

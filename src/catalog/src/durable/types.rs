//! Columns and types as text.
//!
//! A type is the name it has in `pg_type` with its modifier: `int4`, `numeric(10,2)`, `varchar(3)`, an array `_` before its
//! item. Computed numerics, which have no name in Postgres, are `numeric:scale` and `numeric:quotient`; their Arrow type is
//! stored beside.

use arrow::datatypes::{DataType, Field, Schema};
use repr::types::NumericDisplay;
use repr::{ColumnDesc, PgType, Reg, RelationDesc};
use std::sync::Arc;

/// The columns of a relation.
pub(super) fn encode_columns(desc: &RelationDesc) -> Vec<ColumnProto> {
    let encode = |column: &ColumnDesc| ColumnProto {
        name: column.name.clone(),
        ty: encode_type(&column.ty),
        nullable: column.nullable,
        data_type: (column.data_type != column.ty.data_type())
            .then(|| column.data_type.to_string())
            // What does not read back is derived from the type again, like the stored type of a table's column.
            .filter(|text| text.parse::<DataType>().is_ok_and(|parsed| parsed == column.data_type)),
    };
    desc.columns.iter().map(encode).collect()
}

/// The inverse of [`encode_columns`].
pub(super) fn decode_columns(columns: &[ColumnProto]) -> Result<RelationDesc, String> {
    let mut descs = Vec::with_capacity(columns.len());
    let mut fields = Vec::with_capacity(columns.len());
    for column in columns {
        let ty = decode_type(&column.ty).ok_or_else(|| format!("unknown type {}", column.ty))?;
        let data_type = match &column.data_type {
            Some(text) => text.parse().map_err(|error| format!("unknown Arrow type {text}: {error}"))?,
            None => ty.data_type(),
        };
        let field: Field = ty.field(&column.name, true).with_data_type(data_type.clone());
        fields.push(field);
        descs.push(ColumnDesc { name: column.name.clone(), ty, data_type, nullable: column.nullable });
    }
    Ok(RelationDesc { columns: descs, schema: Arc::new(Schema::new(fields)) })
}

/// The description that reading back would give: what the catalog keeps, so that a restart changes nothing.
pub(crate) fn normalize(desc: &RelationDesc) -> RelationDesc {
    decode_columns(&encode_columns(desc)).expect("what was just encoded can be decoded")
}

pub(super) fn encode_type(ty: &PgType) -> String {
    match ty {
        PgType::Numeric(NumericDisplay::Declared(precision, scale)) => format!("numeric({precision},{scale})"),
        PgType::Varchar(Some(length)) => format!("varchar({length})"),
        PgType::Bpchar(Some(length)) => format!("bpchar({length})"),
        PgType::Array(item) => format!("_{}", encode_type(item)),
        PgType::Bool => "bool".to_owned(),
        PgType::Int2 => "int2".to_owned(),
        PgType::Int4 => "int4".to_owned(),
        PgType::Int8 => "int8".to_owned(),
        PgType::Oid => "oid".to_owned(),
        PgType::Float4 => "float4".to_owned(),
        PgType::Float8 => "float8".to_owned(),
        PgType::Numeric(NumericDisplay::Trimmed) => "numeric".to_owned(),
        PgType::Numeric(NumericDisplay::Scale) => "numeric:scale".to_owned(),
        PgType::Numeric(NumericDisplay::Quotient) => "numeric:quotient".to_owned(),
        PgType::Text => "text".to_owned(),
        PgType::Varchar(None) => "varchar".to_owned(),
        PgType::Bpchar(None) => "bpchar".to_owned(),
        PgType::Name => "name".to_owned(),
        PgType::Char => "char".to_owned(),
        PgType::Bytea => "bytea".to_owned(),
        PgType::Uuid => "uuid".to_owned(),
        PgType::Date => "date".to_owned(),
        PgType::Time => "time".to_owned(),
        PgType::Timestamp => "timestamp".to_owned(),
        PgType::Timestamptz => "timestamptz".to_owned(),
        PgType::Interval => "interval".to_owned(),
        PgType::Json => "json".to_owned(),
        PgType::Jsonb => "jsonb".to_owned(),
        PgType::Reg(kind) => kind.name().to_owned(),
        PgType::Unknown => "unknown".to_owned(),
        PgType::Void => "void".to_owned(),
        PgType::Record => "record".to_owned(),
        PgType::Int2Vector => "int2vector".to_owned(),
        PgType::OidVector => "oidvector".to_owned(),
    }
}

pub(super) fn decode_type(text: &str) -> Option<PgType> {
    if let Some(item) = text.strip_prefix('_') {
        return Some(PgType::Array(Box::new(decode_type(item)?)));
    }
    if let Some((name, arguments)) = text.split_once('(') {
        let arguments = arguments.strip_suffix(')')?;
        return Some(match name {
            "numeric" => {
                let (precision, scale) = arguments.split_once(',')?;
                PgType::Numeric(NumericDisplay::Declared(precision.parse().ok()?, scale.parse().ok()?))
            }
            "varchar" => PgType::Varchar(Some(arguments.parse().ok()?)),
            "bpchar" => PgType::Bpchar(Some(arguments.parse().ok()?)),
            _ => return None,
        });
    }
    let simple = SIMPLE.iter().find(|ty| encode_type(ty) == text).cloned();
    simple.or_else(|| Reg::named(text).map(PgType::Reg))
}

/// The types without modifiers.
const SIMPLE: [PgType; 29] = [
    PgType::Bool,
    PgType::Int2,
    PgType::Int4,
    PgType::Int8,
    PgType::Oid,
    PgType::Float4,
    PgType::Float8,
    PgType::Numeric(NumericDisplay::Trimmed),
    PgType::Numeric(NumericDisplay::Scale),
    PgType::Numeric(NumericDisplay::Quotient),
    PgType::Text,
    PgType::Varchar(None),
    PgType::Bpchar(None),
    PgType::Name,
    PgType::Char,
    PgType::Bytea,
    PgType::Uuid,
    PgType::Date,
    PgType::Time,
    PgType::Timestamp,
    PgType::Timestamptz,
    PgType::Interval,
    PgType::Json,
    PgType::Jsonb,
    PgType::Unknown,
    PgType::Void,
    PgType::Record,
    PgType::Int2Vector,
    PgType::OidVector,
];

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ColumnProto {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) ty: String,
    #[prost(bool, tag = "3")]
    pub(super) nullable: bool,
    /// The Arrow type, where it is not the one that stores `ty`.
    #[prost(string, optional, tag = "4")]
    pub(super) data_type: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::{SIMPLE, decode_columns, decode_type, encode_columns, encode_type, normalize};
    use arrow::datatypes::{DataType, Field, Schema};
    use repr::types::NumericDisplay;
    use repr::{PgType, RelationDesc};
    use std::sync::Arc;

    fn all_types() -> Vec<PgType> {
        let mut types = SIMPLE.to_vec();
        types.extend([
            PgType::Numeric(NumericDisplay::Declared(10, 2)),
            PgType::Numeric(NumericDisplay::Declared(50, -3)),
            PgType::Varchar(Some(7)),
            PgType::Bpchar(Some(1)),
        ]);
        let arrays: Vec<PgType> = types.iter().map(|ty| PgType::Array(Box::new(ty.clone()))).collect();
        types.extend(arrays);
        types
    }

    #[test]
    fn types_round_trip() {
        for ty in all_types() {
            assert_eq!(decode_type(&encode_type(&ty)), Some(ty.clone()), "{ty}");
        }
        assert_eq!(decode_type("int3"), None);
        assert_eq!(decode_type("varchar(x)"), None);
    }

    #[test]
    fn stored_columns_are_already_normal() {
        let columns = all_types().into_iter().enumerate().map(|(i, ty)| (format!("c{i}"), ty, i % 2 == 0));
        let desc = RelationDesc::new(columns);
        let decoded = decode_columns(&encode_columns(&desc)).expect("it was just encoded");
        for (column, field) in decoded.columns.iter().zip(desc.schema.fields()) {
            assert_eq!(&column.data_type, field.data_type(), "{}", column.ty);
        }
        assert_eq!(decoded.schema, desc.schema);
    }

    #[test]
    fn computed_columns_keep_their_arrow_types() {
        let fields = [
            Field::new("sum", DataType::Decimal128(38, 4), true),
            Field::new("quotient", DataType::Decimal256(60, 16), true),
            Field::new("text", DataType::LargeUtf8, false),
            Field::new("time", DataType::Timestamp(arrow::datatypes::TimeUnit::Nanosecond, None), true),
            Field::new(
                "zone",
                DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("+00:00".into())),
                true,
            ),
        ];
        let desc = RelationDesc::from_schema(Arc::new(Schema::new(fields.to_vec())));
        assert_eq!(normalize(&desc).columns, desc.columns);
    }
}

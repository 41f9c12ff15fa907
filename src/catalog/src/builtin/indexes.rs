//! What pg_index and pg_class say of indexes.

use crate::builtin::shipped::data;
use pgrepr::types;
use repr::ColumnDesc;
use repr::datum::Datum;
use repr::types::PgType;
use sql_syntax::ast::KeyOptions;

pub(super) const BTREE_OID: u32 = 403;

/// The bits of `pg_index.indoption`.
const INDOPTION_DESC: i16 = 1;

const INDOPTION_NULLS_FIRST: i16 = 2;

/// Collations, operator classes and options of an index's columns.
pub(super) fn index_columns(
    columns: &[ColumnDesc],
    declared: &[KeyOptions],
) -> (Datum<'static>, Datum<'static>, Datum<'static>) {
    let option = |options: &KeyOptions| {
        Datum::Int2(
            i16::from(options.descending) * INDOPTION_DESC + i16::from(options.nulls_first) * INDOPTION_NULLS_FIRST,
        )
    };
    let classes = columns.iter().zip(declared).map(|(column, options)| Datum::Oid(operator_class(&column.ty, options)));
    (
        Datum::List(columns.iter().map(|column| Datum::Oid(types::info(&column.ty).collation())).collect()),
        Datum::List(classes.collect()),
        Datum::List(declared.iter().map(option).collect()),
    )
}

/// The operator class that a key names, or the default one of its type; 0 where there is none.
fn operator_class(ty: &PgType, options: &KeyOptions) -> u32 {
    // varchar uses text's operators, as in PostgreSQL.
    let wanted = match ty {
        PgType::Varchar(_) => types::oid(&PgType::Text),
        other => types::oid(other),
    };
    data("pg_opclass")
        .lines()
        .find_map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let (name, ty, is_default) =
                (*fields.get(2)?, fields.get(6)?.parse() == Ok(wanted), *fields.get(7)? == "t");
            let is_wanted = options.class.as_deref().map_or(is_default, |class| class == name);
            (ty && is_wanted).then(|| fields[0].parse().ok())?
        })
        .unwrap_or(0)
}

//! A row of pg_attribute.

use crate::builtin::{position, text};
use pgrepr::types;
use repr::ColumnDesc;
use repr::datum::Datum;
use repr::types::PgType;
use sql_syntax::ast::Identity;

/// What a column's row says beside its name and type.
pub(super) struct Attribute {
    pub(super) not_null: bool,
    pub(super) has_default: bool,
    pub(super) identity: Option<Identity>,
    pub(super) acl: Datum<'static>,
}

impl Attribute {
    pub(super) fn row(self, relation: u32, i: usize, column: &ColumnDesc) -> [Datum<'static>; 18] {
        let info = types::info(&column.ty);
        let array = matches!(column.ty, PgType::Array(_)) || column.ty.vector_item().is_some();
        [
            Datum::Oid(relation),
            text(&column.name),
            Datum::Oid(types::oid(&column.ty)),
            Datum::Int2(types::typlen(&column.ty)),
            Datum::Int2(position(i)),
            Datum::Int4(array.into()),
            Datum::Int4(-1),
            Datum::Int4(types::typmod(&column.ty)),
            Datum::Bool(info.by_value && !array),
            text(if array && info.align != 'd' { 'i' } else { info.align }),
            text(if array { 'x' } else { info.storage }),
            Datum::Bool(self.not_null),
            Datum::Bool(self.has_default),
            Datum::Bool(true),
            Datum::Oid(info.collation()),
            Datum::Int4(-1),
            self.acl,
            text(match self.identity {
                Some(Identity::Always) => "a",
                Some(Identity::ByDefault) => "d",
                None => "",
            }),
        ]
    }
}

//! Foreign keys, as those who write check them: what a row refers to, as bytes.
//!
//! The bytes of a reference are those of its own columns, in the order of the key that it refers to. Where the two are of integers of
//! different widths they are made each other's.

use super::{CountedKey, Duplicate, TableConstraints, Wording, value_text};
use crate::error::CommitError;
use arrow::datatypes::DataType;
use compute_client::peek::fit;
use datafusion::logical_expr::Expr;
use engine::error::SqlError;
use repr::row::{read_datum, skip_datum, split, write_datum};
use repr::sqlstate::SqlState;
use repr::{GlobalId, RelationDesc, Updates};
use sql::plan::constraint::{Reference as Planned, TableKey, column_list, index_over, set_defaults};
use sql::plan::{CatalogView, ForeignKey, ItemRef, PlanContext};
use sql_syntax::ast::Action;
use std::borrow::Cow;
use std::sync::Arc;

/// A FOREIGN KEY.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its columns, in the order of the key that they refer to.
    pub key: CountedKey,
    /// The table that has it.
    pub child: GlobalId,
    /// The table that it refers to.
    pub parent: GlobalId,
    /// The oid of the key that it refers to.
    pub parent_key: u32,
    /// The columns of that key.
    pub parent_columns: Vec<usize>,
    /// The constraint as it was stated.
    pub foreign: ForeignKey,
    /// The index of its columns, in their order.
    pub index: Option<GlobalId>,
    /// What its columns get by SET DEFAULT, in their stated order.
    pub defaults: Vec<Expr>,
    /// The types of its columns, and of those that they refer to, where these are not the same.
    widths: Option<Vec<(DataType, DataType)>>,
}

impl Reference {
    pub(super) fn new(ctx: &PlanContext<'_>, planned: &Planned) -> Result<Reference, SqlError> {
        let Planned { oid, name, child, parent, key, columns, foreign } = planned;
        let index = index_over(ctx.catalog, child.id, columns).map(|index| index.id);
        let types = columns.iter().zip(&key.columns).map(|(column, referred)| {
            let data_type = |item: &ItemRef, at: usize| item.desc.columns[at].data_type.clone();
            (data_type(child, *column), data_type(parent, *referred))
        });
        let types: Vec<(DataType, DataType)> = types.collect();
        let own = TableKey { oid: *oid, name: name.clone(), columns: columns.clone(), index };
        Ok(Reference {
            key: CountedKey::new(own, &child.desc),
            child: child.id,
            parent: parent.id,
            parent_key: key.oid,
            parent_columns: key.columns.clone(),
            index,
            defaults: set_defaults(ctx, child, foreign)?,
            foreign: foreign.clone(),
            widths: types.iter().any(|(own, other)| own != other).then_some(types),
        })
    }

    /// Whether it changes the rows that refer to one that goes or gets another key.
    pub fn acts(&self) -> bool {
        let acts = |action: Action| !matches!(action, Action::NoAction | Action::Restrict);
        acts(self.foreign.on_delete) || acts(self.foreign.on_update)
    }

    /// The key that a reference is to; `None` if there can be none.
    pub fn to_parent<'k>(&self, key: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        self.converted(key, |(own, other)| (own, other))
    }

    /// The reference to a key; `None` if there can be none.
    pub fn to_child<'k>(&self, key: &'k [u8]) -> Option<Cow<'k, [u8]>> {
        self.converted(key, |(own, other)| (other, own))
    }

    fn converted<'k>(
        &self,
        key: &'k [u8],
        way: impl Fn(&(DataType, DataType)) -> (&DataType, &DataType),
    ) -> Option<Cow<'k, [u8]>> {
        let Some(widths) = &self.widths else { return Some(Cow::Borrowed(key)) };
        let (mut rest, mut converted) = (key, Vec::with_capacity(key.len() + 4 * widths.len()));
        for (from, to) in widths.iter().map(way) {
            let (mut bytes, mut scratch) = (skip_datum(&mut rest, from), Vec::new());
            if from == to {
                converted.extend_from_slice(bytes);
                continue;
            }
            let value = read_datum(&mut bytes, from, &mut scratch);
            write_datum(&mut converted, to, &fit(&value, to)?).ok()?;
        }
        Some(Cow::Owned(converted))
    }

    /// Whether some of its columns are NULL in a row, and others are not.
    fn is_mixed(&self, types: &[DataType], row: &[u8]) -> bool {
        let slices = split(row, types);
        // NULL of any type begins with a zero.
        let missing = self.key.columns.iter().filter(|column| slices[**column].first() == Some(&0)).count();
        missing > 0 && missing < self.key.columns.len()
    }

    /// The positions of its columns in the key's order, as they were stated.
    fn stated(&self) -> impl Iterator<Item = usize> {
        let place = |column: &usize| self.key.columns.iter().position(|own| own == column);
        self.foreign.columns.iter().filter_map(place)
    }

    /// `(a, b)=(1, 2)` of the bytes of a reference, under these columns of a table.
    fn describe(
        &self,
        child: &RelationDesc,
        named: (&RelationDesc, &[usize]),
        key: &[u8],
        wording: Wording<'_>,
    ) -> String {
        let mut rest = key;
        let columns: Vec<_> = self.key.columns.iter().map(|column| &child.columns[*column]).collect();
        let slices: Vec<&[u8]> = columns.iter().map(|column| skip_datum(&mut rest, &column.data_type)).collect();
        let value = |place: usize| value_text(columns[place], slices[place], wording.options);
        let values: Vec<String> = self.stated().map(value).collect();
        format!("({})=({})", column_list(named.0, named.1), values.join(", "))
    }
}

impl TableConstraints {
    /// What MATCH FULL demands of the rows that `updates` add. Error 23503.
    pub fn check_full(&self, updates: &Updates, wording: Wording<'_>) -> Result<(), CommitError> {
        for reference in self.references.iter().filter(|reference| reference.foreign.is_full) {
            if updates.iter().any(|(row, diff)| diff > 0 && reference.is_mixed(&self.types, row)) {
                let detail = "MATCH FULL does not allow mixing of null and nonnull key values.";
                return Err(missing(reference, Some(detail.to_owned()), wording));
            }
        }
        Ok(())
    }
}

/// A reference to a key that is not there.
#[derive(Clone, Debug)]
pub struct Orphan {
    /// The foreign key.
    pub reference: Arc<Reference>,
    /// Its bytes.
    pub key: Vec<u8>,
    /// Whether the row that refers is new; else the key has gone.
    pub is_new: bool,
}

/// What a write may not do to the rows of tables as a whole.
#[derive(Clone, Debug)]
pub enum Violation {
    /// It gives a table a key twice.
    Duplicate(Duplicate),
    /// It leaves a reference to nothing.
    Orphan(Orphan),
}

/// 23503 of a reference. The key is shown to who may see the table whose rows are changed.
pub fn orphan(catalog: &dyn CatalogView, orphan: &Orphan, wording: Wording<'_>) -> CommitError {
    let Orphan { reference, key, is_new } = orphan;
    let (Some(child), Some(parent)) = (catalog.item(reference.child), catalog.item(reference.parent)) else {
        return CommitError::internal("a foreign key is of tables that are not there");
    };
    let (shows, foreign) = ((wording.shows_rows)(), &reference.foreign);
    let wording = Wording { table: &child.name, ..wording };
    let described = |desc: &RelationDesc, columns: &[usize]| match shows {
        true => format!("Key {}", reference.describe(&child.desc, (desc, columns), key, wording)),
        false => "Key".to_owned(),
    };
    if *is_new {
        let described = described(&child.desc, &foreign.columns);
        let detail = format!("{described} is not present in table \"{}\".", parent.name.item);
        return missing(reference, Some(detail), wording);
    }
    let (name, relation) = (&reference.key.name, &child.name.item);
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{name}\" on table \"{relation}\"",
        parent.name.item
    );
    let detail =
        format!("{} is still referenced from table \"{relation}\".", described(&parent.desc, &foreign.referred));
    CommitError::violation(SqlState::FOREIGN_KEY_VIOLATION, message, Some(detail), wording.constraint(name))
}

fn missing(reference: &Reference, detail: Option<String>, wording: Wording<'_>) -> CommitError {
    let (name, relation) = (&reference.key.name, &wording.table.item);
    let message = format!("insert or update on table \"{relation}\" violates foreign key constraint \"{name}\"");
    CommitError::violation(SqlState::FOREIGN_KEY_VIOLATION, message, detail, wording.constraint(name))
}

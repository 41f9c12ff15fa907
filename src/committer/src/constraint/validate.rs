//! New constraints against rows that are there: those that are stored, and what a transaction has written over them.

use super::{CHECKED_ROWS, Conditions, KeyCounts, TableConstraints, Wording, net_rows, only_adds};
use crate::error::CommitError;
use engine::{Engine, SessionInfo};
use persist::ShardSnapshot;
use repr::sqlstate::SqlState;
use repr::{Diff, Updates};
use std::collections::HashMap;

/// The keys that are there, by the oid of their constraint.
pub type Validated = Vec<(u32, KeyCounts)>;

/// Checks whatever `after` demands and `before` does not of all rows: of those of `stored`, with `own` over them. Returns the
/// keys of the constraints that are new. Errors: 23505, 23502, 23514, worded as by Postgres's ALTER TABLE.
pub fn validate(
    engine: &Engine,
    before: Option<&TableConstraints>,
    after: &TableConstraints,
    stored: Option<ShardSnapshot>,
    own: &Updates,
    wording: Wording<'_>,
) -> Result<Validated, CommitError> {
    let is_new_reference = |oid: u32| after.new_references(before).any(|reference| reference.key.oid == oid);
    let is_new_key = |oid: u32| before.is_none_or(|before| before.counted(oid).is_none()) || is_new_reference(oid);
    let is_new_check = |oid: u32| before.is_none_or(|before| before.checks.iter().all(|check| check.oid != oid));
    let info = SessionInfo::default();
    let mut validation = Validation {
        after,
        keys: after.all_counted().filter(|key| is_new_key(key.oid)).map(|key| (key.oid, KeyCounts::new())).collect(),
        conditions: Conditions::new(after, engine, &info, |check| is_new_check(check.oid))?,
        is_new_not_null: after
            .desc
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| !column.nullable && before.is_none_or(|before| before.desc.columns[at].nullable))
            .collect(),
        failure: None,
        wording,
    };
    validation.read(stored, own)?;
    let keys = validation.unique()?;
    match validation.failure {
        Some(failure) => Err(failure),
        None => Ok(keys),
    }
}

struct Validation<'a> {
    after: &'a TableConstraints,
    keys: Validated,
    conditions: Conditions<'a>,
    is_new_not_null: Vec<bool>,
    /// The first row that a condition or NOT NULL is not true of. Keys are checked first.
    failure: Option<CommitError>,
    wording: Wording<'a>,
}

impl Validation<'_> {
    fn read(&mut self, stored: Option<ShardSnapshot>, own: &Updates) -> Result<(), CommitError> {
        if stored.is_none() && only_adds(own) {
            own.iter().for_each(|(row, copies)| self.count(row, copies));
            return self.check(&own.iter().map(|(row, _)| row).collect::<Vec<_>>());
        }
        let mut own: HashMap<&[u8], Diff> = net_rows(own);
        for rows in stored.into_iter().flatten() {
            let rows = rows?;
            let mut present: Vec<&[u8]> = Vec::with_capacity(rows.len());
            for (row, diff) in rows.iter() {
                let copies = diff + own.remove(row).unwrap_or(0);
                self.count(row, copies);
                if copies > 0 {
                    present.push(row);
                }
            }
            self.check(&present)?;
        }
        for (row, copies) in &own {
            self.count(row, *copies);
        }
        let rows: Vec<&[u8]> = own.iter().filter(|(_, copies)| **copies > 0).map(|(row, _)| *row).collect();
        self.check(&rows)
    }

    fn count(&mut self, row: &[u8], copies: Diff) {
        for (oid, counts) in &mut self.keys {
            let Some(key) = self.after.counted(*oid) else { continue };
            if let Some(bytes) = key.of(&self.after.types, row)
                && copies != 0
            {
                *counts.entry(bytes.into()).or_default() += copies;
            }
        }
    }

    fn check(&mut self, rows: &[&[u8]]) -> Result<(), CommitError> {
        if self.failure.is_some() {
            return Ok(());
        }
        let (relation, desc) = (&self.wording.table.item, &self.after.desc);
        for row in rows {
            if let Some(column) = self.after.null_column(row, |at| self.is_new_not_null[at]) {
                let column = &desc.columns[column].name;
                let message = format!("column \"{column}\" of relation \"{relation}\" contains null values");
                let subject = self.wording.column(column);
                self.failure = Some(CommitError::violation(SqlState::NOT_NULL_VIOLATION, message, None, subject));
                return Ok(());
            }
        }
        for rows in rows.chunks(CHECKED_ROWS) {
            if let Some((_, check)) = self.conditions.first_violation(rows)? {
                let name = &check.name;
                let message = format!("check constraint \"{name}\" of relation \"{relation}\" is violated by some row");
                let subject = self.wording.constraint(name);
                self.failure = Some(CommitError::violation(SqlState::CHECK_VIOLATION, message, None, subject));
                return Ok(());
            }
        }
        Ok(())
    }

    /// The keys, each of which is there once; those of foreign keys, as often as they are.
    fn unique(&mut self) -> Result<Validated, CommitError> {
        let mut unique = std::mem::take(&mut self.keys);
        for (oid, counts) in &mut unique {
            if let (Some((twice, _)), Some(key)) =
                (counts.iter().find(|(_, copies)| **copies > 1), self.after.key(*oid))
            {
                return Err(CommitError::violation(
                    SqlState::UNIQUE_VIOLATION,
                    format!("could not create unique index \"{}\"", key.name),
                    Some(format!("Key {} is duplicated.", key.describe(&self.after.desc, twice, self.wording.options))),
                    self.wording.constraint(&key.name),
                ));
            }
            counts.retain(|_, copies| *copies > 0);
        }
        Ok(unique)
    }
}

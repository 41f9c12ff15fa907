//! Access policies: conditions on rows that nobody wrote into the query.
//!
//! A policy of a cube counts wherever the cube takes part, also on the way to another one and in sub-queries; a policy of a view counts
//! beside those of its cubes. Of the policies that are for whoever asks and show all members that are asked for, one has to pass.

use super::instances::{At, Instances, ROOT};
use crate::bind::logic::balanced;
use datafusion::logical_expr::{Expr, Operator};
use engine::error::SqlError;
use repr::sqlstate::SqlState;
use semantic::model::cube::Cube;
use semantic::model::offer::Member;
use semantic::model::policy::Policy;
use semantic::query::{Condition, Filter, Name};
use semantic::security::Security;
use sql_functions::TypedExpr;
use std::collections::{BTreeMap, BTreeSet};

/// The members that a query names, by the instance that they are of.
pub(super) type Seen = BTreeMap<At, BTreeSet<String>>;

impl<'m> Instances<'_, '_, 'm> {
    /// What the policies of all cubes that take part demand of rows. Error 42501: none of a cube is for whoever asks.
    pub(super) fn policies(&mut self, seen: &Seen) -> Result<Vec<Expr>, SqlError> {
        let mut conditions = Vec::new();
        let mut at = ROOT;
        // What a policy speaks of may take part only now.
        while at < self.count() {
            let cube = self.cube(at);
            if self.has_rows(at) {
                let members = seen.get(&at).into_iter().flatten().map(String::as_str);
                let value = &mut |instances: &mut Self, name: &Name, _: &Condition| instances.named(at, cube, name);
                conditions.extend(self.demanded(&cube.policies, cube.name(), &members.collect::<Vec<_>>(), value)?);
            }
            at += 1;
        }
        Ok(conditions)
    }

    fn named(&mut self, at: At, cube: &'m Cube, name: &Name) -> Result<TypedExpr, SqlError> {
        let missing = || SqlError::internal(format!("a policy is about {name}, which is no dimension"));
        self.member(at, cube.dimension(&name.member).map(Member::Dimension).ok_or_else(missing)?)
    }

    /// What the policies of one cube or view demand of rows; None if they demand nothing.
    pub(super) fn demanded(
        &mut self,
        policies: &[Policy],
        of: &str,
        members: &[&str],
        value: &mut dyn FnMut(&mut Self, &Name, &Condition) -> Result<TypedExpr, SqlError>,
    ) -> Result<Option<Expr>, SqlError> {
        let Some(asker) = self.binder.asker.filter(|_| !policies.is_empty()) else { return Ok(None) };
        let security = asker.security();
        self.binder.coercer.tables.note_policy();
        let mut allowed: Vec<Expr> = Vec::new();
        let own = policies.iter().filter(|policy| policy.allows(&security, of, members.iter().copied()));
        let own: Vec<&Policy> = own.collect();
        if own.is_empty() {
            return Err(denied(of, &security));
        }
        for policy in own {
            let filter: Option<Filter> = policy
                .rows(&security, of)
                .map_err(|error| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.to_string()))?;
            match filter {
                None => return Ok(None),
                Some(filter) => allowed.push(self.filter(&filter, chrono_tz::Tz::UTC, value)?),
            }
        }
        Ok(Some(balanced(allowed, Operator::Or)))
    }
}

fn denied(of: &str, security: &Security) -> SqlError {
    let groups: Vec<&str> = security.groups.iter().map(String::as_str).collect();
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("permission denied for cube \"{of}\"")).with_detail(
        format!(
            "No access policy of the cube is for one of the groups {} and shows all members that are asked for.",
            groups.join(", ")
        ),
    )
}

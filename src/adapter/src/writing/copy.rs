//! COPY FROM STDIN: rows collected from the client's fields, then committed as one.

use crate::error::AdapterError;
use crate::response::{Response, Tag};
use crate::session::{Autocommit, Session};
use crate::transaction::conflict;
use crate::writing::copy_in::{CopyIn, Source};
use crate::writing::write::WriteTarget;
use committer::request::Committed;
use compute_client::peek::Bound;
use datafusion::common::DFSchema;
use repr::Datum;
use sql::plan::CopyFromPlan;

impl Session {
    /// Makes ready for so many rows more: has the values of sequences reserved that they take, so that no row has to wait for them, and
    /// has those written that have come, if they are many.
    pub async fn copy_in_rows(&mut self, copy: &mut CopyIn, rows: u64) -> Result<(), AdapterError> {
        let mut result = self.reserve(&copy.takes, rows).await;
        if result.is_ok() && copy.has_run() && self.commits_alone() {
            let begun = self.interrupt().guard(copy.begin_run(&self.shared.committer)).await;
            result = begun.and_then(|begun| Ok(begun?));
        }
        self.concluded(result)
    }

    /// Begins a COPY FROM STDIN.
    pub(crate) async fn copy_from(&mut self, plan: &CopyFromPlan) -> Result<Response, AdapterError> {
        let info = self.info(self.shared.oracle.known_ts());
        let sources = (0..plan.desc.arity())
            .map(|column| match plan.columns.iter().position(|to| *to == column) {
                Some(field) => Ok(Source::Field(field)),
                None => {
                    let default = plan.defaults.iter().find(|(of, _)| *of == column).map(|(_, expr)| expr);
                    if let Some(expr) = default.filter(|expr| expr.is_volatile()) {
                        let schema = DFSchema::empty();
                        return Ok(Source::Each(self.shared.engine.create_physical_expr(expr, &schema, &info)?));
                    }
                    let value = default.map(|expr| self.evaluate_constant(expr, Bound::none(), &info)).transpose()?;
                    Ok(Source::Default(value.unwrap_or(Datum::Null)))
                }
            })
            .collect::<Result<Vec<_>, AdapterError>>()?;
        let encode = match plan.desc.columns.iter().any(|column| column.ty.names_objects()) {
            true => self.naming_options(),
            false => self.encode_options().clone(),
        };
        let mut copy = CopyIn::new(plan, sources, encode, &self.shared.memory);
        copy.shows_rows = self.may_select(plan.table);
        copy.has_long_checks = self.published().has_long_checks(plan.table);
        std::future::ready(Ok(Response::CopyIn(Box::new(copy)))).await
    }

    /// Commits the rows of a COPY.
    pub(crate) async fn finish_copy(&mut self, mut copy: Box<CopyIn>) -> Result<Tag, AdapterError> {
        let (updates, written) = self.interrupt().guard(copy.rows(&self.shared.committer)).await??;
        let count = u64::try_from(updates.len()).unwrap_or(u64::MAX);
        let CopyIn { table, name, desc, lines, memory: _memory, .. } = *copy;
        let target = WriteTarget { written, ..WriteTarget::as_they_are(table, &name, &desc) };
        let written = self.write(target, updates, Vec::new(), Autocommit::Yes).await;
        let written = written.map_err(|error| match error.subject().and_then(|subject| subject.row) {
            Some(row) => error.in_context(format!("COPY {}, line {}", name.item, lines.of(row))),
            None => error,
        });
        match written? {
            Committed::At => Ok(Tag::Counted("COPY", count)),
            // It has read nothing, and takes no key for a conflict.
            Committed::Conflict | Committed::Repeated | Committed::Violates(_) => Err(conflict()),
        }
    }
}

//! What ALTER TABLE makes of the rows of a table (`committer::rewrite`), bound by the session that asks for it.

use crate::error::AdapterError;
use crate::session::Session;
use crate::status::Status;
use committer::published::Published;
use committer::rewrite::{Column, Rewriting};
use committer::sequence::Unreserved;
use compute_client::peek::Bound;
use parking_lot::Mutex;
use repr::row::write_datum;
use sql::plan::{AlterTablePlan, ColumnSource};
use std::sync::Arc;

impl Session {
    /// What ALTER TABLE makes of the table's rows, if they become others. Errors: those of a DEFAULT, or of another constant.
    pub(crate) fn rewriting(
        &self,
        plan: &AlterTablePlan,
        before: &Published,
    ) -> Result<Option<Rewriting>, AdapterError> {
        let (Some(sources), Some(table)) = (&plan.rewrite, before.tables.get(&plan.id)) else { return Ok(None) };
        let (mut info, before) = (self.info(self.shared.oracle.known_ts()), Arc::clone(&table.constraints));
        let unreserved = Unreserved::default();
        if self.transaction.status == Status::Idle {
            info.sequences = Some(Arc::new(self.sequences(Some(Arc::clone(&unreserved)))));
        }
        let column = |source: &ColumnSource| match source {
            ColumnSource::Kept(at) => Ok(Column::Kept(*at)),
            ColumnSource::New(expr, data_type) if expr.is_volatile() || !expr.column_refs().is_empty() => {
                let physical = self.shared.engine.create_physical_expr(expr, &before.schema, &info)?;
                Ok(Column::Each(physical, data_type.clone()))
            }
            ColumnSource::Numbered(params, data_type) => {
                Ok(Column::Numbered(params.clone(), data_type.clone(), Mutex::new(params.first())))
            }
            ColumnSource::New(expr, data_type) => {
                let value = self.evaluate_constant(expr, Bound::none(), &info)?;
                let mut bytes = Vec::new();
                write_datum(&mut bytes, data_type, &value)?;
                Ok(Column::Same(bytes))
            }
        };
        let columns = sources.iter().map(column).collect::<Result<_, AdapterError>>()?;
        Ok(Some(Rewriting::new(plan.id, before, columns, unreserved)))
    }
}

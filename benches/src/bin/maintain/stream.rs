//! The rows that both sides begin with and the changes that both sides take, in the form of each: what is measured begins
//! behind the parser on both sides.

use crate::rendered::View;
use crate::typed::TypedRows;
use anyhow::{Result, ensure};
use repr::{GlobalId, Updates};
use std::sync::Arc;
use tpch::{Changes, Data, Mix, Row, Table};

/// Rows of one piece while loading.
const PIECE_ROWS: usize = 8_192;

/// After so many changes to other tables there will be none to those that the view reads.
const IDLE_MAX: usize = 10_000;

/// Updates of tables as of one time.
pub(crate) type Batch = Arc<[(GlobalId, Vec<Arc<Updates>>)]>;

/// Rows, then changes.
pub(crate) struct Stream {
    /// The rows of the tables that the view reads.
    pub(crate) rows: Vec<(GlobalId, Arc<Updates>)>,
    /// Each batch of changes to them.
    pub(crate) batches: Vec<Batch>,
    /// The same rows.
    pub(crate) typed_rows: Arc<TypedRows>,
    /// The same batches.
    pub(crate) typed_batches: Vec<Arc<TypedRows>>,
}

impl Stream {
    /// Draws batches of (at least) `size` changed rows of the tables that the view reads; an updated row is one change.
    pub(crate) fn new(data: Data, view: &View, seed: u64, size: usize, batches: usize) -> Result<Stream> {
        let mut stream = Stream {
            rows: Vec::new(),
            batches: Vec::with_capacity(batches),
            typed_rows: Arc::default(),
            typed_batches: Vec::with_capacity(batches),
        };
        let mut typed = TypedRows::default();
        for table in Table::ALL.into_iter().filter(|table| view.reads(*table)) {
            let rows: Vec<&Row> = data.rows(table).collect();
            for rows in rows.chunks(PIECE_ROWS) {
                let mut updates = Updates::new();
                for row in rows {
                    view.encode(table, row, 1, &mut updates)?;
                    typed.push(table, row, 1)?;
                }
                stream.rows.push((view.id(table), Arc::new(updates)));
            }
        }
        stream.typed_rows = Arc::new(typed);
        let mut changes = Changes::new(data, seed, Mix::Refresh);
        for _ in 0..batches {
            let mut updates: Vec<(Table, Updates)> = Table::ALL.map(|table| (table, Updates::new())).into();
            let mut typed = TypedRows::default();
            let (mut count, mut idle_count) = (0, 0);
            while count < size {
                let drawn = changes.next_change();
                idle_count = if drawn.iter().any(|change| view.reads(change.table)) { 0 } else { idle_count + 1 };
                ensure!(idle_count < IDLE_MAX, "no table that the view reads ever changes");
                for change in drawn.into_iter().filter(|change| view.reads(change.table)) {
                    count += 1;
                    for (row, diff) in [(change.old, -1), (change.new, 1)] {
                        let Some(row) = row else { continue };
                        view.encode(change.table, &row, diff, &mut updates[change.table as usize].1)?;
                        typed.push(change.table, &row, diff)?;
                    }
                }
            }
            let updates = updates.into_iter().filter(|(_, updates)| !updates.is_empty());
            stream.batches.push(updates.map(|(table, updates)| (view.id(table), vec![Arc::new(updates)])).collect());
            stream.typed_batches.push(Arc::new(typed));
        }
        Ok(stream)
    }
}

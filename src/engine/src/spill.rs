//! What operators put aside on disk when there is no more memory for them.
//!
//! Sorts, groups and joins by sorted keys are told by the account of memory that there is no more ([`crate::memory`]), write what they
//! have into a file, and read it again in the end. The files have no names: whatever ends the process, nothing of them is left. They
//! leave a reserve of the disk free, which what is to stay needs; beyond it a query fails with 53100. A query that can tell the order of its
//! rows puts nothing aside: what it reads twice would come in two orders, if one of the two fits.
//!
//! A hash join keeps one of its sides and cannot put it aside. Where that side is by what is known too large, both are sorted by their
//! keys instead ([`SortedJoins`]).

use crate::error::SqlError;
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use bytes::Bytes;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, Result, Statistics};
use datafusion::error::DataFusionError;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use futures::Stream;
use ore::memory::Share;
use repr::sqlstate::SqlState;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are written before the disk is looked at again.
const LOOKED_AT: u64 = 16 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 128 << 10;

/// Where files are put, and how much of the disk is not for them.
#[derive(Clone, Debug)]
pub struct Spill {
    directory: PathBuf,
    /// A part of the disk, in percent.
    reserve: u8,
}

impl Spill {
    /// In a directory that is there, of whose disk so many percent stay free.
    pub fn new(directory: PathBuf, reserve: u8) -> Spill {
        Spill { directory, reserve }
    }

    /// Whether there is room. Errors: 53100, 58030.
    fn check(&self) -> io::Result<()> {
        let disk = rustix::fs::statvfs(&self.directory)?;
        if u128::from(disk.f_bavail) * 100 > u128::from(disk.f_blocks) * u128::from(self.reserve) {
            return Ok(());
        }
        let detail =
            format!("Of the disk below {} less than {} percent is free.", self.directory.display(), self.reserve);
        let error =
            SqlError::new(SqlState::DISK_FULL, "out of memory, and of room on disk for what does not fit in it");
        Err(io::Error::other(error.with_detail(detail)))
    }
}

impl TempFileFactory for Spill {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        self.check()?;
        let file = Arc::new(tempfile::tempfile_in(&self.directory)?);
        Ok(Arc::new(Spilled { spill: self.clone(), file, written: Arc::default() }))
    }
}

/// A file without a name. It goes with the last who reads it.
struct Spilled {
    spill: Spill,
    file: Arc<File>,
    written: Arc<AtomicU64>,
}

struct Writer {
    spill: Spill,
    file: Arc<File>,
    written: Arc<AtomicU64>,
}

impl SpillFile for Spilled {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn size(&self) -> Option<u64> {
        Some(self.written.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let file = Arc::clone(&self.file);
        let pieces = futures::stream::try_unfold((file, 0), |(file, at)| async move {
            let mut piece = vec![0; READ_BYTES];
            let length = file.read_at(&mut piece, at)?;
            piece.truncate(length);
            Ok::<_, DataFusionError>((length > 0).then(|| (Bytes::from(piece), (file, at + length as u64))))
        });
        Ok(Box::pin(pieces))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let (spill, file, written) = (self.spill.clone(), Arc::clone(&self.file), Arc::clone(&self.written));
        Ok(Box::new(Writer { spill, file, written }))
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let before = self.written.load(Ordering::Relaxed);
        let length = self.file.write_at(bytes, before)?;
        let after = self.written.fetch_add(length as u64, Ordering::Relaxed) + length as u64;
        if before / LOOKED_AT != after / LOOKED_AT {
            self.spill.check()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Joins by sorted keys what is too large to be kept.
#[derive(Debug)]
pub(super) struct SortedJoins {
    /// Whose memory what is kept would take.
    pub(super) memory: Arc<Share>,
}

impl PhysicalOptimizerRule for SortedJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let left = self.memory.limit().saturating_sub(self.memory.used());
        plan.transform_up(|plan| {
            let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(plan)) };
            let keeps = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new())?;
            // What is kept stands there as it is, and once more by its keys.
            let is_too_large = kept(&keeps).is_some_and(|bytes| bytes > left / 2) || ore::sometimes(10);
            Ok(match is_too_large.then(|| sorted(join)).transpose()?.flatten() {
                Some(sorted) => Transformed::yes(sorted),
                None => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "sorted_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// About how many bytes rows take.
fn kept(rows: &Statistics) -> Option<usize> {
    match (rows.total_byte_size, rows.num_rows) {
        (Precision::Exact(bytes) | Precision::Inexact(bytes), _) => Some(bytes),
        (Precision::Absent, count) => count.get_value().map(|count| count.saturating_mul(64)),
    }
}

/// The same join by sorted keys, if these can be compared so.
fn sorted(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = join.left().schema();
    let is_sortable = |key: &Arc<dyn PhysicalExpr>| {
        let ty = key.data_type(&schema)?;
        let is_text = matches!(ty, DataType::Utf8View | DataType::Decimal128(..));
        Ok::<_, DataFusionError>(is_text || ty.is_integer() || ty.is_temporal())
    };
    let keys = join.on().iter().map(|(key, _)| is_sortable(key)).collect::<Result<Vec<_>>>()?;
    let is_filtered = join.filter().is_some() && *join.join_type() != JoinType::Inner;
    // A rule of DataFusion's (55.2) takes the columns of what gives the right side alone for the left one's.
    let gives_right = matches!(
        join.join_type(),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark | JoinType::LeftMark
    );
    if join.null_aware || is_filtered || gives_right || keys.is_empty() || keys.contains(&false) {
        return Ok(None);
    }
    let joined = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        None,
        *join.join_type(),
        vec![SortOptions::default(); keys.len()],
        join.null_equality(),
    );
    // Of a kind of join that there is not.
    let Ok(joined) = joined else { return Ok(None) };
    let mut joined: Arc<dyn ExecutionPlan> = Arc::new(joined);
    if let Some(filter) = join.filter() {
        // Not the join's: a rule of DataFusion's (55.2) moves columns below such a join and forgets those of its filter.
        joined = Arc::new(FilterExec::try_new(over_both(filter, schema.fields().len())?, joined)?);
    }
    let Some(projection) = &join.projection else { return Ok(Some(joined)) };
    let schema = joined.schema();
    let column = |at: &usize| {
        let name = schema.field(*at).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, *at)), alias: name.clone() }
    };
    let columns: Vec<ProjectionExpr> = projection.iter().map(column).collect();
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, joined)?)))
}

/// A condition of an inner join over the columns of both sides, of which the left one has so many.
fn over_both(filter: &JoinFilter, left: usize) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(filter.expression()).transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let of = &filter.column_indices()[column.index()];
        let at = if of.side == JoinSide::Left { of.index } else { left + of.index };
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
    });
    Ok(moved?.data)
}

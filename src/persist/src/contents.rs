//! The contents of a shard at one time, for who wants all of them soon and in whatever order: a hydration.
//!
//! What a scan finds kept by column is made rows again on some threads, each of which takes its turn with the next row group. They are
//! given in the order of the scan, so that what was sorted stays it, and nobody is further ahead than about a row group.
//!
//! # Invariants
//! * Memory is bounded by that of the scan and two row groups per thread.

use crate::error::PersistError;
use crate::inner::Inner;
use crate::scan::{ColumnRows, Scanned, ShardScan};
use crate::shard_id::ShardId;
use columns::GROUP_ROWS;
use columns::file::ROWS_AT_ONCE;
use ore::thread::give_way;
use repr::{Timestamp, Updates};
use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{JoinHandle, available_parallelism};

/// Threads at the most: who takes the rows has work of its own.
const THREADS_MAX: usize = 4;
/// Row groups that a thread has and has not made rows again, at the most.
const GROUPS_MAX: usize = 2;
/// Pieces of a row group that wait for the reader: all of it.
const PIECES_MAX: usize = GROUP_ROWS / ROWS_AT_ONCE;

/// All rows of a shard as of one time, with their multiplicities, which are never 0: an iterator of runs, none of which is empty. A row
/// may be in several. After an error it is over. Dropping it releases what it kept from being deleted.
#[derive(Debug)]
pub struct ShardContents {
    scan: ShardScan,
    /// The columns that are wanted, unless all are.
    columns: Option<Arc<BTreeSet<usize>>>,
    decoders: Vec<Decoder>,
    /// The row groups that were asked for so far.
    asked: usize,
    /// Who was asked for those that were not given yet.
    waiting: VecDeque<usize>,
    is_scanned: bool,
    is_over: bool,
}

/// A thread that makes rows again what is kept by column.
#[derive(Debug)]
struct Decoder {
    groups: SyncSender<ColumnRows>,
    told: Receiver<Told>,
    thread: JoinHandle<()>,
}

/// What a thread tells of its row groups.
#[derive(Debug)]
enum Told {
    Rows(Result<Updates, PersistError>),
    GroupIsOver,
}

impl ShardContents {
    /// Begins to read. See [`crate::PersistClient::contents`].
    pub(crate) fn open(
        inner: &Arc<Inner>,
        shard: ShardId,
        as_of: Timestamp,
        columns: Option<BTreeSet<usize>>,
    ) -> Result<ShardContents, PersistError> {
        let scan = ShardScan::open(inner, shard, as_of)?;
        let (decoders, waiting) = (Vec::new(), VecDeque::new());
        let columns = columns.map(Arc::new);
        Ok(ShardContents { scan, columns, decoders, asked: 0, waiting, is_scanned: false, is_over: false })
    }

    fn find_next(&mut self) -> Result<Option<Updates>, PersistError> {
        loop {
            while !self.is_scanned && self.waiting.len() <= self.decoders.len() {
                match self.scan.next_rows()? {
                    Some(Scanned::Rows(rows)) => return Ok(Some(rows.iter().map(|row| (row, 1)).collect())),
                    Some(Scanned::Columns(group)) => self.ask(group),
                    None => self.is_scanned = true,
                }
            }
            let Some(asked) = self.waiting.front() else { return Ok(None) };
            match self.decoders[*asked].told.recv() {
                Ok(Told::Rows(rows)) => return rows.map(Some).map_err(|error| self.scan.explained(error)),
                Ok(Told::GroupIsOver) => drop(self.waiting.pop_front()),
                Err(_) => {
                    let ended = self.decoders.swap_remove(*asked).thread.join();
                    resume_unwind(ended.expect_err("a thread tells of each row group, whatever becomes of it"));
                }
            }
        }
    }

    /// Has the next thread make rows of a row group.
    fn ask(&mut self, group: ColumnRows) {
        if self.decoders.is_empty() {
            let cores = available_parallelism().map_or(1, NonZeroUsize::get);
            let count = cores.min(THREADS_MAX).min(self.scan.group_count());
            self.decoders = (0..count).map(|_| Decoder::start(self.columns.clone())).collect();
        }
        let asked = self.asked % self.decoders.len();
        // One that has panicked says so when it is its turn.
        let _panicked = self.decoders[asked].groups.send(group);
        self.waiting.push_back(asked);
        self.asked += 1;
    }
}

impl Iterator for ShardContents {
    type Item = Result<Updates, PersistError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.find_next().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Decoder {
    fn start(columns: Option<Arc<BTreeSet<usize>>>) -> Decoder {
        let (groups, asked) = sync_channel::<ColumnRows>(GROUPS_MAX);
        let (tell, told) = sync_channel(PIECES_MAX);
        let thread = ore::thread::spawn("decode", move || {
            // Readers wait less for an index than its hydration for readers.
            give_way();
            for group in asked {
                let tell_all = match group.pieces(columns.as_ref()) {
                    Ok(mut pieces) => pieces.try_for_each(|rows| tell.send(Told::Rows(rows))),
                    Err(error) => tell.send(Told::Rows(Err(error))),
                };
                if tell_all.and_then(|()| tell.send(Told::GroupIsOver)).is_err() {
                    // Nobody wants to know any more.
                    return;
                }
            }
        });
        Decoder { groups, told, thread }
    }
}

impl Drop for ShardContents {
    fn drop(&mut self) {
        for Decoder { groups, told, thread } in self.decoders.drain(..) {
            drop((groups, told));
            // A panic has been told of.
            let _panicked = thread.join();
        }
    }
}

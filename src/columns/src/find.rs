//! Finds rows in a file without decoding more than the granules that may have them.

use crate::file::{Chunks, Fetch, File, Piece};
use crate::{Error, GRANULE_ROWS};
use repr::Timestamp;
use std::sync::Arc;

/// Finds rows that are asked for in ascending order.
#[derive(Debug)]
pub struct Finder {
    file: Arc<File>,
    /// The group that was read last.
    chunks: Option<(usize, Chunks)>,
    /// The granules that were decoded last: a row may stand in two.
    granules: Vec<(usize, Piece)>,
}

/// Where a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The row group.
    pub group: usize,
    /// The position in there.
    pub row: usize,
    /// The time of the row.
    pub time: Timestamp,
}

impl Finder {
    /// A finder of rows of a file.
    pub fn new(file: Arc<File>) -> Finder {
        Finder { file, chunks: None, granules: Vec::new() }
    }

    /// All places of a row, in their order.
    pub fn find<F: Fetch>(&mut self, from: &mut F, row: &[u8]) -> Result<Vec<Found>, F::Error> {
        let candidates = self.file.marks.candidates(row);
        self.granules.retain(|(granule, _)| candidates.contains(granule));
        let mut found = Vec::new();
        for granule in candidates {
            let group = self.file.groups().partition_point(|group| group.granules.end <= granule);
            let start = (granule - self.file.groups()[group].granules.start) * GRANULE_ROWS;
            let piece = self.granule(from, granule, group, start)?;
            let (mut low, mut high) = (0, piece.rows.num_rows());
            while low < high {
                let middle = low + (high - low) / 2;
                match piece.rows.row(middle).data() < row {
                    true => low = middle + 1,
                    false => high = middle,
                }
            }
            let same = (low..piece.rows.num_rows()).take_while(|at| piece.rows.row(*at).data() == row);
            found.extend(same.map(|at| Found { group, row: start + at, time: piece.times[at] }));
            // The next row is in the last of these, or begins as the one before it ends.
            self.granules.drain(..self.granules.len().saturating_sub(2));
        }
        Ok(found)
    }

    /// A granule's rows, which begin at `start` of its group.
    fn granule<F: Fetch>(
        &mut self,
        from: &mut F,
        granule: usize,
        group: usize,
        start: usize,
    ) -> Result<&Piece, F::Error> {
        let at = match self.granules.iter().position(|(of, _)| *of == granule) {
            Some(at) => at,
            None => {
                let piece = self.decode(from, group, start)?;
                self.granules.push((granule, piece));
                self.granules.len() - 1
            }
        };
        Ok(&self.granules[at].1)
    }

    fn decode<F: Fetch>(&mut self, from: &mut F, group: usize, start: usize) -> Result<Piece, F::Error> {
        if self.chunks.as_ref().is_none_or(|(of, _)| *of != group) {
            self.chunks = Some((group, self.file.read_whole(from, group)?));
        }
        let (_, chunks) = self.chunks.as_ref().ok_or_else(|| Error::Damaged("a group was not read".to_owned()))?;
        let end = self.file.groups()[group].rows.min(start + GRANULE_ROWS);
        Ok(self.file.decode_range(chunks, start..end)?)
    }
}

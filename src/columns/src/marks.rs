//! What a file says of itself beside Parquet's metadata, as pairs of names and texts in there: the version of all this, the
//! checksums of its chunks, the beginnings of some of its rows, and sketches of the values of its columns.

use crate::Error;
use crate::distinct::Distinct;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parquet::file::metadata::KeyValue;

/// The version that is written, and the newest that is read.
const FORMAT: u64 = 1;
/// Bytes that are kept of the beginning of a row.
const MARK_BYTES: usize = 48;

const FORMAT_KEY: &str = "glimpse.format";
const CHECKSUMS_KEY: &str = "glimpse.crc32";
const LENGTHS_KEY: &str = "glimpse.mark_lengths";
const MARKS_KEY: &str = "glimpse.marks";
/// Followed by the number of a column. Older versions of a file have none.
const DISTINCT_KEY: &str = "glimpse.distinct";

/// The beginnings of rows, ascending.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    bytes: Vec<u8>,
    /// How long each is: it is all of the row, or the most that is kept of one.
    lengths: Vec<u8>,
    ends: Vec<usize>,
}

impl Marks {
    pub(crate) fn push(&mut self, row: &[u8]) {
        let kept = &row[..row.len().min(MARK_BYTES)];
        self.bytes.extend_from_slice(kept);
        self.lengths.push(u8::try_from(kept.len()).expect("it is short"));
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.ends[at] - usize::from(self.lengths[at])..self.ends[at]]
    }

    /// Which granules may have a row: no other has it. Empty if the row is below all that are there.
    pub(crate) fn candidates(&self, row: &[u8]) -> std::ops::Range<usize> {
        let is_before = |mark: &[u8]| mark < row && !row.starts_with(mark);
        let (first, end) = (self.count(is_before), self.count(|mark| mark <= row));
        // Rows begin alike, or are there several times: the row may be at the end of what begins before it.
        first.saturating_sub(1)..end
    }

    /// How many of the marks, from the first on, are so.
    fn count(&self, is_so: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match is_so(self.get(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// What stands in the metadata.
pub(crate) fn write(checksums: &[u32], marks: &Marks, distinct: &[Option<Distinct>]) -> Vec<KeyValue> {
    let checksums: Vec<u8> = checksums.iter().flat_map(|crc| crc.to_le_bytes()).collect();
    let mut pairs = vec![
        KeyValue::new(FORMAT_KEY.to_owned(), FORMAT.to_string()),
        KeyValue::new(CHECKSUMS_KEY.to_owned(), STANDARD.encode(checksums)),
        KeyValue::new(LENGTHS_KEY.to_owned(), STANDARD.encode(&marks.lengths)),
        KeyValue::new(MARKS_KEY.to_owned(), STANDARD.encode(&marks.bytes)),
    ];
    pairs.extend(distinct.iter().enumerate().filter_map(|(column, distinct)| {
        let bytes = distinct.as_ref()?.bytes();
        Some(KeyValue::new(format!("{DISTINCT_KEY}{column}"), STANDARD.encode(bytes)))
    }));
    pairs
}

/// The sketches of so many columns that a file's metadata have.
pub(crate) fn read_distinct(pairs: &[KeyValue], columns: usize) -> Vec<Option<Distinct>> {
    let of_column = |column: usize| {
        let key = format!("{DISTINCT_KEY}{column}");
        let text = pairs.iter().find(|pair| pair.key == key)?.value.as_deref()?;
        Distinct::from_bytes(&STANDARD.decode(text).ok()?)
    };
    (0..columns).map(of_column).collect()
}

/// What a file's metadata say.
pub(crate) fn read(pairs: &[KeyValue]) -> Result<(Vec<u32>, Marks), Error> {
    let text = |key: &str| {
        let value = pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
        value.ok_or_else(|| Error::Damaged(format!("it does not say {key}")))
    };
    let bytes = |key: &str| {
        STANDARD
            .decode(text(key)?)
            .map_err(|error| Error::Damaged(format!("what it says of {key} is no base64: {error}")))
    };
    let found = text(FORMAT_KEY)?.parse().map_err(|_| Error::Damaged("its version is no number".to_owned()))?;
    if found == 0 || found > FORMAT {
        return Err(Error::Version { found, supported: FORMAT });
    }
    let checksums =
        bytes(CHECKSUMS_KEY)?.chunks_exact(4).map(|crc| u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]])).collect();
    let (marks, lengths) = (bytes(MARKS_KEY)?, bytes(LENGTHS_KEY)?);
    let ends: Vec<usize> = lengths
        .iter()
        .scan(0, |end, length| {
            *end += usize::from(*length);
            Some(*end)
        })
        .collect();
    if ends.last().copied().unwrap_or(0) != marks.len() {
        return Err(Error::Damaged("the lengths of its marks do not add up".to_owned()));
    }
    Ok((checksums, Marks { bytes: marks, lengths, ends }))
}

#[cfg(test)]
mod tests {
    use super::Marks;
    use proptest::prelude::{any, prop, prop_assert, proptest};

    proptest! {
        /// Rows are self-delimiting, so none begins with all of another: here by a last byte that no other byte is.
        #[test]
        fn a_row_is_where_its_candidates_are(
            rows in prop::collection::vec(prop::collection::vec(0_u8..3, 0..60), 1..80), granule in 1_usize..9, long in any::<bool>()) {
            let prefix = if long { vec![1; 40] } else { Vec::new() };
            let mut rows: Vec<Vec<u8>> = rows.into_iter().map(|row| [&prefix[..], &row[..], &[9]].concat()).collect();
            rows.sort();
            let mut marks = Marks::default();
            rows.chunks(granule).for_each(|rows| marks.push(&rows[0]));
            for (at, row) in rows.iter().enumerate() {
                prop_assert!(marks.candidates(row).contains(&(at / granule)), "{:?}", marks.candidates(row));
            }
        }
    }
}

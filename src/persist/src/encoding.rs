//! The durable form of a batch.
//!
//! A batch is one or more *parts*. A part is a little-endian CRC-32 followed by a protobuf message that holds rows,
//! times and diffs as columns. A small batch is one part, stored inside consensus. A large one is a *blob*, sorted by row across the
//! whole file, so that any number of blobs can be merged while one part of each is in memory: a file of the crate `columns`, where
//! all of its updates add a row once and the shape of the rows is known; otherwise a 12-byte header and then parts. Where the parts
//! of a blob begin, or where its end does that says so, is kept in consensus, in a [`BlobRef`].
//!
//! # Invariants
//! * Every durable thing names its format version, and a version from the future is refused, not guessed at.
//! * A part is decoded only after its checksum was found right, and only for the shard that it was written for.

use crate::error::PersistError;
use crate::shard_id::ShardId;
use bytes::Bytes;
use columns::file::Piece;
use columns::writer::Tail;
use prost::Message;
use repr::{Diff, Timestamp};
use std::ops::Range;

/// The version of parts, blobs and blob references that this code writes, and the newest that it reads.
pub(crate) const BATCH_FORMAT: u32 = 1;

/// The newest version of blob references, of files of columns and of lists of what has gone of them. The first knew no `time`, the
/// second has one: who knows no better must not read what came later.
const BLOB_REF_FORMAT: u32 = 3;
/// The version of references to blobs of parts that have a `time`.
const TIMED_REF_FORMAT: u32 = 2;

/// What a blob begins with, followed by its format version.
pub(crate) const BLOB_MAGIC: &[u8; 8] = b"GLMPBLOB";

/// Length of the checksum before each message.
const CRC_BYTES: usize = 4;

/// Columns of a part. Empty `ts_offsets` or `diffs` mean all zero or all one, which is what most commits are.
#[derive(Clone, PartialEq, Message)]
struct PartProto {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(uint64, tag = "2")]
    shard: u64,
    #[prost(uint64, tag = "3")]
    ts_base: u64,
    #[prost(uint64, repeated, tag = "4")]
    ts_offsets: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    row_lengths: Vec<u64>,
    #[prost(sint64, repeated, tag = "6")]
    diffs: Vec<i64>,
    #[prost(bytes = "bytes", tag = "7")]
    rows: Bytes,
}

/// What consensus keeps of a batch whose updates are in a file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct BlobRef {
    #[prost(uint32, tag = "1")]
    format: u32,
    /// The name of the file.
    #[prost(string, tag = "2")]
    pub(crate) key: String,
    /// The length of each part, checksum included, in the order in which they stand after the header.
    #[prost(uint64, repeated, tag = "3")]
    pub(crate) part_lengths: Vec<u64>,
    /// What is to be added to the times in the parts: a blob that was written before its commit has zeros.
    #[prost(uint64, tag = "4")]
    pub(crate) time: u64,
    /// Of a file of columns, which has no parts.
    #[prost(message, optional, tag = "5")]
    pub(crate) columns: Option<ColumnsRef>,
    /// Whether its only part is a list of what has gone of files of columns.
    #[prost(bool, tag = "6")]
    pub(crate) is_removals: bool,
}

/// How a file of columns ends; see [`columns::writer::Tail`].
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ColumnsRef {
    #[prost(uint64, tag = "1")]
    pub(crate) length: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) tail: u64,
    #[prost(fixed32, tag = "3")]
    pub(crate) checksum: u32,
}

impl BlobRef {
    /// To a blob of parts.
    pub(crate) fn new(key: String, part_lengths: Vec<u64>) -> BlobRef {
        BlobRef { format: BATCH_FORMAT, key, part_lengths, time: 0, columns: None, is_removals: false }
    }

    /// To a file of columns.
    pub(crate) fn to_columns(key: String, Tail { length, tail, checksum }: Tail) -> BlobRef {
        let columns = Some(ColumnsRef { length, tail, checksum });
        BlobRef { format: BLOB_REF_FORMAT, columns, ..BlobRef::new(key, Vec::new()) }
    }

    /// To a list of what has gone of files of columns, which takes so many bytes.
    pub(crate) fn to_removals(key: String, length: u64) -> BlobRef {
        BlobRef { format: BLOB_REF_FORMAT, is_removals: true, ..BlobRef::new(key, vec![length]) }
    }

    /// The same, committed at `ts`.
    pub(crate) fn at(&self, ts: Timestamp) -> BlobRef {
        BlobRef { format: self.format.max(TIMED_REF_FORMAT), time: ts, ..self.clone() }
    }

    pub(crate) fn encode_framed(&self) -> Vec<u8> {
        frame(self)
    }

    /// Decodes the reference to a blob of `shard`.
    pub(crate) fn decode_framed(shard: ShardId, bytes: &[u8]) -> Result<BlobRef, PersistError> {
        let blob: BlobRef = unframe("a blob reference", shard, Bytes::copy_from_slice(bytes))?;
        check_format("blob reference", u64::from(blob.format), u64::from(BLOB_REF_FORMAT))?;
        Ok(blob)
    }
}

/// Refuses what this version cannot read. Version 0 was never written: it means that the field is missing.
pub(crate) fn check_format(what: &'static str, found: u64, supported: u64) -> Result<(), PersistError> {
    if found == 0 || found > supported {
        return Err(PersistError::FormatVersion { what, found, supported });
    }
    Ok(())
}

/// The updates of one part, in memory. Random access by index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    ends: Vec<usize>,
    rows: Bytes,
    /// Empty if all are 1.
    diffs: Vec<Diff>,
    /// What is to be added to `time`; empty if that is nothing.
    offsets: Vec<Timestamp>,
    time: Timestamp,
}

impl Part {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn row(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.rows[start..self.ends[index]]
    }

    /// The bytes of some rows, one behind the other.
    pub(crate) fn byte_count(&self, range: &Range<usize>) -> usize {
        let end = |index: usize| if index == 0 { 0 } else { self.ends[index - 1] };
        end(range.end) - end(range.start)
    }

    pub(crate) fn ts(&self, index: usize) -> Timestamp {
        self.time.saturating_add(self.offsets.get(index).copied().unwrap_or(0))
    }

    /// The one time of all updates, if they have one.
    pub(crate) fn uniform_ts(&self) -> Option<Timestamp> {
        self.offsets.is_empty().then_some(self.time)
    }

    /// Rows that were kept by column, later by `base`.
    pub(crate) fn of_columns(piece: Piece, base: Timestamp) -> Result<Part, columns::Error> {
        let (ends, rows, times) = piece.into_parts()?;
        let time = times.first().copied().unwrap_or_default();
        let is_uniform = times.iter().all(|ts| *ts == time);
        let (offsets, time) = if is_uniform { (Vec::new(), time) } else { (times, 0) };
        Ok(Part { ends, rows: Bytes::from(rows), diffs: Vec::new(), offsets, time: time.saturating_add(base) })
    }

    /// The same updates, later.
    pub(crate) fn later(mut self, by: Timestamp) -> Part {
        self.time = self.time.saturating_add(by);
        self
    }

    pub(crate) fn diff(&self, index: usize) -> Diff {
        self.diffs.get(index).copied().unwrap_or(1)
    }

    /// Whether each update adds its row once.
    pub(crate) fn only_adds(&self) -> bool {
        self.diffs.is_empty()
    }

    /// Decodes a part that was written for `shard`.
    pub(crate) fn decode(shard: ShardId, bytes: Bytes) -> Result<Part, PersistError> {
        let proto: PartProto = unframe("a batch", shard, bytes)?;
        check_format("batch", u64::from(proto.format), u64::from(BATCH_FORMAT))?;
        let corrupt = |detail: &str| PersistError::corrupt(format!("shard {shard}"), format!("a batch: {detail}"));
        if proto.shard != shard.0 {
            return Err(corrupt("it belongs to another shard"));
        }
        let count = proto.row_lengths.len();
        let mut ends = Vec::with_capacity(count);
        let mut end = 0_usize;
        for length in &proto.row_lengths {
            let length = usize::try_from(*length).map_err(|_| corrupt("a row is longer than memory"))?;
            end = end.checked_add(length).ok_or_else(|| corrupt("rows are longer than memory"))?;
            ends.push(end);
        }
        if end != proto.rows.len() {
            return Err(corrupt("row lengths do not add up"));
        }
        let (diffs, offsets, time) = (proto.diffs, proto.ts_offsets, proto.ts_base);
        if [diffs.len(), offsets.len()].iter().any(|length| ![0, count].contains(length)) {
            return Err(corrupt("its columns differ in length"));
        }
        Ok(Part { ends, rows: proto.rows, diffs, offsets, time })
    }
}

/// Collects updates for one part.
#[derive(Debug, Default)]
pub(crate) struct PartBuilder {
    row_lengths: Vec<u64>,
    rows: Vec<u8>,
    diffs: Vec<Diff>,
    times: Vec<Timestamp>,
}

impl PartBuilder {
    pub(crate) fn push(&mut self, row: &[u8], ts: Timestamp, diff: Diff) {
        self.row_lengths.push(length_to_u64(row.len()));
        self.rows.extend_from_slice(row);
        self.times.push(ts);
        self.diffs.push(diff);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.row_lengths.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.row_lengths.len()
    }

    /// Adds all that another has.
    pub(crate) fn append(&mut self, other: PartBuilder) {
        self.row_lengths.extend(other.row_lengths);
        self.rows.extend_from_slice(&other.rows);
        self.diffs.extend(other.diffs);
        self.times.extend(other.times);
    }

    /// Roughly the length of the encoded part, a little more if rows are short.
    pub(crate) fn encoded_bytes_estimate(&self) -> usize {
        estimate_encoded_bytes(self.row_lengths.len(), self.rows.len())
    }

    /// Encodes what was collected.
    pub(crate) fn encode(self, shard: ShardId) -> Vec<u8> {
        let PartBuilder { row_lengths, rows, diffs, times } = self;
        let ts_base = times.iter().copied().min().unwrap_or_default();
        let uniform_time = times.iter().all(|ts| *ts == ts_base);
        let all_inserts = diffs.iter().all(|diff| *diff == 1);
        frame(&PartProto {
            format: BATCH_FORMAT,
            shard: shard.0,
            ts_base,
            ts_offsets: if uniform_time { Vec::new() } else { times.iter().map(|ts| ts - ts_base).collect() },
            row_lengths,
            diffs: if all_inserts { Vec::new() } else { diffs },
            rows: Bytes::from(rows),
        })
    }

    /// Hands over what was collected without encoding it.
    pub(crate) fn into_part(self) -> Part {
        let mut end = 0;
        let ends = self
            .row_lengths
            .iter()
            .map(|length| {
                end += usize::try_from(*length).expect("it was a usize when it was pushed");
                end
            })
            .collect();
        let diffs = if self.diffs.iter().all(|diff| *diff == 1) { Vec::new() } else { self.diffs };
        Part { ends, rows: Bytes::from(self.rows), diffs, offsets: self.times, time: 0 }
    }
}

/// What `count` updates with `row_bytes` bytes of rows will take when encoded.
pub(crate) fn estimate_encoded_bytes(count: usize, row_bytes: usize) -> usize {
    // One or two bytes of length, one or two of diff and of time where they are not constant.
    32 + row_bytes + count * 4
}

/// `usize` is never wider than 64 bits on a machine that this runs on.
pub(crate) fn length_to_u64(length: usize) -> u64 {
    u64::try_from(length).expect("lengths fit into 64 bits")
}

pub(crate) fn frame(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(CRC_BYTES + message.encoded_len());
    bytes.extend_from_slice(&[0; CRC_BYTES]);
    message.encode(&mut bytes).expect("a vector grows as needed");
    let crc = crc32fast::hash(&bytes[CRC_BYTES..]);
    bytes[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
    bytes
}

pub(crate) fn unframe<M: Message + Default>(what: &str, shard: ShardId, mut bytes: Bytes) -> Result<M, PersistError> {
    let corrupt = |detail: &str| PersistError::corrupt(format!("shard {shard}"), format!("{what}: {detail}"));
    if bytes.len() < CRC_BYTES {
        return Err(corrupt("it is too short"));
    }
    let message = bytes.split_off(CRC_BYTES);
    if crc32fast::hash(&message).to_le_bytes() != *bytes {
        return Err(corrupt("its checksum does not match"));
    }
    M::decode(message).map_err(|error| corrupt(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};

    fn updates() -> impl Strategy<Value = Vec<(Vec<u8>, Timestamp, Diff)>> {
        let row = prop::collection::vec(any::<u8>(), 0..20);
        prop::collection::vec((row, 0_u64..1 << 60, any::<i64>()), 0..50)
    }

    proptest! {
        #[test]
        fn parts_round_trip_and_notice_any_flipped_bit(updates in updates(), bit in any::<prop::sample::Index>()) {
            let mut builder = PartBuilder::default();
            for (row, ts, diff) in &updates {
                builder.push(row, *ts, *diff);
            }
            let mut encoded = builder.encode(ShardId(7));
            let part = Part::decode(ShardId(7), Bytes::from(encoded.clone())).expect("it was just encoded");
            let decoded: Vec<_> =
                (0..part.len()).map(|i| (part.row(i).to_vec(), part.ts(i), part.diff(i))).collect();
            prop_assert_eq!(decoded, updates);
            assert!(Part::decode(ShardId(8), Bytes::from(encoded.clone())).is_err());

            let bit = bit.index(encoded.len() * 8);
            encoded[bit / 8] ^= 1 << (bit % 8);
            assert!(Part::decode(ShardId(7), Bytes::from(encoded)).is_err());
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let future = frame(&PartProto { format: BATCH_FORMAT + 1, shard: 7, ..PartProto::default() });
        let error = Part::decode(ShardId(7), Bytes::from(future)).expect_err("it is from the future");
        assert_eq!(error.to_string(), "batch has format version 2, this version reads 1");
        let future = frame(&BlobRef { format: 9, ..BlobRef::default() });
        assert!(matches!(
            BlobRef::decode_framed(ShardId(7), &future),
            Err(PersistError::FormatVersion { found: 9, .. })
        ));
    }
}

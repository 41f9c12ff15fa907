//! Which rows of files of columns have gone: by the batch of the file, the positions of the rows and when they went.
//!
//! A file is never changed, so what has gone of it stands beside it, in a batch of its own. Who reads the file leaves those rows out;
//! who rewrites it rewrites the list with it.
//!
//! # Invariants
//! * The file of every position is there, and no position is in two lists: each counts for one row.
//! * No row goes before it comes.

use crate::encoding::{check_format, frame, unframe};
use crate::error::PersistError;
use crate::shard_id::ShardId;
use bytes::Bytes;
use prost::Message;
use repr::Timestamp;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// The version of lists that this code writes, and the newest that it reads.
const FORMAT: u32 = 1;

/// A row that has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Gone {
    /// Its position in the file.
    pub(crate) at: u64,
    /// When it went.
    pub(crate) ts: Timestamp,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Removals {
    /// By the key of the batch that is the file; positions ascend.
    files: BTreeMap<u64, Arc<Vec<Gone>>>,
}

#[derive(Clone, PartialEq, Message)]
struct RemovalsProto {
    #[prost(uint32, tag = "1")]
    format: u32,
    #[prost(uint64, tag = "2")]
    shard: u64,
    #[prost(message, repeated, tag = "3")]
    files: Vec<FileProto>,
}

/// Positions as differences; empty `ts_offsets` mean all zero.
#[derive(Clone, PartialEq, Message)]
struct FileProto {
    #[prost(uint64, tag = "1")]
    seq: u64,
    #[prost(uint64, repeated, tag = "2")]
    steps: Vec<u64>,
    #[prost(uint64, tag = "3")]
    ts_base: u64,
    #[prost(uint64, repeated, tag = "4")]
    ts_offsets: Vec<u64>,
}

impl Removals {
    /// Adds what another says of those files that are wanted.
    pub(crate) fn add(&mut self, other: &Removals, is_wanted: impl Fn(u64) -> bool) {
        let wanted = other.files.iter().filter(|(seq, _)| is_wanted(**seq));
        for (seq, gone) in wanted {
            match self.files.entry(*seq) {
                // Of most files one list says it all.
                Entry::Vacant(vacant) => drop(vacant.insert(Arc::clone(gone))),
                Entry::Occupied(_) => self.add_to(*seq, gone),
            }
        }
    }

    /// Adds rows that have gone of a file.
    pub(crate) fn add_to(&mut self, seq: u64, gone: &[Gone]) {
        if !gone.is_empty() {
            let of = Arc::make_mut(self.files.entry(seq).or_default());
            of.extend(gone);
            of.sort_unstable();
        }
    }

    /// What has gone of a file.
    pub(crate) fn of_file(&self, seq: u64) -> Arc<Vec<Gone>> {
        self.files.get(&seq).cloned().unwrap_or_default()
    }

    /// How many rows have gone.
    pub(crate) fn len(&self) -> usize {
        self.files.values().map(|gone| gone.len()).sum()
    }

    /// When the last one went.
    pub(crate) fn ts_max(&self) -> Timestamp {
        self.files.values().flat_map(|gone| gone.iter()).map(|gone| gone.ts).max().unwrap_or(0)
    }

    pub(crate) fn encode(&self, shard: ShardId) -> Vec<u8> {
        let file = |(seq, gone): (&u64, &Arc<Vec<Gone>>)| {
            let ts_base = gone.iter().map(|gone| gone.ts).min().unwrap_or(0);
            let is_uniform = gone.iter().all(|gone| gone.ts == ts_base);
            let before = std::iter::once(0).chain(gone.iter().map(|gone| gone.at));
            FileProto {
                seq: *seq,
                steps: gone.iter().zip(before).map(|(gone, before)| gone.at - before).collect(),
                ts_base,
                ts_offsets: if is_uniform { Vec::new() } else { gone.iter().map(|gone| gone.ts - ts_base).collect() },
            }
        };
        frame(&RemovalsProto { format: FORMAT, shard: shard.0, files: self.files.iter().map(file).collect() })
    }

    /// Decodes a list that was written for `shard`.
    pub(crate) fn decode(shard: ShardId, bytes: Bytes) -> Result<Removals, PersistError> {
        let corrupt =
            |detail: &str| PersistError::corrupt(format!("shard {shard}"), format!("a list of removals: {detail}"));
        let proto: RemovalsProto = unframe("a list of removals", shard, bytes)?;
        check_format("list of removals", u64::from(proto.format), u64::from(FORMAT))?;
        if proto.shard != shard.0 {
            return Err(corrupt("it belongs to another shard"));
        }
        let mut files = BTreeMap::new();
        for FileProto { seq, steps, ts_base, ts_offsets } in proto.files {
            if ![0, steps.len()].contains(&ts_offsets.len()) {
                return Err(corrupt("its columns differ in length"));
            }
            let mut at = 0_u64;
            let mut gone = Vec::with_capacity(steps.len());
            for (index, step) in steps.iter().enumerate() {
                let offset = ts_offsets.get(index).copied().unwrap_or(0);
                if index > 0 && *step == 0 {
                    return Err(corrupt("a row has gone twice"));
                }
                at = at.checked_add(*step).ok_or_else(|| corrupt("a position is beyond all"))?;
                gone.push(Gone { at, ts: ts_base.saturating_add(offset) });
            }
            files.insert(seq, Arc::new(gone));
        }
        Ok(Removals { files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    proptest! {
        #[test]
        fn lists_round_trip_and_notice_any_flipped_bit(
            files in prop::collection::btree_map(any::<u64>(), prop::collection::btree_map(0..1_u64 << 40, 0..1_u64 << 60, 1..40), 0..4),
            bit in any::<prop::sample::Index>()) {
            let mut removals = Removals::default();
            for (seq, gone) in &files {
                let gone: Vec<Gone> = gone.iter().rev().map(|(at, ts)| Gone { at: *at, ts: *ts }).collect();
                removals.add_to(*seq, &gone);
            }
            let mut encoded = removals.encode(ShardId(7));
            let decoded = Removals::decode(ShardId(7), Bytes::from(encoded.clone())).expect("it was just encoded");
            prop_assert_eq!(&decoded, &removals);
            prop_assert_eq!(decoded.len(), files.values().map(BTreeMap::len).sum::<usize>());
            assert!(Removals::decode(ShardId(8), Bytes::from(encoded.clone())).is_err());
            let bit = bit.index(encoded.len() * 8);
            encoded[bit / 8] ^= 1 << (bit % 8);
            assert!(Removals::decode(ShardId(7), Bytes::from(encoded)).is_err());
        }
    }
}

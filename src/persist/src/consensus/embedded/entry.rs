//! A transaction as the journal holds it: one protobuf message. Its version is that of the database's schema, which goes up whenever
//! an older version would not read an entry, or would read it as something else.

use super::super::{BatchRow, Payload, Txn};
use crate::error::PersistError;
use crate::shard_id::ShardId;
use bytes::Bytes;
use prost::Message;

/// The parts of a [`Txn`], in its order. The epoch is not one of them: a journal is of one epoch.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Entry {
    #[prost(message, repeated, tag = "1")]
    create: Vec<Since>,
    #[prost(message, repeated, tag = "2")]
    insert: Vec<Batch>,
    #[prost(uint64, repeated, tag = "3")]
    delete: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    since: Vec<Since>,
    #[prost(fixed64, repeated, tag = "5")]
    drop: Vec<u64>,
    #[prost(message, repeated, tag = "6")]
    meta: Vec<Meta>,
    #[prost(uint64, optional, tag = "7")]
    upper: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Since {
    #[prost(fixed64, tag = "1")]
    shard: u64,
    #[prost(uint64, tag = "2")]
    since: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Batch {
    #[prost(uint64, tag = "1")]
    seq: u64,
    #[prost(fixed64, tag = "2")]
    shard: u64,
    #[prost(uint64, tag = "3")]
    ts_max: u64,
    #[prost(sint64, tag = "4")]
    rows: i64,
    #[prost(uint64, tag = "5")]
    update_count: u64,
    #[prost(uint64, tag = "6")]
    bytes: u64,
    #[prost(bool, tag = "7")]
    is_blob: bool,
    #[prost(bytes = "bytes", tag = "8")]
    payload: Bytes,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct Meta {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "bytes", optional, tag = "2")]
    value: Option<Bytes>,
}

pub(super) fn encode(txn: &Txn<'_>) -> Vec<u8> {
    let since = |(shard, since): &(ShardId, u64)| Since { shard: shard.0, since: *since };
    let entry = Entry {
        create: txn.create.iter().map(since).collect(),
        insert: txn.insert.iter().map(Batch::of).collect(),
        delete: txn.delete.clone(),
        since: txn.since.iter().map(since).collect(),
        drop: txn.drop.iter().map(|shard| shard.0).collect(),
        meta: txn.meta.iter().map(|(key, value)| Meta::of(key, *value)).collect(),
        upper: txn.upper,
    };
    entry.encode_to_vec()
}

pub(super) fn decode(bytes: Bytes) -> Result<Entry, PersistError> {
    Entry::decode(bytes).map_err(|error| PersistError::corrupt("the journal", error.to_string()))
}

impl Entry {
    /// The transaction that it is of.
    pub(super) fn txn(&self, epoch: u64) -> Txn<'_> {
        let since = |since: &Since| (ShardId(since.shard), since.since);
        Txn {
            epoch,
            create: self.create.iter().map(since).collect(),
            insert: self.insert.iter().map(Batch::row).collect(),
            delete: self.delete.clone(),
            since: self.since.iter().map(since).collect(),
            drop: self.drop.iter().copied().map(ShardId).collect(),
            meta: self.meta.iter().map(|meta| (meta.key.as_str(), meta.value.as_deref())).collect(),
            upper: self.upper,
        }
    }
}

impl Batch {
    fn of(row: &BatchRow<Vec<u8>>) -> Batch {
        let (is_blob, payload) = match &row.payload {
            Payload::Inline(payload) => (false, payload),
            Payload::Blob(reference) => (true, reference),
        };
        Batch {
            seq: row.seq,
            shard: row.shard.0,
            ts_max: row.ts_max,
            rows: row.rows,
            update_count: row.update_count,
            bytes: row.bytes,
            is_blob,
            payload: Bytes::copy_from_slice(payload),
        }
    }

    fn row(&self) -> BatchRow<Vec<u8>> {
        let payload = self.payload.to_vec();
        BatchRow {
            seq: self.seq,
            shard: ShardId(self.shard),
            ts_max: self.ts_max,
            rows: self.rows,
            update_count: self.update_count,
            bytes: self.bytes,
            payload: if self.is_blob { Payload::Blob(payload) } else { Payload::Inline(payload) },
        }
    }
}

impl Meta {
    fn of(key: &str, value: Option<&[u8]>) -> Meta {
        Meta { key: key.to_owned(), value: value.map(Bytes::copy_from_slice) }
    }
}

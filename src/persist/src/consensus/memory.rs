//! Consensus in memory, for simulations: nothing of it outlasts the process, and each clone is the same store.

use super::{BatchRow, Consensus, Loaded, Payload, Txn};
use crate::error::PersistError;
use crate::shard_id::ShardId;
use parking_lot::Mutex;
use repr::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MemoryConsensus(Arc<Mutex<Stored>>);

#[derive(Clone, Debug, Default)]
struct Stored {
    epoch: u64,
    upper: Timestamp,
    shards: BTreeMap<ShardId, Timestamp>,
    batches: BTreeMap<u64, BatchRow<Arc<[u8]>>>,
    meta: BTreeMap<String, Arc<[u8]>>,
}

impl MemoryConsensus {
    /// Another store that begins with what is in this one.
    pub fn copy(&self) -> MemoryConsensus {
        MemoryConsensus(Arc::new(Mutex::new(self.0.lock().clone())))
    }
}

impl Consensus for MemoryConsensus {
    fn fence(&self) -> Result<u64, PersistError> {
        let mut stored = self.0.lock();
        stored.epoch += 1;
        Ok(stored.epoch)
    }

    fn load(&self) -> Result<Loaded, PersistError> {
        let stored = self.0.lock();
        let latest = stored.batches.values().map(|batch| batch.ts_max + 1).max();
        Ok(Loaded {
            upper: stored.upper.max(latest.unwrap_or(0)),
            shards: stored.shards.iter().map(|(shard, since)| (*shard, *since)).collect(),
            batches: stored.batches.values().map(|batch| with_payload(batch, |_| ())).collect(),
        })
    }

    fn transact(&self, txn: &Txn<'_>) -> Result<(), PersistError> {
        let mut stored = self.0.lock();
        if stored.epoch != txn.epoch {
            return Err(PersistError::Fenced { ours: txn.epoch, current: stored.epoch });
        }
        if let Some(taken) = txn.insert.iter().find(|batch| stored.batches.contains_key(&batch.seq)) {
            let source = format!("there is a batch {} already", taken.seq).into();
            return Err(PersistError::Determinate { context: "adding a batch", source });
        }
        stored.shards.extend(txn.create.iter().copied());
        for batch in &txn.insert {
            stored.batches.insert(batch.seq, with_payload(batch, |bytes| bytes.as_slice().into()));
        }
        for seq in &txn.delete {
            stored.batches.remove(seq);
        }
        for (shard, since) in &txn.since {
            stored.shards.entry(*shard).and_modify(|stored| *stored = *since);
        }
        for shard in &txn.drop {
            stored.shards.remove(shard);
        }
        for (key, value) in &txn.meta {
            stored.meta.remove(*key);
            stored.meta.extend(value.map(|value| ((*key).to_owned(), value.into())));
        }
        stored.upper = stored.upper.max(txn.upper.unwrap_or(0));
        Ok(())
    }

    fn payloads(&self, seqs: &[u64]) -> Result<Vec<Option<Vec<u8>>>, PersistError> {
        let stored = self.0.lock();
        let payload = |seq| match stored.batches.get(seq).map(|batch| &batch.payload) {
            Some(Payload::Inline(bytes)) => Some(bytes.to_vec()),
            Some(Payload::Blob(_)) | None => None,
        };
        Ok(seqs.iter().map(payload).collect())
    }

    fn meta_get(&self, key: &str) -> Result<Option<Vec<u8>>, PersistError> {
        Ok(self.0.lock().meta.get(key).map(|value| value.to_vec()))
    }

    fn meta_scan(&self, prefix: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>, PersistError> {
        let stored = self.0.lock();
        let from = stored.meta.range(prefix.to_owned()..);
        let with_prefix = from.take_while(|(key, _)| key.starts_with(prefix)).take(limit);
        Ok(with_prefix.map(|(key, value)| (key.clone(), value.to_vec())).collect())
    }

    fn maintain(&self) -> Result<(), PersistError> {
        Ok(())
    }
}

fn with_payload<P, Q>(batch: &BatchRow<P>, of: impl FnOnce(&P) -> Q) -> BatchRow<Q> {
    BatchRow {
        seq: batch.seq,
        shard: batch.shard,
        ts_max: batch.ts_max,
        rows: batch.rows,
        update_count: batch.update_count,
        bytes: batch.bytes,
        payload: match &batch.payload {
            Payload::Inline(bytes) => Payload::Inline(of(bytes)),
            Payload::Blob(reference) => Payload::Blob(reference.clone()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryConsensus;
    use crate::consensus::contract;

    #[test]
    fn passes_the_contract() {
        let store = MemoryConsensus::default();
        contract(&|| Box::new(store.clone()));
    }
}

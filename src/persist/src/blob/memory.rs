//! Objects in memory, for simulations: nothing of them outlasts the process, and each clone is the same store.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::blob::store::{Object, ObjectStore, Upload};
use crate::error::PersistError;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct MemoryObjects(Arc<Mutex<BTreeMap<String, Bytes>>>);

#[derive(Debug)]
struct MemoryUpload {
    objects: MemoryObjects,
    name: String,
    contents: Vec<u8>,
}

impl ObjectStore for MemoryObjects {
    fn address(&self) -> String {
        "memory".to_owned()
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, PersistError> {
        Ok(self.0.lock().keys().filter(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn Upload>, PersistError> {
        Ok(Box::new(MemoryUpload { objects: self.clone(), name: name.to_owned(), contents: Vec::new() }))
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn Object>>, PersistError> {
        Ok(self.0.lock().get(name).cloned().map(|contents| Box::new(contents) as Box<dyn Object>))
    }

    fn delete(&self, name: &str) -> Result<(), PersistError> {
        self.0.lock().remove(name);
        Ok(())
    }

    /// What was begun is in its upload alone.
    fn forget_unfinished(&self, _prefix: &str) -> Result<(), PersistError> {
        Ok(())
    }
}

impl Upload for MemoryUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), PersistError> {
        self.contents.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), PersistError> {
        self.objects.0.lock().insert(self.name, self.contents.into());
        Ok(())
    }
}

impl Object for Bytes {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read(&mut self, offset: u64, length: usize) -> Result<Bytes, PersistError> {
        let start = usize::try_from(offset).expect("what is in memory is addressed by a word");
        Ok(self.slice(start..start + length))
    }
}

#[cfg(test)]
mod tests {
    use super::MemoryObjects;
    use crate::blob::store::contract;

    #[test]
    fn passes_the_contract() {
        let store = MemoryObjects::default();
        contract(&|| Box::new(store.clone()));
    }
}

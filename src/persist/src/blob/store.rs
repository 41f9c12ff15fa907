//! Where blobs are kept: named, immutable objects, in a directory or in an object store.
//!
//! # Laws
//! 1. What [`Upload::finish`] or [`ObjectStore::put`] returned `Ok` for is found whole by every later open, whatever happens
//!    to the process. Before, nothing is found under that name.
//! 2. An object that was opened is read as it was written, or not at all.
//! 3. An upload that was dropped, or whose process died, is never found as an object.

use std::fmt::Debug;

use bytes::Bytes;

use crate::error::PersistError;

/// A store of objects. Names are relative to it, with `/` between their parts. Calls block, and try again for a while what may
/// pass.
pub trait ObjectStore: Debug + Send + Sync {
    /// Where it is, for logs and errors: no secrets.
    fn address(&self) -> String;

    /// The names of all objects that begin with `prefix`, which is empty or ends with `/`; of a directory, also what was begun
    /// and never finished.
    fn list(&self, prefix: &str) -> Result<Vec<String>, PersistError>;

    /// Writes an object in one piece.
    fn put(&self, name: &str, contents: &[u8]) -> Result<(), PersistError> {
        let mut upload = self.create(name)?;
        upload.write(contents)?;
        upload.finish()
    }

    /// Begins an object.
    fn create(&self, name: &str) -> Result<Box<dyn Upload>, PersistError>;

    /// Opens an object; `None` if there is none of that name.
    fn open(&self, name: &str) -> Result<Option<Box<dyn Object>>, PersistError>;

    /// Removes an object, if it is there.
    fn delete(&self, name: &str) -> Result<(), PersistError>;

    /// Forgets what was begun under `prefix` by processes that have died. Nobody else may be writing there.
    fn forget_unfinished(&self, prefix: &str) -> Result<(), PersistError>;
}

/// An object being written.
pub trait Upload: Debug + Send {
    /// Appends bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<(), PersistError>;

    /// Makes the object durable under its name.
    fn finish(self: Box<Self>) -> Result<(), PersistError>;
}

/// An object that can be read.
pub trait Object: Debug + Send {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// `length` bytes from `offset`, all of which exist.
    fn read(&mut self, offset: u64, length: usize) -> Result<Bytes, PersistError>;
}

/// The contract: `open` opens the same store again each time, empty at first.
#[cfg(test)]
pub(crate) fn contract(open: &dyn Fn() -> Box<dyn ObjectStore>) {
    let store = open();
    assert_eq!(store.list("").expect("works"), Vec::<String>::new());
    assert!(store.open("blobs/a").expect("works").is_none());
    store.delete("blobs/a").expect("what is not there is removed");

    // Whole objects, small and large: more than a store sends at once.
    store.put("marker", b"text").expect("works");
    let large: Vec<u8> = (0..21_000_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let mut upload = store.create("blobs/large").expect("works");
    for piece in large.chunks(1_000_003) {
        upload.write(piece).expect("works");
    }
    assert!(store.open("blobs/large").expect("works").is_none(), "it is not finished");
    upload.finish().expect("works");
    store.put("blobs/odd name+%&", b"x").expect("works");
    store.put("blobs/empty", b"").expect("works");

    // Found by others, from any offset.
    let other = open();
    let mut names = other.list("blobs/").expect("works");
    names.sort();
    assert_eq!(names, ["blobs/empty", "blobs/large", "blobs/odd name+%&"]);
    assert_eq!(other.list("").expect("works").len(), 4);
    assert_eq!(other.open("blobs/empty").expect("works").expect("there").length(), 0);
    let mut object = other.open("blobs/large").expect("works").expect("there");
    assert_eq!(object.length(), 21_000_000);
    for (offset, length) in [(0, 12), (12, 5_000_000), (5_000_012, 10), (20_999_999, 1), (3, 7)] {
        let read = object.read(offset as u64, length).expect("works");
        assert!(read == large[offset..offset + length], "{length} bytes from {offset}");
    }
    assert_eq!(&other.open("marker").expect("works").expect("there").read(0, 4).expect("works")[..], b"text");

    // What was given up is not found, nor what was begun by somebody who is gone.
    let mut given_up = store.create("blobs/given-up").expect("works");
    given_up.write(&large[..9_000_000]).expect("works");
    drop(given_up);
    let mut torn = store.create("blobs/torn").expect("works");
    torn.write(&large[..9_000_000]).expect("works");
    std::mem::forget(torn);
    assert!(store.open("blobs/given-up").expect("works").is_none());
    assert!(store.open("blobs/torn").expect("works").is_none());
    open().forget_unfinished("blobs/").expect("works");
    assert_eq!(open().list("blobs/").expect("works").len(), 3);

    // What is overwritten has one content, what is removed is gone.
    store.put("marker", b"other").expect("works");
    assert_eq!(store.open("marker").expect("works").expect("there").length(), 5);
    store.delete("blobs/large").expect("works");
    assert!(other.open("blobs/large").expect("works").is_none());
    assert_eq!(store.list("blobs/").expect("works").len(), 2);
}

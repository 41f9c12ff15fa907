//! Whose blobs a shared store has.
//!
//! Processes that share a consensus store share the blobs beside it, and whoever opens them removes what consensus does not refer
//! to. With another consensus store that would be all of them. So a marker says of which they are.
//!
//! A shared store is not locked. What a former owner still does there harms nobody: the names of its blobs hold its epoch, and no
//! blob of an earlier epoch is referred to any more unless it was when the new one began.

use crate::blob::store::ObjectStore;
use crate::encoding::check_format;
use crate::error::PersistError;

/// The version of the marker and of the names beside it.
const FORMAT: u64 = 1;

const MARKER: &str = "glimpse-blobs";
const PREFIX: &str = "Glimpse blobs, format ";

/// The longest marker that is read.
const MARKER_BYTES_MAX: u64 = 1 << 10;

/// What may be in a directory that nobody has used.
const IGNORED: [&str; 2] = ["glimpse-blobs.tmp", "lost+found/"];

/// Makes sure that `blobs` are those of the consensus store `store`; one that `may_be_new` takes an empty store for its own.
pub(crate) fn claim(blobs: &dyn ObjectStore, store: u64, may_be_new: bool) -> Result<(), PersistError> {
    let other = || PersistError::OtherStore { dir: blobs.address() };
    let text = format!("{PREFIX}{FORMAT}, store {store:016x}\n");
    match blobs.open(MARKER)? {
        Some(mut marker) => {
            let length = usize::try_from(marker.length().min(MARKER_BYTES_MAX)).expect("it is small");
            let found = String::from_utf8_lossy(&marker.read(0, length)?).into_owned();
            let version = found.strip_prefix(PREFIX).and_then(|rest| rest.split_once(',')?.0.parse().ok());
            let version = version.ok_or_else(|| PersistError::corrupt(MARKER, "its text is not ours"))?;
            check_format("blob store", version, FORMAT)?;
            if found == text { Ok(()) } else { Err(other()) }
        }
        None if !may_be_new => Err(other()),
        None => {
            let is_foreign = |name: &String| !IGNORED.iter().any(|ignored| name.starts_with(ignored));
            if blobs.list("")?.iter().any(is_foreign) {
                return Err(PersistError::NotADataDirectory { dir: blobs.address() });
            }
            blobs.put(MARKER, text.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::directory;

    #[test]
    fn a_store_has_the_blobs_of_one_consensus() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let blobs = directory(dir.path()).expect("it exists");
        assert!(matches!(claim(blobs.as_ref(), 1, false), Err(PersistError::OtherStore { .. })));
        claim(blobs.as_ref(), 1, true).expect("it is empty");
        claim(blobs.as_ref(), 1, false).expect("it is ours");
        for may_be_new in [false, true] {
            assert!(matches!(claim(blobs.as_ref(), 2, may_be_new), Err(PersistError::OtherStore { .. })));
        }
        blobs.put(MARKER, b"Glimpse blobs, format 2, whatever\n").expect("writable");
        let error = claim(blobs.as_ref(), 1, true).expect_err("it is from the future");
        assert_eq!(error.to_string(), "blob store has format version 2, this version reads 1");
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let blobs = directory(dir.path()).expect("it exists");
        blobs.put("thesis.txt", b"precious").expect("writable");
        assert!(matches!(claim(blobs.as_ref(), 1, true), Err(PersistError::NotADataDirectory { .. })));
    }
}

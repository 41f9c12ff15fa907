//! The value of a secret.

use std::fmt;
use std::sync::Arc;

/// Bytes that no debugging output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretBytes(Arc<[u8]>);

impl SecretBytes {
    /// Keeps bytes.
    pub fn new(bytes: Vec<u8>) -> SecretBytes {
        SecretBytes(bytes.into())
    }

    /// The bytes.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

//! Identity of collections, never reused.

use std::fmt;

/// The id of a collection: `s` for what the system ships with, `u` for what users create, `t` for what lives no longer than
/// a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GlobalId {
    /// An object that the system ships with.
    System(u64),
    /// An object that a user created.
    User(u64),
    /// What a statement maintains for as long as it runs; in no catalog.
    Transient(u64),
}

/// The bit that tells transient ids.
const TRANSIENT: u64 = 1 << 63;

impl GlobalId {
    /// Encodes the id in one word: system ids are even, user ids odd, transient ones have the highest bit set.
    pub fn to_u64(self) -> u64 {
        match self {
            GlobalId::System(n) => n << 1,
            GlobalId::User(n) => (n << 1) | 1,
            GlobalId::Transient(n) => n | TRANSIENT,
        }
    }

    /// The inverse of [`GlobalId::to_u64`].
    pub fn from_u64(word: u64) -> GlobalId {
        match word & 1 {
            _ if word & TRANSIENT != 0 => GlobalId::Transient(word & !TRANSIENT),
            0 => GlobalId::System(word >> 1),
            _ => GlobalId::User(word >> 1),
        }
    }
}

impl fmt::Display for GlobalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GlobalId::System(n) => write!(f, "s{n}"),
            GlobalId::User(n) => write!(f, "u{n}"),
            GlobalId::Transient(n) => write!(f, "t{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GlobalId;

    #[test]
    fn words_round_trip() {
        let users = [GlobalId::User(0), GlobalId::User(1 << 40), GlobalId::Transient(0), GlobalId::Transient(7)];
        for id in users.into_iter().chain([GlobalId::System(0), GlobalId::System(7)]) {
            assert_eq!(GlobalId::from_u64(id.to_u64()), id);
        }
    }
}

//! Identity of catalog objects, never reused.

use std::fmt;

/// The id of a catalog object: `s` for what the system ships with, `u` for what users create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GlobalId {
    /// An object that the system ships with.
    System(u64),
    /// An object that a user created.
    User(u64),
}

impl GlobalId {
    /// Encodes the id in one word: system ids are even, user ids odd.
    pub fn to_u64(self) -> u64 {
        match self {
            GlobalId::System(n) => n << 1,
            GlobalId::User(n) => (n << 1) | 1,
        }
    }

    /// The inverse of [`GlobalId::to_u64`].
    pub fn from_u64(word: u64) -> GlobalId {
        match word & 1 {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GlobalId;

    #[test]
    fn words_round_trip() {
        for id in [GlobalId::System(0), GlobalId::System(7), GlobalId::User(0), GlobalId::User(1 << 40)] {
            assert_eq!(GlobalId::from_u64(id.to_u64()), id);
        }
    }
}

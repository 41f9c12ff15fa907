//! Passwords in statements. They are in memory for as long as their statement is, and nowhere else.

use std::fmt;

/// Text that no debugging output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// PASSWORD of CREATE and ALTER ROLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewPassword {
    /// NULL: none.
    Null,
    /// The password, or its verifier.
    Text(Secret),
}

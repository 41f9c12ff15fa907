//! Passwords and secrets in statements, where no debugging output shows them.

use crate::names::Name;
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

/// CREATE SECRET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSecret {
    /// Its name.
    pub name: Name,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Its value.
    pub value: SecretValue,
}

/// ALTER SECRET … AS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterSecret {
    /// Its name.
    pub name: Name,
    /// IF EXISTS.
    pub if_exists: bool,
    /// Its new value.
    pub value: SecretValue,
}

/// The value of a secret, as a statement has it: `'text'`, or `decode('text', 'encoding')`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretValue {
    /// The text.
    pub text: Secret,
    /// How it stands for bytes; as it does in a literal of type bytea, unless something is said.
    pub encoding: Option<String>,
}

//! The parameters of a statement.

use engine::error::SqlError;
use repr::PgType;
use repr::sqlstate::SqlState;

/// The parameters `$1`, `$2`, … of a statement: declared by the client or inferred from their context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// The type of each, as far as it is known.
    pub types: Vec<Option<PgType>>,
    /// Whether the statement may use parameters at all.
    pub allowed: bool,
}

impl Params {
    /// No parameters: `$1` is 42P02.
    pub fn none() -> Params {
        Params { types: Vec::new(), allowed: false }
    }

    /// Parameters with the declared types; further ones are inferred.
    pub fn declared(types: Vec<Option<PgType>>) -> Params {
        Params { types, allowed: true }
    }

    /// The types of all parameters once a statement is planned; 42P18 when one could not be determined.
    pub fn finish(&self) -> Result<Vec<PgType>, SqlError> {
        self.types
            .iter()
            .enumerate()
            .map(|(i, ty)| {
                ty.clone().ok_or_else(|| {
                    SqlError::new(
                        SqlState::INDETERMINATE_DATATYPE,
                        format!("could not determine data type of parameter ${}", i + 1),
                    )
                })
            })
            .collect()
    }
}

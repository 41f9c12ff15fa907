//! Names of types.

use super::Answer;
use crate::builtin::shipped::data;
use crate::builtin::text;
use engine::error::SqlError;
use pgrepr::types;
use repr::datum::Datum;
use repr::types::PgType;

/// `format_type`: the name with the modifier; NULL for the modifier asks for the bare name.
pub(super) fn format_type(oid: u32, typmod: Option<&Datum<'_>>) -> Answer {
    let typmod = match typmod {
        Some(Datum::Int4(typmod)) => Some(*typmod),
        _ => None,
    };
    Ok(text(match (types::from_oid_and_typmod(oid, typmod.unwrap_or(-1)), typmod) {
        _ if oid == 0 => "-".to_owned(),
        // Without a length it is not `character`, which would mean one character.
        (Some(PgType::Bpchar(None)), Some(_)) => "bpchar".to_owned(),
        (Some(ty), _) => ty.to_string(),
        (None, _) => pseudo_type(oid).to_owned(),
    }))
}

/// Types that only occur in the signatures of `pg_proc`.
const PSEUDO_TYPES: [(u32, &str); 11] = [
    (269, "table_am_handler"),
    (325, "index_am_handler"),
    (1263, "cstring[]"),
    (2275, "cstring"),
    (2276, "\"any\""),
    (2277, "anyarray"),
    (2281, "internal"),
    (2283, "anyelement"),
    (2776, "anynonarray"),
    (5077, "anycompatible"),
    (5078, "anycompatiblearray"),
];

fn pseudo_type(oid: u32) -> &'static str {
    PSEUDO_TYPES.iter().find(|(of, _)| *of == oid).map_or("???", |(_, name)| name)
}

/// The oid of the type that a signature names. Errors: 42704.
pub(super) fn type_in_signature(name: &str) -> Result<u32, SqlError> {
    let pseudo = PSEUDO_TYPES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(oid, _)| *oid);
    pseudo.map_or_else(|| type_named(name), Ok)
}

/// `regtypein`. Errors: 42704.
pub(super) fn type_named(name: &str) -> Result<u32, SqlError> {
    pgrepr::type_name::parse_type_name(name)
        .map(|ty| types::oid(&ty))
        .map_err(|error| SqlError::new(error.sqlstate, error.message))
}

/// Whether the data of a catalog has a row with this oid.
pub(super) fn listed(catalog: &str, oid: u32) -> bool {
    data(catalog).lines().any(|line| line.split('\t').next().and_then(|field| field.parse().ok()) == Some(oid))
}

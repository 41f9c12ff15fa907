//! The session settings that reading and printing values depend on.
//!
//! Only styles that are implemented can be represented: a session that asks for another one is refused when it sets
//! it, by [`DateOrder::from_date_style`] and its neighbours, and never gets a value in a style it did not ask for.

use crate::error::PgReprError;
use crate::timezone::TimeZone;
use repr::PgType;
use repr::sqlstate::SqlState;
use std::fmt;
use std::sync::Arc;

/// What the catalog knows of the values of `regclass` and its kin.
pub trait ObjectNames: fmt::Debug + Send + Sync {
    /// What the object is called, in the session's search path; its digits if there is none.
    fn name(&self, ty: &PgType, oid: u32) -> String;

    /// The object that `text` names. Errors: 42P01 and its kin if there is none.
    fn oid(&self, ty: &PgType, text: &str) -> Result<u32, PgReprError>;
}

/// Everything that the codecs need to know of a session.
#[derive(Clone, Debug)]
pub struct EncodeOptions {
    /// `TimeZone`: how timestamptz is printed and read.
    pub time_zone: TimeZone,
    /// `extra_float_digits`: above zero, floats print the shortest text that reads back as the same value.
    pub extra_float_digits: i32,
    /// `bytea_output`.
    pub bytea_output: ByteaOutput,
    /// The second half of `DateStyle`: how ambiguous dates are read. Output is always ISO.
    pub date_order: DateOrder,
    /// Microseconds since the epoch of the transaction's start, for `now`, `today` and their kin; without it they are
    /// refused.
    pub now_us: Option<i64>,
    /// The names of objects; without it they are numbers.
    pub names: Option<Arc<dyn ObjectNames>>,
}

impl Default for EncodeOptions {
    fn default() -> EncodeOptions {
        EncodeOptions {
            time_zone: TimeZone::UTC,
            extra_float_digits: 1,
            bytea_output: ByteaOutput::Hex,
            date_order: DateOrder::Mdy,
            now_us: None,
            names: None,
        }
    }
}

/// How bytea is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ByteaOutput {
    /// `\x` and two digits for each byte.
    #[default]
    Hex,
    /// Printable bytes as themselves, the others as `\ooo`.
    Escape,
}

impl ByteaOutput {
    /// Reads the value of `bytea_output`.
    pub fn parse(value: &str) -> Result<ByteaOutput, PgReprError> {
        match value.to_ascii_lowercase().as_str() {
            "hex" => Ok(ByteaOutput::Hex),
            "escape" => Ok(ByteaOutput::Escape),
            _ => Err(invalid_setting("bytea_output", value).with_hint("Available values: escape, hex.")),
        }
    }
}

/// The order of the fields of a date like `01/02/03`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DateOrder {
    /// Month first.
    #[default]
    Mdy,
    /// Day first.
    Dmy,
    /// Year first.
    Ymd,
}

impl DateOrder {
    /// Reads the value of `DateStyle`: the new order, or `current` where the value only names the style.
    ///
    /// Every style but ISO is refused with 0A000.
    pub fn from_date_style(value: &str, current: DateOrder) -> Result<DateOrder, PgReprError> {
        let mut order = current;
        for word in value.split(',').map(|word| word.trim().to_ascii_lowercase()) {
            match word.as_str() {
                "iso" => {}
                "mdy" | "us" | "noneuro" | "noneuropean" => order = DateOrder::Mdy,
                "dmy" | "euro" | "european" => order = DateOrder::Dmy,
                "ymd" => order = DateOrder::Ymd,
                "default" => order = DateOrder::Mdy,
                "sql" | "postgres" | "german" => {
                    return Err(PgReprError::unsupported(format!("DateStyle \"{word}\" is not supported"))
                        .with_hint("Only the ISO date style is supported."));
                }
                _ => return Err(invalid_setting("DateStyle", value)),
            }
        }
        Ok(order)
    }

    /// The value of `DateStyle` that this order stands for.
    pub fn date_style(self) -> &'static str {
        match self {
            DateOrder::Mdy => "ISO, MDY",
            DateOrder::Dmy => "ISO, DMY",
            DateOrder::Ymd => "ISO, YMD",
        }
    }
}

/// Checks the value of `IntervalStyle`: only `postgres` is implemented.
pub fn check_interval_style(value: &str) -> Result<(), PgReprError> {
    match value.to_ascii_lowercase().as_str() {
        "postgres" => Ok(()),
        "postgres_verbose" | "sql_standard" | "iso_8601" => {
            Err(PgReprError::unsupported(format!("IntervalStyle \"{value}\" is not supported"))
                .with_hint("Only the postgres interval style is supported."))
        }
        _ => Err(invalid_setting("IntervalStyle", value)
            .with_hint("Available values: postgres, postgres_verbose, sql_standard, iso_8601.")),
    }
}

pub(crate) fn invalid_setting(name: &str, value: &str) -> PgReprError {
    PgReprError::new(SqlState::INVALID_PARAMETER_VALUE, format!("invalid value for parameter \"{name}\": \"{value}\""))
}

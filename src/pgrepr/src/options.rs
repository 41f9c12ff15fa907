//! The session settings that reading and printing values depend on.
//!
//! Each has the text that SHOW prints, and reads what SET is given.

use crate::error::PgReprError;
use crate::timezone::TimeZone;
use repr::PgType;
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
#[derive(Clone, Debug, Default)]
pub struct EncodeOptions {
    /// The session's.
    pub locale: Locale,
    /// Microseconds since the epoch of the transaction's start, for `now`, `today` and their kin; without it they are
    /// refused.
    pub now_us: Option<i64>,
    /// The names of objects; without it they are numbers.
    pub names: Option<Arc<dyn ObjectNames>>,
}

/// How a session prints values, and what the texts mean to it that can mean several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locale {
    /// `TimeZone`.
    pub time_zone: TimeZone,
    /// `DateStyle`.
    pub date: DateStyle,
    /// `IntervalStyle`.
    pub interval: IntervalStyle,
    /// `bytea_output`.
    pub bytea: ByteaOutput,
    /// `extra_float_digits`: above zero, floats print the shortest text that reads back as the same value.
    pub extra_float_digits: i32,
}

impl Locale {
    /// What of it reading depends on: the rest is as usual.
    pub fn for_reading(self) -> Locale {
        Locale { time_zone: self.time_zone, date: self.date, interval: self.interval, ..Locale::default() }
    }
}

impl Default for Locale {
    fn default() -> Locale {
        Locale {
            time_zone: TimeZone::UTC,
            date: DateStyle::default(),
            interval: IntervalStyle::default(),
            bytea: ByteaOutput::default(),
            extra_float_digits: 1,
        }
    }
}

/// How bytea is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
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
            _ => Err(PgReprError::invalid_setting("bytea_output", value).with_hint("Available values: escape, hex.")),
        }
    }
}

/// How dates are printed, and what those like `01/02/03` mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct DateStyle {
    /// The form of what is printed.
    pub form: DateForm,
    /// The order of numbers.
    pub order: DateOrder,
}

/// The form in which dates are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DateForm {
    /// `1997-12-17 07:37:16-08`.
    #[default]
    Iso,
    /// `12/17/1997 07:37:16 PST`.
    Sql,
    /// `Wed Dec 17 07:37:16 1997 PST`.
    Postgres,
    /// `17.12.1997 07:37:16 PST`.
    German,
}

/// The order of the fields of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DateOrder {
    /// Month first.
    #[default]
    Mdy,
    /// Day first.
    Dmy,
    /// Year first.
    Ymd,
}

impl DateStyle {
    /// Reads a value of `DateStyle`. What it does not say stays as it is here; `default` is as `reset` has it.
    pub fn changed(self, value: &str, reset: DateStyle) -> Result<DateStyle, PgReprError> {
        let (mut form, mut order) = (None, None);
        // What is said twice has to be the same.
        fn note<T: PartialEq>(slot: &mut Option<T>, said: T, value: &str) -> Result<(), PgReprError> {
            let agrees = slot.as_ref().is_none_or(|before| *before == said);
            *slot = Some(said);
            let detail = "Conflicting \"datestyle\" specifications.";
            if agrees { Ok(()) } else { Err(PgReprError::invalid_setting("DateStyle", value).with_detail(detail)) }
        }
        for word in value.split(',').map(|word| word.trim().to_ascii_lowercase()) {
            match word.as_str() {
                "iso" => note(&mut form, DateForm::Iso, value)?,
                "sql" => note(&mut form, DateForm::Sql, value)?,
                "german" => note(&mut form, DateForm::German, value)?,
                "mdy" | "us" => note(&mut order, DateOrder::Mdy, value)?,
                "dmy" => note(&mut order, DateOrder::Dmy, value)?,
                "ymd" => note(&mut order, DateOrder::Ymd, value)?,
                "default" => {
                    form.get_or_insert(reset.form);
                    order.get_or_insert(reset.order);
                }
                word if word.starts_with("postgres") => note(&mut form, DateForm::Postgres, value)?,
                word if word.starts_with("noneuro") => note(&mut order, DateOrder::Mdy, value)?,
                word if word.starts_with("euro") => note(&mut order, DateOrder::Dmy, value)?,
                word => {
                    let detail = format!("Unrecognized key word: \"{word}\".");
                    return Err(PgReprError::invalid_setting("DateStyle", value).with_detail(detail));
                }
            }
        }
        // Germans begin with the day unless they say otherwise.
        let usual = if form == Some(DateForm::German) { DateOrder::Dmy } else { self.order };
        Ok(DateStyle { form: form.unwrap_or(self.form), order: order.unwrap_or(usual) })
    }

    /// The value of `DateStyle`, which reads back as this whatever it was before.
    pub fn name(self) -> String {
        let form = match self.form {
            DateForm::Iso => "ISO",
            DateForm::Sql => "SQL",
            DateForm::Postgres => "Postgres",
            DateForm::German => "German",
        };
        let order = match self.order {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        };
        format!("{form}, {order}")
    }
}

/// How intervals are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum IntervalStyle {
    /// `1 year 2 mons -3 days +04:05:06`.
    #[default]
    Postgres,
    /// `@ 1 year 2 mons -3 days 4 hours 5 mins 6 secs`.
    PostgresVerbose,
    /// `+1-2 -3 +4:05:06`. A sign before what is read holds for all of it, if there is no other.
    SqlStandard,
    /// `P1Y2M-3DT4H5M6S`.
    Iso8601,
}

impl IntervalStyle {
    /// The values of `IntervalStyle`.
    pub const NAMES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

    /// Reads the value of `IntervalStyle`.
    pub fn parse(value: &str) -> Result<IntervalStyle, PgReprError> {
        match value.to_ascii_lowercase().as_str() {
            "postgres" => Ok(IntervalStyle::Postgres),
            "postgres_verbose" => Ok(IntervalStyle::PostgresVerbose),
            "sql_standard" => Ok(IntervalStyle::SqlStandard),
            "iso_8601" => Ok(IntervalStyle::Iso8601),
            _ => {
                let hint = format!("Available values: {}.", IntervalStyle::NAMES.join(", "));
                Err(PgReprError::invalid_setting("IntervalStyle", value).with_hint(hint))
            }
        }
    }

    /// The value of `IntervalStyle` that reads back as this.
    pub fn name(self) -> &'static str {
        match self {
            IntervalStyle::Postgres => "postgres",
            IntervalStyle::PostgresVerbose => "postgres_verbose",
            IntervalStyle::SqlStandard => "sql_standard",
            IntervalStyle::Iso8601 => "iso_8601",
        }
    }
}

//! Templates of intervals. A time of day is one, too.

use super::{Piece, ROMAN_MONTHS, ordinal, pieces};
use crate::interval::Parts;
use crate::new_text;
use engine::error::SqlError;
use pgrepr::calendar::{UNIX_EPOCH_JULIAN, days_from_civil};
use repr::Datum;
use repr::sqlstate::SqlState;

/// Writes an interval: its months as years and months, its time as hours of any number.
pub(super) fn to_char(interval: Parts, template: &str) -> Result<Datum<'static>, SqlError> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let mut out = String::new();
    for piece in pieces(template)? {
        match piece {
            Piece::Literal(text) => out.push_str(&text),
            Piece::Field(pattern, spelt, fill, suffix) => {
                let written = field(interval, pattern, fill)?;
                let is_lower = spelt.starts_with(|c: char| c.is_ascii_lowercase());
                out.push_str(&if is_lower { written.to_lowercase() } else { written.clone() });
                if let Some(suffix) = suffix {
                    let ordinal = ordinal(&written);
                    out.push_str(&if suffix == "TH" { ordinal.to_uppercase() } else { ordinal.to_owned() });
                }
            }
        }
    }
    Ok(new_text(out))
}

fn field((months, days, us): Parts, pattern: &str, fill: bool) -> Result<String, SqlError> {
    let (year, month, day) = (i64::from(months / 12), i64::from(months % 12), i64::from(days));
    let (hour, minute, second) = (us / 3_600_000_000, us / 60_000_000 % 60, us / 1_000_000 % 60);
    let day_of_year = (year * 12 + month) * 30 + day;
    // Zeros up to a width, in which a minus counts; some fields are wider for it.
    let plain = |value: i64, width: usize| format!("{value:0width$}", width = if fill { 0 } else { width });
    let signed = |value: i64, width: usize| plain(value, width + usize::from(value < 0));
    // Decimal places of the second, cut; a minus takes the place of one of their zeros.
    let places = |width: usize, unit: i64| format!("{:0width$}", us % 1_000_000 / unit);
    Ok(match pattern {
        "YYYY" => signed(year, 4),
        "YYY" => signed(year % 1000, 3),
        "YY" => signed(year % 100, 2),
        "Y" => signed(year % 10, 1),
        "Y,YYY" => format!("{},{:03}", year / 1000, year % 1000),
        "CC" => signed(year / 100, 2),
        "MM" => signed(month, 2),
        "DD" => plain(day, 2),
        "DDD" => plain(day_of_year, 3),
        "J" => (days_from_civil(year, month, day) + UNIX_EPOCH_JULIAN).to_string(),
        "W" => ((day - 1) / 7 + 1).to_string(),
        "WW" => plain((day_of_year - 1) / 7 + 1, 2),
        "Q" if month == 0 => String::new(),
        "Q" => ((month - 1) / 3 + 1).to_string(),
        "RM" => roman_month(year, month)
            .map_or(String::new(), |name| if fill { name.to_owned() } else { format!("{name:4}") }),
        "HH24" => signed(hour, 2),
        "HH12" | "HH" => plain(if hour % 12 == 0 { 12 } else { hour % 12 }, 2 + usize::from(hour < 0)),
        "MI" => signed(minute, 2),
        "SS" => signed(second, 2),
        "SSSS" | "SSSSS" => (hour * 3600 + minute * 60 + second).to_string(),
        "MS" => places(3, 1_000),
        "US" => places(6, 1),
        "AM" | "PM" => if hour % 24 >= 12 { "PM" } else { "AM" }.to_owned(),
        "A.M." | "P.M." => if hour % 24 >= 12 { "P.M." } else { "A.M." }.to_owned(),
        "IYYY" | "IYY" | "IY" | "I" | "IW" | "IDDD" => {
            return Err(SqlError::unsupported(format!("the template pattern \"{pattern}\" for an interval")));
        }
        "FF1" => places(1, 100_000),
        "FF2" => places(2, 10_000),
        "FF3" => places(3, 1_000),
        "FF4" => places(4, 100),
        "FF5" => places(5, 10),
        "FF6" => places(6, 1),
        _ => {
            return Err(SqlError::new(
                SqlState::INVALID_DATETIME_FORMAT,
                "invalid format specification for an interval value",
            )
            .with_hint("Intervals are not tied to specific calendar dates."));
        }
    })
}

/// Months of negative intervals count from the end of the year.
fn roman_month(year: i64, month: i64) -> Option<&'static str> {
    let index = match (year, month) {
        (0, 0) => return None,
        (year, 0) if year > 0 => 11,
        (_, 0) => 0,
        (_, month) if month < 0 => 12 + month,
        (_, month) => month - 1,
    };
    usize::try_from(index).ok().and_then(|index| ROMAN_MONTHS.get(index)).copied()
}

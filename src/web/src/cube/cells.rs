//! Values as Cube's clients know them: numbers are strings, which lose no digit; times are local ones of the query's zone, to the
//! millisecond; booleans are booleans, NULL is null, and everything else is a string.

use crate::json::string;
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use pgrepr::timezone::TimeZone;
use repr::{Datum, PgType};
use semantic::query::dates::printed_micros;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// How values are printed, and memory for it that is used again.
#[derive(Debug)]
pub(crate) struct Cells {
    options: EncodeOptions,
    zone: TimeZone,
    text: Vec<u8>,
}

impl Cells {
    pub(crate) fn new(options: EncodeOptions, zone: TimeZone) -> Cells {
        Cells { options, zone, text: Vec::new() }
    }

    /// Appends a value.
    pub(crate) fn value(&mut self, out: &mut Vec<u8>, ty: &PgType, datum: &Datum<'_>) {
        let time = match (datum, ty) {
            (Datum::Null, _) => return out.extend_from_slice(b"null"),
            (Datum::Bool(value), _) => {
                return out.extend_from_slice(if *value { b"true" } else { b"false" });
            }
            (Datum::Text(text), PgType::Text | PgType::Varchar(_) | PgType::Name) => return string(out, text),
            (Datum::Timestamp(us), PgType::Timestamptz) => self.zone.to_local(*us).and_then(printed_micros),
            (Datum::Timestamp(us), _) => printed_micros(*us),
            (Datum::Date(days), _) => i64::from(*days).checked_mul(DAY_US).and_then(printed_micros),
            _ => None,
        };
        if let Some(time) = time {
            return string(out, &time);
        }
        self.text.clear();
        encode_text(ty, datum, &self.options, &mut self.text);
        let text = String::from_utf8_lossy(&self.text);
        match datum {
            Datum::Numeric(..) if text.contains('.') => {
                string(out, text.trim_end_matches('0').trim_end_matches('.'));
            }
            _ => string(out, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::i256;
    use repr::types::NUMERIC;

    #[test]
    fn values_are_cubes() {
        let printed = |ty: &PgType, datum: &Datum<'_>| {
            let mut out = Vec::new();
            let zone = TimeZone::parse("America/New_York").expect("a zone");
            Cells::new(EncodeOptions::default(), zone).value(&mut out, ty, datum);
            String::from_utf8(out).expect("JSON is UTF-8")
        };
        let numeric = |unscaled: i128, scale| Datum::Numeric(i256::from_i128(unscaled), scale);
        for (ty, datum, expected) in [
            (PgType::Int8, Datum::Int8(10), "\"10\""),
            (NUMERIC, numeric(259_876_000, 6), "\"259.876\""),
            (NUMERIC, numeric(1000, 2), "\"10\""),
            (NUMERIC, numeric(100, 0), "\"100\""),
            (PgType::Float8, Datum::Float8(4.0), "\"4\""),
            (PgType::Float8, Datum::Float8(f64::NAN), "\"NaN\""),
            (PgType::Bool, Datum::Bool(true), "true"),
            (PgType::Text, Datum::Null, "null"),
            (PgType::Text, Datum::Text("a \"b\"\n".into()), "\"a \\\"b\\\"\\n\""),
            (PgType::Timestamp, Datum::Timestamp(1_704_067_200_123_999), "\"2024-01-01T00:00:00.123\""),
            (PgType::Timestamp, Datum::Timestamp(-1), "\"1969-12-31T23:59:59.999\""),
            (PgType::Timestamptz, Datum::Timestamp(1_704_067_200_000_000), "\"2023-12-31T19:00:00.000\""),
            (PgType::Timestamp, Datum::Timestamp(i64::MAX), "\"infinity\""),
            (PgType::Date, Datum::Date(19_723), "\"2024-01-01T00:00:00.000\""),
        ] {
            assert_eq!(printed(&ty, &datum), expected, "{ty:?}");
        }
    }
}

//! Round trips of random values through both formats, and garbage that must never panic.
//!
//! proptest prints the seed and the smallest failing value, and replays them from its regression file.

use arrow::datatypes::i256;
use glimpse_pgrepr::binary::{decode_binary, encode_binary};
use glimpse_pgrepr::calendar::{DATE_MAX, DATE_MIN, DAY_US, TIMESTAMP_MIN};
use glimpse_pgrepr::interval::INTERVAL_US_MAX;
use glimpse_pgrepr::json::{canonical_jsonb, quote_json};
use glimpse_pgrepr::options::{ByteaOutput, DateForm, DateOrder, DateStyle, EncodeOptions, IntervalStyle, Locale};
use glimpse_pgrepr::text::{decode_text, encode_text};
use glimpse_pgrepr::timezone::TimeZone;
use glimpse_pgrepr::type_name::parse_type_name;
use glimpse_pgrepr::types::TYPES;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use repr::datum::Datum;
use repr::types::{NumericDisplay, PgType};
use std::borrow::Cow;

fn text_value() -> impl Strategy<Value = Datum<'static>> {
    "[^\u{0}]{0,20}".prop_map(|text| Datum::Text(Cow::Owned(text)))
}

fn numeric(precision: u32, scale: i8) -> impl Strategy<Value = Datum<'static>> {
    let bound = 10_i128.pow(precision.min(38)) - 1;
    prop_oneof![-bound..=bound, -1000..=1000_i128].prop_map(move |value| Datum::Numeric(i256::from_i128(value), scale))
}

/// A type and a value of it.
fn scalar() -> impl Strategy<Value = (PgType, Datum<'static>)> {
    let wide = (any::<i128>(), 0..10_i128.pow(37)).prop_map(|(high, low)| (high / 100, low)).prop_map(|(high, low)| {
        let value = i256::from_i128(high).wrapping_mul(i256::from_i128(10_i128.pow(37)));
        Datum::Numeric(value.wrapping_add(i256::from_i128(low)), 20)
    });
    let timestamp = prop_oneof![TIMESTAMP_MIN..=i64::MAX, 0..4_000_000_000_000_000_i64, Just(i64::MIN)];
    prop_oneof![
        any::<bool>().prop_map(|v| (PgType::Bool, Datum::Bool(v))),
        any::<i16>().prop_map(|v| (PgType::Int2, Datum::Int2(v))),
        any::<i32>().prop_map(|v| (PgType::Int4, Datum::Int4(v))),
        any::<i64>().prop_map(|v| (PgType::Int8, Datum::Int8(v))),
        any::<u32>().prop_map(|v| (PgType::Oid, Datum::Oid(v))),
        any::<f32>().prop_filter("NaN", |v| !v.is_nan()).prop_map(|v| (PgType::Float4, Datum::Float4(v))),
        any::<f64>().prop_filter("NaN", |v| !v.is_nan()).prop_map(|v| (PgType::Float8, Datum::Float8(v))),
        numeric(38, 20).prop_map(|v| (PgType::Numeric(NumericDisplay::Trimmed), v)),
        wide.prop_map(|v| (PgType::Numeric(NumericDisplay::Trimmed), v)),
        numeric(10, 2).prop_map(|v| (PgType::Numeric(NumericDisplay::Declared(10, 2)), v)),
        numeric(30, 0).prop_map(|v| (PgType::Numeric(NumericDisplay::Declared(30, 0)), v)),
        text_value().prop_map(|v| (PgType::Text, v)),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|v| (PgType::Bytea, Datum::Bytes(Cow::Owned(v)))),
        any::<[u8; 16]>().prop_map(|v| (PgType::Uuid, Datum::Bytes(Cow::Owned(v.to_vec())))),
        prop_oneof![DATE_MIN..=DATE_MAX, Just(i32::MAX), Just(i32::MIN)].prop_map(|v| (PgType::Date, Datum::Date(v))),
        (0..=DAY_US).prop_map(|v| (PgType::Time, Datum::Time(v))),
        timestamp.clone().prop_map(|v| (PgType::Timestamp, Datum::Timestamp(v))),
        timestamp.prop_map(|v| (PgType::Timestamptz, Datum::Timestamp(v))),
        (any::<i32>(), any::<i32>(), -INTERVAL_US_MAX..=INTERVAL_US_MAX)
            .prop_map(|(m, d, us)| (PgType::Interval, Datum::Interval(m, d, us))),
        "[^\u{0}]{0,20}".prop_map(|text| {
            let mut json = "[".to_owned();
            quote_json(&text, &mut json);
            json.push(']');
            (PgType::Jsonb, Datum::Text(Cow::Owned(canonical_jsonb(&json).expect("valid"))))
        }),
    ]
}

fn array() -> impl Strategy<Value = (PgType, Datum<'static>)> {
    scalar().prop_flat_map(|(ty, value)| {
        let item = prop_oneof![Just(value), Just(Datum::Null)];
        proptest::collection::vec(item, 0..5)
            .prop_map(move |items| (PgType::Array(Box::new(ty.clone())), Datum::List(items)))
    })
}

fn options() -> impl Strategy<Value = EncodeOptions> {
    let zone = prop_oneof![Just("UTC"), Just("Europe/Berlin"), Just("America/St_Johns"), Just("-5.5")];
    let form = prop_oneof![Just(DateForm::Iso), Just(DateForm::Sql), Just(DateForm::Postgres), Just(DateForm::German)];
    let order = prop_oneof![Just(DateOrder::Mdy), Just(DateOrder::Dmy)];
    let interval = prop_oneof![
        Just(IntervalStyle::Postgres),
        Just(IntervalStyle::PostgresVerbose),
        Just(IntervalStyle::SqlStandard),
        Just(IntervalStyle::Iso8601)
    ];
    (zone, any::<bool>(), form, order, interval).prop_map(|(zone, escape, form, order, interval)| {
        // A zone's abbreviation does not say which zone it is.
        let zone = if form == DateForm::Iso { zone } else { "UTC" };
        let bytea = if escape { ByteaOutput::Escape } else { ByteaOutput::Hex };
        let time_zone = TimeZone::parse(zone).expect("a zone");
        // The German form begins with the day, in whatever order dates are read.
        let order = if form == DateForm::German { DateOrder::Dmy } else { order };
        let date = DateStyle { form, order };
        let locale = Locale { time_zone, date, interval, bytea, ..Locale::default() };
        EncodeOptions { locale, ..EncodeOptions::default() }
    })
}

fn check(ty: &PgType, datum: &Datum<'static>, options: &EncodeOptions) {
    let mut binary = Vec::new();
    encode_binary(ty, datum, options, &mut binary).expect("a value of its type");
    assert_eq!(&decode_binary(ty, &binary, options).expect("our own bytes"), datum, "{ty} binary");
    let mut text = Vec::new();
    encode_text(ty, datum, options, &mut text);
    let text = std::str::from_utf8(&text).expect("UTF-8");
    assert_eq!(&decode_text(ty, text, options).expect(text), datum, "{ty} {text}");
}

fn every_type() -> Vec<PgType> {
    let mut types: Vec<PgType> = TYPES.iter().map(|info| info.ty.clone()).collect();
    types.push(PgType::Numeric(NumericDisplay::Declared(5, 2)));
    types.push(PgType::Numeric(NumericDisplay::Quotient));
    types.push(PgType::Varchar(Some(3)));
    types.push(PgType::Bpchar(Some(3)));
    let arrays: Vec<PgType> = types.iter().map(|ty| PgType::Array(Box::new(ty.clone()))).collect();
    types.extend(arrays);
    types
}

/// Printing what was read must not panic either.
fn survive(ty: &PgType, datum: &Datum<'_>, options: &EncodeOptions) {
    let mut out = Vec::new();
    encode_text(ty, datum, options, &mut out);
    encode_binary(ty, datum, options, &mut out).expect("a value of its type");
}

proptest! {
    #[test]
    fn scalars_round_trip((ty, datum) in scalar(), options in options()) {
        // In the hour that clocks show twice, or skip, the offset still tells the moments apart.
        check(&ty, &datum, &options);
    }

    #[test]
    fn arrays_round_trip((ty, datum) in array(), options in options()) {
        check(&ty, &datum, &options);
    }

    #[test]
    fn binary_garbage_is_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..64), options in options()) {
        for ty in every_type() {
            if let Ok(datum) = decode_binary(&ty, &bytes, &options) {
                survive(&ty, &datum, &options);
            }
        }
    }

    #[test]
    fn array_garbage_is_refused_or_read(tail in proptest::collection::vec(any::<u8>(), 0..40), count in any::<i32>()) {
        let options = EncodeOptions::default();
        for ty in every_type() {
            for count in [count, 1, 2] {
                let mut bytes = vec![0, 0, 0, 1, 0, 0, 0, 0];
                bytes.extend(glimpse_pgrepr::types::oid(&ty).to_be_bytes());
                bytes.extend(count.to_be_bytes());
                bytes.extend([0, 0, 0, 1]);
                bytes.extend(&tail);
                let _ = decode_binary(&PgType::Array(Box::new(ty.clone())), &bytes, &options);
            }
        }
    }

    #[test]
    fn text_garbage_is_refused_or_read(text in ".{0,40}", options in options()) {
        for ty in every_type() {
            if let Ok(datum) = decode_text(&ty, &text, &options) {
                survive(&ty, &datum, &options);
            }
        }
        let _ = parse_type_name(&text);
        let _ = TimeZone::parse(&text);
    }

    #[test]
    fn nearly_valid_text_is_refused_or_read(
        text in r#"[-+]?[0-9]{0,12}[-/:. TPe]?[0-9.]{0,4}[-/:. ]?([0-9]{1,9}|jan|day|mons|year|BC|PM|Z)?[-+:. ]?[0-9]{0,22}[{}\[\]",\\a-z]{0,4}"#,
        options in options(),
    ) {
        let options = EncodeOptions { now_us: Some(0), ..options };
        for ty in every_type() {
            if let Ok(datum) = decode_text(&ty, &text, &options) {
                survive(&ty, &datum, &options);
            }
        }
    }
}

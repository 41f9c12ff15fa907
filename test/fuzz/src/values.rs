//! Values that a client sends: binary parameters and their texts, of every type.

use pgrepr::binary::{decode_binary, encode_binary};
use pgrepr::options::{ByteaOutput, DateForm, DateOrder, DateStyle, EncodeOptions, IntervalStyle, Locale};
use pgrepr::text::{decode_text, encode_text};
use pgrepr::timezone::TimeZone;
use pgrepr::types::TYPES;
use repr::datum::Datum;
use repr::types::{NumericDisplay, PgType, Reg};

/// What texts of values are made of.
#[rustfmt::skip]
pub const WORDS: &[&str] = &[
    "infinity", "-infinity", "NaN", "now", "today", "epoch", "2000-01-01", "12:34:56.789", "+05:30", " BC", " AM", "P1Y2M3DT4H",
    "1 year", "mons", "days", "ago", "@", "e", "E+", "1e400", "0x", "\\x", "\\000", "{", "}", "{}", ",", "\"", "\\", "NULL", ":", "-",
    "[1:2]=", "true", "null", "\\u0000", "\\ud800", "allballs", "J2451187", "Z", "America/New_York", "9999999999999999999999",
];

/// Every type that there is, with and without modifiers, and its arrays.
fn types() -> Vec<PgType> {
    let modified = [
        PgType::Varchar(Some(3)),
        PgType::Bpchar(Some(5)),
        PgType::Numeric(NumericDisplay::Declared(10, 2)),
        PgType::Numeric(NumericDisplay::Declared(30, 0)),
        PgType::Numeric(NumericDisplay::Scale),
    ];
    let scalars: Vec<PgType> = TYPES.iter().map(|info| info.ty.clone()).chain(modified).collect();
    let arrays = scalars.iter().map(|ty| PgType::Array(Box::new(ty.clone())));
    scalars.iter().cloned().chain(arrays).collect()
}

/// The type that a byte stands for.
fn type_of(byte: u8) -> PgType {
    let mut types = types();
    types.swap_remove(usize::from(byte) % types.len())
}

fn number_of(wanted: &PgType) -> u8 {
    let at = types().iter().position(|ty| ty == wanted).expect("a type of the list");
    u8::try_from(at).expect("fewer types than a byte has values")
}

/// A type, and a value in its binary format. What can be read is printed, and read back as what prints alike.
pub fn binary(bytes: &[u8]) {
    let Some((&ty, value)) = bytes.split_first() else { return };
    let (ty, options) = (type_of(ty), EncodeOptions::default());
    let Ok(datum) = decode_binary(&ty, value, &options) else { return };
    let mut text = Vec::new();
    encode_text(&ty, &datum, &options, &mut text);
    assert!(std::str::from_utf8(&text).is_ok(), "{ty}: {datum:?} prints as something else than text");
    let Some(printed) = print(&ty, &datum, &options) else { return };
    let again = decode_binary(&ty, &printed, &options).expect("what was printed is read");
    assert_eq!(print(&ty, &again, &options), Some(printed), "{ty}: {datum:?} became {again:?}");
}

fn print(ty: &PgType, datum: &Datum<'_>, options: &EncodeOptions) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    encode_binary(ty, datum, options, &mut out).ok().map(|()| out)
}

/// A type, settings, and a value as text. What can be read is printed in both formats, and the text is read back as what
/// prints alike.
pub fn text(bytes: &[u8]) {
    let [ty, settings, value @ ..] = bytes else { return };
    let Ok(value) = std::str::from_utf8(value) else { return };
    let (ty, options) = (type_of(*ty), options(*settings));
    let Ok(datum) = decode_text(&ty, value, &options) else { return };
    let show = |datum: &Datum<'_>| {
        let mut out = Vec::new();
        encode_text(&ty, datum, &options, &mut out);
        String::from_utf8(out).expect("text prints as text")
    };
    let printed = show(&datum);
    drop(print(&ty, &datum, &options));
    // What a session that prints fewer digits has lost is lost.
    if options.locale.extra_float_digits > 0 && !matches!(ty, PgType::Void | PgType::Record) {
        let again = decode_text(&ty, &printed, &options);
        let again =
            again.unwrap_or_else(|error| panic!("{ty}: {datum:?} prints as {printed:?}, which is none: {error}"));
        assert_eq!(show(&again), printed, "{ty}: {datum:?} became {again:?}");
    }
}

fn options(settings: u8) -> EncodeOptions {
    let pick = |bit: u8| settings & (1 << bit) != 0;
    let interval = match (pick(6), pick(7)) {
        (false, false) => IntervalStyle::Postgres,
        (true, false) => IntervalStyle::PostgresVerbose,
        (false, true) => IntervalStyle::SqlStandard,
        (true, true) => IntervalStyle::Iso8601,
    };
    let form = match (pick(3) && pick(4), interval) {
        (false, _) | (true, IntervalStyle::Postgres) => DateForm::Iso,
        (true, IntervalStyle::PostgresVerbose) => DateForm::Postgres,
        (true, IntervalStyle::SqlStandard) => DateForm::Sql,
        (true, IntervalStyle::Iso8601) => DateForm::German,
    };
    let order = match (pick(3), pick(4)) {
        (false, false) => DateOrder::Mdy,
        (true, _) => DateOrder::Dmy,
        (false, true) => DateOrder::Ymd,
    };
    // A zone's abbreviation does not say which zone it is.
    let zone = if pick(0) && form == DateForm::Iso { "America/New_York" } else { "UTC" };
    let locale = Locale {
        time_zone: TimeZone::from_name(zone).unwrap_or(TimeZone::UTC),
        date: DateStyle { form, order },
        interval,
        bytea: if pick(2) { ByteaOutput::Escape } else { ByteaOutput::Hex },
        extra_float_digits: if pick(1) { 0 } else { 1 },
    };
    EncodeOptions { locale, now_us: pick(5).then_some(1_000_000_000_000_000), names: None }
}

/// A number and its text, of every type.
fn examples() -> Vec<(PgType, &'static str)> {
    let array = |item| PgType::Array(Box::new(item));
    vec![
        (PgType::Bool, "true"),
        (PgType::Bytea, "\\x00ff61"),
        (PgType::Char, "c"),
        (PgType::Name, "name"),
        (PgType::Int8, "-9223372036854775808"),
        (PgType::Int2, "-32768"),
        (PgType::Int4, "2147483647"),
        (PgType::Oid, "4294967295"),
        (PgType::Int2Vector, "1 2 3"),
        (PgType::OidVector, "23 25"),
        (PgType::Text, "some text, é"),
        (PgType::Json, "{\"a\": [1, 2.50, \"x\\u00e9\", null, true], \"a\": {}}"),
        (PgType::Jsonb, "{\"b\": [1, 2.50, \"x\\u00e9\", null, true], \"a\": {\"c\": -1e5}}"),
        (PgType::Float4, "1.5e-10"),
        (PgType::Float8, "-Infinity"),
        (PgType::Unknown, "unknown"),
        (PgType::Bpchar(None), "blank  "),
        (PgType::Varchar(Some(3)), "abc"),
        (PgType::Date, "2024-02-29"),
        (PgType::Time, "23:59:59.999999"),
        (PgType::Timestamp, "1999-12-31 23:59:59.5"),
        (PgType::Timestamptz, "2024-03-10 02:30:00-05"),
        (PgType::Interval, "1 year 2 mons -3 days 04:05:06.789"),
        (PgType::Numeric(NumericDisplay::Trimmed), "-12345678901234567890.0987654321"),
        (PgType::Numeric(NumericDisplay::Declared(10, 2)), "12345678.90"),
        (PgType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        (PgType::Reg(Reg::Class), "1259"),
        (array(PgType::Int4), "{1,NULL,3}"),
        (array(PgType::Text), "{a,\"b,\\\"c\\\\\",NULL,\"\"}"),
        (array(PgType::Timestamp), "{\"2024-01-01 00:00:00\",infinity}"),
        (array(PgType::Jsonb), "{\"{\\\"a\\\": 1}\"}"),
    ]
}

/// A type, and a value of it.
pub fn binary_seeds() -> Vec<Vec<u8>> {
    let options = EncodeOptions::default();
    let seed = |(ty, text): (PgType, &str)| {
        let datum = decode_text(&ty, text, &options).expect("an example is a value");
        let value = print(&ty, &datum, &options).expect("an example has a binary form");
        [vec![number_of(&ty)], value].concat()
    };
    examples().into_iter().map(seed).collect()
}

/// A type, settings, and a text of it.
pub fn text_seeds() -> Vec<Vec<u8>> {
    let seed = |(ty, text): (PgType, &str)| [&[number_of(&ty), 0][..], text.as_bytes()].concat();
    examples().into_iter().map(seed).collect()
}

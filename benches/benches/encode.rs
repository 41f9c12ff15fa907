//! A stored row to the fields of a DataRow: what a point read does with the row it found, in both formats.

use std::hint::black_box;

use arrow::datatypes::{DataType, TimeUnit};
use bytes::{BufMut, BytesMut};
use criterion::{Criterion, criterion_group, criterion_main};
use pgrepr::binary::encode_binary;
use pgrepr::options::EncodeOptions;
use pgrepr::text::encode_text;
use repr::Datum;
use repr::row::{read_datum, write_datum};
use repr::types::PgType;

/// The column types of a stored row, as storage and as Postgres know them.
type Columns = Vec<(DataType, PgType)>;

fn int_and_text() -> (Columns, Vec<u8>) {
    let columns = vec![(DataType::Int32, PgType::Int4), (DataType::Utf8, PgType::Text)];
    let row = stored(&columns, &[Datum::Int4(500_000), Datum::Text("v0500000-000".into())]);
    (columns, row)
}

fn five_columns() -> (Columns, Vec<u8>) {
    let columns = vec![
        (DataType::Int32, PgType::Int4),
        (DataType::Utf8, PgType::Text),
        (DataType::Int64, PgType::Int8),
        (DataType::Float64, PgType::Float8),
        (DataType::Timestamp(TimeUnit::Microsecond, None), PgType::Timestamp),
    ];
    let values = [
        Datum::Int4(500_000),
        Datum::Text("v0500000-000".into()),
        Datum::Int8(500_001_500_000),
        Datum::Float8(500_000.0 / 7.0),
        Datum::Timestamp(1_700_000_000_123_456),
    ];
    let row = stored(&columns, &values);
    (columns, row)
}

fn stored(columns: &Columns, values: &[Datum<'_>]) -> Vec<u8> {
    let mut row = Vec::new();
    for ((ty, _), value) in columns.iter().zip(values) {
        write_datum(&mut row, ty, value).expect("the value is of the column's type");
    }
    row
}

/// Writes each field with its length in front, as a DataRow has it.
fn fields(
    columns: &Columns,
    mut row: &[u8],
    out: &mut BytesMut,
    mut encode: impl FnMut(&PgType, &Datum<'_>, &mut BytesMut),
) {
    let mut scratch = Vec::new();
    for (ty, pg_type) in columns {
        let mut rest = row;
        let datum = read_datum(&mut rest, ty, &mut scratch);
        row = &row[row.len() - rest.len()..];
        let at = out.len();
        out.put_i32(0);
        encode(pg_type, &datum, out);
        let length = u32::try_from(out.len() - at - 4).expect("the fields are short");
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

fn data_rows(criterion: &mut Criterion) {
    let options = EncodeOptions::default();
    let mut group = criterion.benchmark_group("encode");
    for (name, (columns, row)) in [("int4, text", int_and_text()), ("five columns", five_columns())] {
        let mut out = BytesMut::with_capacity(4096);
        group.bench_function(format!("text {name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                fields(&columns, black_box(&row), &mut out, |ty, datum, out| encode_text(ty, datum, &options, out));
                black_box(out.len())
            });
        });
        group.bench_function(format!("binary {name}"), |bencher| {
            bencher.iter(|| {
                out.clear();
                fields(&columns, black_box(&row), &mut out, |ty, datum, out| {
                    encode_binary(ty, datum, &options, out).expect("the value is of the column's type");
                });
                black_box(out.len())
            });
        });
    }
    group.finish();
}

criterion_group!(stages, data_rows);
criterion_main!(stages);

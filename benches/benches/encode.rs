//! A stored row to a DataRow: what a point read does with the row it found, in both formats.

use arrow::datatypes::DataType;
use criterion::{Criterion, criterion_group, criterion_main};
use pgrepr::options::EncodeOptions;
use pgwire::encode::rows::{RowEncoder, Shape, Target};
use pgwire::formats::{Format, Formats};
use repr::row::{Stored, write_datum};
use repr::{Datum, PgType, RelationDesc};
use std::hint::black_box;

fn int_and_text() -> (RelationDesc, Vec<u8>) {
    stored(&[(PgType::Int4, Datum::Int4(500_000)), (PgType::Text, Datum::Text("v0500000-000".into()))])
}

fn five_columns() -> (RelationDesc, Vec<u8>) {
    stored(&[
        (PgType::Int4, Datum::Int4(500_000)),
        (PgType::Text, Datum::Text("v0500000-000".into())),
        (PgType::Int8, Datum::Int8(500_001_500_000)),
        (PgType::Float8, Datum::Float8(500_000.0 / 7.0)),
        (PgType::Timestamp, Datum::Timestamp(1_700_000_000_123_456)),
    ])
}

/// A relation with columns of these types, and a row of it with these values.
fn stored(columns: &[(PgType, Datum<'_>)]) -> (RelationDesc, Vec<u8>) {
    let name = |at: usize| format!("c{at}");
    let desc = RelationDesc::new(columns.iter().enumerate().map(|(at, (ty, _))| (name(at), ty.clone(), true)));
    let mut row = Vec::new();
    for (field, (_, value)) in desc.schema.fields().iter().zip(columns) {
        write_datum(&mut row, field.data_type(), value).expect("the value is of the column's type");
    }
    (desc, row)
}

fn data_rows(criterion: &mut Criterion) {
    let options = EncodeOptions::default();
    let mut group = criterion.benchmark_group("encode");
    for (name, (desc, row)) in [("int4, text", int_and_text()), ("five columns", five_columns())] {
        let types: Vec<DataType> = desc.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let projection: Vec<usize> = (0..types.len()).collect();
        let stored = Stored { types: &types, projection: &projection };
        for (format_name, format) in [("text", Format::Text), ("binary", Format::Binary)] {
            let formats = Formats::All(format);
            let shape = Shape { columns: &desc.columns, options: &options, target: Target::DataRow(&formats) };
            let (mut encoder, mut out) = (RowEncoder::default(), Vec::with_capacity(4096));
            group.bench_function(format!("{format_name} {name}"), |bencher| {
                bencher.iter(|| {
                    out.clear();
                    encoder.stored(&mut out, black_box(&row), stored, shape).expect("the row is short");
                    black_box(out.len())
                });
            });
        }
    }
    group.finish();
}

criterion_group!(stages, data_rows);
criterion_main!(stages);

//! Rows to bytes and back: whole batches through the converter, single values as a point read decodes them.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use repr::row::{RowCodec, read_datum, skip_datum};

/// Rows per batch, as operators and scans see them.
const BATCH_ROWS: usize = 8192;

/// A relation to convert, with its name in the report.
struct Shape {
    name: &'static str,
    types: Vec<DataType>,
    columns: Vec<ArrayRef>,
}

fn shapes() -> [Shape; 2] {
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..BATCH_ROWS as i32));
    let texts: ArrayRef =
        Arc::new(StringViewArray::from_iter_values((0..BATCH_ROWS).map(|row| format!("v{row:07}-000"))));
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..BATCH_ROWS as i64).map(|row| row * 1_000_003)));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..BATCH_ROWS).map(|row| row as f64 / 7.0)));
    let times: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from_iter_values((0..BATCH_ROWS as i64).map(|row| row * 1_000_000)));
    let time = DataType::Timestamp(TimeUnit::Microsecond, None);
    [
        Shape {
            name: "int4, text",
            types: vec![DataType::Int32, DataType::Utf8View],
            columns: vec![Arc::clone(&ids), Arc::clone(&texts)],
        },
        Shape {
            name: "five columns",
            types: vec![DataType::Int32, DataType::Utf8View, DataType::Int64, DataType::Float64, time],
            columns: vec![ids, texts, numbers, floats, times],
        },
    ]
}

fn batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("row_codec/batch");
    group.throughput(Throughput::Elements(BATCH_ROWS as u64));
    for shape in shapes() {
        let codec = RowCodec::new(&shape.types).expect("the types can be stored");
        let rows = codec.encode(&shape.columns).expect("the columns fit");
        group.bench_function(format!("encode {}", shape.name), |bencher| {
            bencher.iter(|| codec.encode(black_box(&shape.columns)).expect("the columns fit"));
        });
        group.bench_function(format!("decode {}", shape.name), |bencher| {
            bencher.iter(|| codec.decode(rows.iter().map(|row| black_box(row.data()))).expect("the rows are ours"));
        });
    }
    group.finish();
}

fn single_rows(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("row_codec/single");
    for shape in shapes() {
        let codec = RowCodec::new(&shape.types).expect("the types can be stored");
        let rows = codec.encode(&shape.columns).expect("the columns fit");
        let row = rows.row(BATCH_ROWS / 2);
        group.bench_function(format!("read {}", shape.name), |bencher| {
            let mut scratch = Vec::new();
            bencher.iter(|| {
                let mut bytes = black_box(row.data());
                for ty in &shape.types {
                    let mut rest = bytes;
                    black_box(read_datum(&mut rest, ty, &mut scratch));
                    bytes = &bytes[bytes.len() - rest.len()..];
                }
            });
        });
        group.bench_function(format!("skip {}", shape.name), |bencher| {
            bencher.iter(|| {
                let mut bytes = black_box(row.data());
                for ty in &shape.types {
                    black_box(skip_datum(&mut bytes, ty));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(stages, batches, single_rows);
criterion_main!(stages);

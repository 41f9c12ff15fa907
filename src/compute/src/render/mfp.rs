//! Map, filter, project and key a batch of rows.
//!
//! A row is the concatenation of its columns' bytes, so what only passes through is cut out of the input row and never
//! decoded: the common index takes a table's rows as they are and cuts their keys out of them. What a predicate or an
//! expression reads is decoded into an Arrow batch and evaluated with the same expressions that the ad hoc engine uses;
//! what it makes is encoded again. If a batch fails to evaluate, its rows are evaluated one by one, so that only those
//! that fail become errors.

pub mod bytes;
mod evaluation;
pub mod narrow;

use crate::render::flow::Update;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
};
use arrow::datatypes::{DataType, SchemaRef, UInt8Type, UInt16Type, UInt64Type};
use bytes::ByteFilter;
use compute_client::error::encode_error;
use compute_client::plan::lir::{self, Stage};
use compute_client::protocol::KeyExpr;
use datafusion::error::DataFusionError;
use datafusion::physical_expr::PhysicalExpr;
use evaluation::{Evaluated, Evaluation};
use repr::columns::Cutter;
use repr::row::{RowCodec, RowError, is_delimited, is_key_exact, skip_datum, write_array_value, write_key_datum};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The first byte of a NULL.
const NULL: u8 = 0;

/// What happens to rows on their way into an arrangement.
pub struct RowPlan {
    /// Which rows pass, as far as their bytes tell.
    filter: Option<ByteFilter>,
    cutter: Cutter,
    row: RowParts,
    key: Vec<Part>,
    null_keys: NullKeys,
    /// What is decoded; none if rows are only cut.
    evaluation: Option<Box<Evaluation>>,
}

/// What an output row is made of.
enum RowParts {
    /// It is the input row.
    Whole,
    /// Pieces.
    Parts(Vec<Part>),
}

/// A piece of an output row or of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// One of the cuts.
    Cut(usize),
    /// The next of the computed ones.
    Computed,
}

/// What becomes of rows whose key has a NULL in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NullKeys {
    /// They are rows like others.
    Keep,
    /// They are left out: NULL equals nothing.
    Drop,
}

impl RowPlan {
    /// Chooses how rows of `input` become rows under keys.
    pub fn new(input: &SchemaRef, stages: &[Stage], key: &[KeyExpr], null_keys: NullKeys) -> Result<RowPlan, RowError> {
        let (comparisons, stages) = bytes::split(input, stages);
        let filter = ByteFilter::new(&types(input), comparisons)?;
        let stages = stages.as_slice();
        let schema = stages.iter().rev().find_map(Stage::schema).unwrap_or(input);
        let origins = origins(input, stages, schema);
        let is_whole = origins.iter().copied().eq((0..input.fields().len()).map(Some))
            && stages.iter().all(|stage| matches!(stage, Stage::Filter(_) | Stage::Project(..)));
        let computed = (0..origins.len()).filter(|at| origins[*at].is_none()).collect();
        let row = (!is_whole).then_some(origins.as_slice());
        let plan = Self::build(input, stages, key, null_keys, &origins, row, computed, false)?;
        Ok(RowPlan { filter, ..plan })
    }

    /// Chooses how rows of `input` become keys and evaluated columns: the first `width` ones behind the last stage. For
    /// [`RowPlan::evaluate`].
    pub fn of_columns(input: &SchemaRef, stages: &[Stage], key: &[KeyExpr], width: usize) -> Result<RowPlan, RowError> {
        let (comparisons, stages) = bytes::split(input, stages);
        let filter = ByteFilter::new(&types(input), comparisons)?;
        let stages = stages.as_slice();
        let schema = stages.iter().rev().find_map(Stage::schema).unwrap_or(input);
        let origins = origins(input, stages, schema);
        let plan = Self::build(input, stages, key, NullKeys::Keep, &origins, None, (0..width).collect(), true)?;
        Ok(RowPlan { filter, ..plan })
    }

    #[expect(clippy::too_many_arguments, reason = "the two ways to make a plan have all but one in common")]
    fn build(
        input: &SchemaRef,
        stages: &[Stage],
        key: &[KeyExpr],
        null_keys: NullKeys,
        origins: &[Option<usize>],
        row: Option<&[Option<usize>]>,
        computed: BTreeSet<usize>,
        is_evaluated: bool,
    ) -> Result<RowPlan, RowError> {
        let input_types = types(input);
        let output_types = types(stages.iter().rev().find_map(Stage::schema).unwrap_or(input));
        let origin = |key: &KeyExpr| {
            let column = match key {
                KeyExpr::Column(column) => Some(*column),
                KeyExpr::Expr(expr, ty) => lir::column(expr).filter(|column| output_types[*column] == *ty),
            };
            column.filter(|column| is_key_exact(&output_types[*column])).and_then(|column| origins[column])
        };
        let key_origins: Vec<Option<usize>> = key.iter().map(origin).collect();
        let cuts = row.unwrap_or_default().iter().chain(&key_origins).flatten().copied().collect();
        let cutter = Cutter::new(&input_types, cuts)?;
        let part = |origin: &Option<usize>| origin.map_or(Part::Computed, |column| Part::Cut(cutter.place(column)));
        let row = row.map_or(RowParts::Whole, |origins| RowParts::Parts(origins.iter().map(part).collect()));
        let parts = key_origins.iter().map(part).collect();
        let computed_key = key.iter().zip(&key_origins).filter(|(_, origin)| origin.is_none()).map(|(key, _)| key);
        let mut wanted = computed.clone();
        for key in computed_key.clone() {
            match key {
                KeyExpr::Column(column) => wanted.extend([*column]),
                KeyExpr::Expr(expr, _) => wanted.extend(lir::columns(expr)),
            }
        }
        let is_cut = computed.is_empty()
            && computed_key.clone().next().is_none()
            && stages.iter().all(|stage| matches!(stage, Stage::Project(..)));
        let evaluation = match is_cut && !is_evaluated {
            true => None,
            false => {
                let encoded = if is_evaluated { BTreeSet::new() } else { computed };
                let key: Vec<&KeyExpr> = computed_key.collect();
                Some(Box::new(Evaluation::new(input, stages, &wanted, &encoded, &output_types, &key)?))
            }
        };
        Ok(RowPlan { filter: None, cutter, row, key: parts, null_keys, evaluation })
    }

    /// Whether any row can become an error. If not, rows are compared and cut, and nothing is evaluated.
    pub fn can_fail(&self) -> bool {
        self.evaluation.is_some()
    }

    /// Gives the key and the row that updates become, and what is wrong with those that fail.
    pub fn apply<'a, T>(
        &self,
        updates: &[Update<'a, T>],
        mut give: impl FnMut(&[u8], &[u8], &Update<'a, T>),
        mut fail: impl FnMut(Vec<u8>, &Update<'a, T>),
    ) {
        if self.evaluation.is_none() {
            let mut scratch = Scratch::default();
            for update in updates {
                self.cut(update.row, &mut scratch, |key, row| give(key, row, update));
            }
            return;
        }
        let updates = self.passing(updates);
        if self.made(&updates, &mut give).is_ok() {
            return;
        }
        for update in updates.iter() {
            if let Err(error) = self.made(std::slice::from_ref(update), &mut give) {
                fail(encode_error(error), update);
            }
        }
    }

    /// Gives a row under its key, for a plan that only cuts, unless a NULL in its key leaves it out.
    pub fn cut(&self, row: &[u8], scratch: &mut Scratch, give: impl FnOnce(&[u8], &[u8])) {
        debug_assert!(self.evaluation.is_none(), "nothing is computed");
        let Scratch { cuts: buffer, key, joined } = scratch;
        if !self.filter.as_ref().is_none_or(|filter| filter.passes(row, buffer)) {
            return;
        }
        let mut cuts = reused(std::mem::take(buffer));
        self.cutter.cut(row, &mut cuts);
        key.clear();
        if self.write_key(&cuts, &[], 0, key).expect("cuts do not fail") {
            give(key, self.row(row, &cuts, &[], &[], joined));
        }
        *buffer = reused(cuts);
    }

    /// An output row.
    fn row<'a>(
        &self,
        input: &'a [u8],
        cuts: &[&[u8]],
        computed: &'a [u8],
        computed_types: &[DataType],
        scratch: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        match &self.row {
            RowParts::Whole => input,
            RowParts::Parts(parts) if computed_types.len() == parts.len() => computed,
            RowParts::Parts(parts) => {
                join(parts, cuts, computed, computed_types, scratch);
                scratch
            }
        }
    }

    /// The updates of rows that pass, as far as their bytes tell.
    pub fn passing<'a, 'u, T>(&self, updates: &'u [Update<'a, T>]) -> Cow<'u, [Update<'a, T>]> {
        let Some(filter) = &self.filter else { return Cow::Borrowed(updates) };
        let mut scratch = Vec::new();
        Cow::Owned(updates.iter().filter(|update| filter.passes(update.row, &mut scratch)).copied().collect())
    }

    /// Evaluates a batch of what passes, for a plan of columns.
    pub fn evaluate<T>(&self, updates: &[Update<'_, T>]) -> Result<Evaluated, DataFusionError> {
        let evaluation = self.evaluation.as_ref().expect("a plan of columns evaluates");
        contained(|| evaluation.run(updates.iter().map(|update| update.row)))
    }

    /// Gives the key of each evaluated row.
    pub fn keys<T>(
        &self,
        evaluated: &Evaluated,
        updates: &[Update<'_, T>],
        mut give: impl FnMut(usize, &[u8]),
    ) -> Result<(), DataFusionError> {
        let (mut cuts, mut key) = (Vec::with_capacity(self.cutter.len()), Vec::new());
        for (at, index) in evaluated.kept.iter().enumerate() {
            cuts.clear();
            key.clear();
            self.cutter.cut(updates[*index].row, &mut cuts);
            self.write_key(&cuts, &evaluated.key, at, &mut key).map_err(external)?;
            give(at, &key);
        }
        Ok(())
    }

    /// Gives what becomes of a batch, unless any of it fails.
    fn made<'a, T>(
        &self,
        updates: &[Update<'a, T>],
        give: &mut impl FnMut(&[u8], &[u8], &Update<'a, T>),
    ) -> Result<(), DataFusionError> {
        let evaluation = self.evaluation.as_ref().expect("what is only cut does not fail");
        let evaluated = self.evaluate(updates)?;
        let encoded = evaluation.encode(&evaluated.batch)?;
        let mut cuts = Vec::with_capacity(self.cutter.len());
        let (mut key, mut joined) = (Vec::new(), Vec::new());
        for (at, index) in evaluated.kept.iter().enumerate() {
            let update = &updates[*index];
            cuts.clear();
            key.clear();
            self.cutter.cut(update.row, &mut cuts);
            if self.write_key(&cuts, &evaluated.key, at, &mut key).expect("keys are of types that rows have") {
                let computed = encoded.get(at);
                give(&key, self.row(update.row, &cuts, computed, evaluation.output.types(), &mut joined), update);
            }
        }
        Ok(())
    }

    /// Appends the key of a row; false if a NULL in it leaves the row out.
    fn write_key(&self, cuts: &[&[u8]], columns: &[ArrayRef], at: usize, key: &mut Vec<u8>) -> Result<bool, RowError> {
        let mut columns = columns.iter();
        for part in &self.key {
            let is_null = match part {
                Part::Cut(cut) => {
                    key.extend_from_slice(cuts[*cut]);
                    cuts[*cut].first() == Some(&NULL)
                }
                Part::Computed => {
                    let column = columns.next().expect("each computed part has its values");
                    write_key(key, column.as_ref(), at)?;
                    column.is_null(at)
                }
            };
            if is_null && self.null_keys == NullKeys::Drop {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// For each column behind the last stage: the input's column whose bytes it has.
fn origins(input: &SchemaRef, stages: &[Stage], output: &SchemaRef) -> Vec<Option<usize>> {
    let mut origins = narrow::origins(input.fields().len(), stages);
    let all = input.fields().iter().chain(output.fields());
    if !all.into_iter().all(|field| is_delimited(field.data_type())) {
        // Where a column ends cannot be told without decoding it.
        origins.fill(None);
    }
    for (at, origin) in origins.iter_mut().enumerate() {
        // Only the spelling of a type may differ, but then its encoding may, too.
        *origin = origin.filter(|column| input.field(*column).data_type() == output.field(at).data_type());
    }
    origins
}

/// Buffers that are used again for each row.
#[derive(Default)]
pub struct Scratch {
    cuts: Vec<&'static [u8]>,
    key: Vec<u8>,
    joined: Vec<u8>,
}

/// A list's memory, for slices of other rows.
fn reused<'to>(mut list: Vec<&[u8]>) -> Vec<&'to [u8]> {
    list.clear();
    list.into_iter().map(|_| -> &'to [u8] { unreachable!("the list is empty") }).collect()
}

/// Writes a row of cuts and computed columns.
fn join(parts: &[Part], cuts: &[&[u8]], mut computed: &[u8], computed_types: &[DataType], row: &mut Vec<u8>) {
    row.clear();
    let mut types = computed_types.iter();
    for part in parts {
        row.extend_from_slice(match part {
            Part::Cut(cut) => cuts[*cut],
            Part::Computed => skip_datum(&mut computed, types.next().expect("one for each computed part")),
        });
    }
}

/// The types of a schema's columns.
pub fn types(schema: &SchemaRef) -> Vec<DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

/// Rows as a batch.
pub fn decode<'a>(
    codec: &RowCodec,
    schema: &SchemaRef,
    rows: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Result<RecordBatch, DataFusionError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = if schema.fields().is_empty() { Vec::new() } else { codec.decode(rows).map_err(external)? };
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The rows of a batch as bytes.
pub enum Encoded {
    /// Rows without columns.
    Empty,
    /// Any other.
    Rows(arrow::row::Rows),
}

impl Encoded {
    /// One of them.
    pub fn get(&self, at: usize) -> &[u8] {
        match self {
            Encoded::Empty => &[],
            Encoded::Rows(rows) => rows.row(at).data(),
        }
    }
}

/// A batch as rows.
pub fn encode(codec: &RowCodec, batch: &RecordBatch) -> Result<Encoded, DataFusionError> {
    if batch.num_columns() == 0 {
        return Ok(Encoded::Empty);
    }
    // Only the spelling of a type may differ here (a view of strings, a time zone's name).
    let columns = batch
        .columns()
        .iter()
        .zip(codec.types())
        .map(
            |(array, ty)| if array.data_type() == ty { Ok(Arc::clone(array)) } else { arrow::compute::cast(array, ty) },
        )
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Encoded::Rows(codec.encode(&columns).map_err(external)?))
}

/// For which rows a predicate is true: neither false nor NULL.
pub fn is_true(predicate: &dyn PhysicalExpr, batch: &RecordBatch) -> Result<BooleanArray, DataFusionError> {
    Ok(without_nulls(predicate.evaluate(batch)?.into_array(batch.num_rows())?.as_boolean()))
}

/// A mask in which NULL is false.
pub fn without_nulls(mask: &BooleanArray) -> BooleanArray {
    if mask.null_count() == 0 { mask.clone() } else { arrow::compute::prep_null_mask_filter(mask) }
}

/// Evaluates; a panic in the expression engine is an error of what was evaluated and not the end of the worker.
pub fn contained<T>(evaluate: impl FnOnce() -> Result<T, DataFusionError>) -> Result<T, DataFusionError> {
    catch_unwind(AssertUnwindSafe(evaluate)).unwrap_or_else(|_| {
        let error = engine::error::SqlError::internal("evaluating an expression of a maintained view panicked");
        Err(DataFusionError::External(Box::new(error)))
    })
}

pub(super) fn external(error: RowError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Evaluates several expressions over one batch, each as an array of the type that it declares.
pub fn evaluate_all(
    expressions: &[Arc<dyn PhysicalExpr>],
    batch: &RecordBatch,
) -> Result<Vec<ArrayRef>, DataFusionError> {
    expressions.iter().map(|expression| expression.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

/// Appends a column's value to a key.
pub fn write_key(key: &mut Vec<u8>, column: &dyn Array, at: usize) -> Result<(), RowError> {
    match column.data_type() {
        DataType::Float32 | DataType::Float64 => {
            let datum = repr::datum::from_array(column, at)
                .ok_or_else(|| RowError::UnsupportedType(column.data_type().clone()))?;
            write_key_datum(key, column.data_type(), &datum)
        }
        // No table has these types: the number of a row is of such a type until it is cast, and so is that of a grouping set.
        DataType::UInt8 => write_unsigned(key, column.as_primitive::<UInt8Type>(), at, |value| value.to_be_bytes()),
        DataType::UInt16 => write_unsigned(key, column.as_primitive::<UInt16Type>(), at, |value| value.to_be_bytes()),
        DataType::UInt64 => write_unsigned(key, column.as_primitive::<UInt64Type>(), at, |value| value.to_be_bytes()),
        _ => write_array_value(key, column, at),
    }
}

fn write_unsigned<T: ArrowPrimitiveType, const N: usize>(
    key: &mut Vec<u8>,
    column: &PrimitiveArray<T>,
    at: usize,
    bytes: fn(T::Native) -> [u8; N],
) -> Result<(), RowError> {
    key.push(u8::from(column.is_valid(at)));
    key.extend(if column.is_valid(at) { bytes(column.value(at)) } else { [0; N] });
    Ok(())
}

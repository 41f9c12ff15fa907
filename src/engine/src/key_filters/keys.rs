//! The keys of a join's left side: gathered while they go by, and known when the last of them has.
//!
//! They are a set of bits, one for each value between the least and the greatest where these are near enough to each other, else one for
//! each value of a hash. A value whose bit is not set is no key; the other way round nothing is said.

use crate::through::Through;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Date32Type, Int16Type, Int32Type, Int64Type, Schema};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use ore::memory::{Reservation, Share};
use parking_lot::Mutex;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// More keys than these are not kept: a scan that looks for one of so many finds most of its rows wanted.
const KEYS_MAX: usize = 8 << 20;
/// A bit for each value between the least and the greatest is had if these are no more than so many, or so many for each key; else there are so
/// many of a hash for each key.
const EXACT_MIN: u64 = 1 << 20;
const EXACT_BITS: u64 = 64;
const HASH_BITS: u64 = 16;
/// Of which so many rows have been seen, a filter that has let pass this part of them is not asked any more: it would cost more than it spares.
const TRIED: u64 = 1 << 16;
const MOST: (u64, u64) = (7, 8);

/// Whether keys of this type are kept.
pub(super) fn are_kept(ty: &DataType) -> bool {
    matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32)
}

/// The keys of one column of a join.
#[derive(Debug)]
pub(super) struct Keys {
    coming: Mutex<Coming>,
    /// How many rows there are so far; if these are too many, or there is no memory for their keys, more than [`KEYS_MAX`].
    count: AtomicUsize,
    all: OnceLock<Set>,
    memory: Arc<Share>,
}

#[derive(Debug)]
struct Coming {
    /// How many partitions have not ended.
    missing: usize,
    /// Those of the others.
    parts: Vec<Part>,
}

/// The keys of a partition, each as often as it came, and the memory that they take.
#[derive(Debug)]
struct Part {
    keys: Vec<i64>,
    memory: Reservation,
}

impl Keys {
    /// Of a side with so many partitions, of which nothing is known yet, and whose memory they will be.
    pub(super) fn of_partitions(partitions: usize, memory: &Arc<Share>) -> Arc<Keys> {
        let coming = Coming { missing: partitions, parts: Vec::new() };
        let (coming, count) = (Mutex::new(coming), AtomicUsize::new(0));
        Arc::new(Keys { coming, count, all: OnceLock::new(), memory: Arc::clone(memory) })
    }

    /// Nobody will be told any keys.
    fn give_up(&self) {
        self.count.fetch_max(KEYS_MAX + 1, Ordering::Relaxed);
        self.coming.lock().parts.clear();
    }

    fn are_given_up(&self) -> bool {
        self.count.load(Ordering::Relaxed) > KEYS_MAX
    }

    /// Those of a partition that has ended. After the last one all are known, if there is room for them.
    fn add(&self, part: Part) {
        let mut coming = self.coming.lock();
        // Under the lock: who gives up after this takes the part away.
        if self.are_given_up() {
            return;
        }
        coming.parts.push(part);
        coming.missing = coming.missing.saturating_sub(1);
        if coming.missing > 0 {
            return;
        }
        let parts = std::mem::take(&mut coming.parts);
        drop(coming);
        if let Some(set) = Set::of(&parts, &self.memory) {
            self.all.get_or_init(|| set);
        }
    }
}

/// A set that says of no key that it is none.
#[derive(Debug)]
struct Set {
    places: Places,
    bits: Vec<u64>,
    _memory: Reservation,
}

/// Where the bit of a value is.
#[derive(Clone, Copy, Debug)]
enum Places {
    /// As far from the first as the value is from the least key; there are so many.
    Offset(i64, u64),
    /// At the first bits of its hash, without so many last ones.
    Hash(u32),
}

impl Places {
    fn of(self, value: i64) -> u64 {
        match self {
            // Less than the least is more than there are.
            Places::Offset(least, _) => value.wrapping_sub(least).cast_unsigned(),
            Places::Hash(left_out) => value.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> left_out,
        }
    }

    fn count(self) -> u64 {
        match self {
            Places::Offset(_, count) => count,
            Places::Hash(left_out) => 1 << (u64::BITS - left_out),
        }
    }
}

impl Set {
    /// `None` if there is no memory.
    fn of(parts: &[Part], memory: &Arc<Share>) -> Option<Set> {
        let keys = || parts.iter().flat_map(|part| part.keys.iter().copied());
        let count: usize = parts.iter().map(|part| part.keys.len()).sum();
        let range = keys().fold(None, |range: Option<(i64, i64)>, key| {
            Some(range.map_or((key, key), |(least, greatest)| (least.min(key), greatest.max(key))))
        });
        let (least, greatest) = range.unwrap_or((0, -1));
        // None at all if there are no keys; none either of all values that there are, which are not near to each other.
        let values = greatest.wrapping_sub(least).cast_unsigned().wrapping_add(1);
        let is_near = range.is_none() || values != 0 && values <= EXACT_MIN.max(count as u64 * EXACT_BITS);
        let places = match is_near {
            true => Places::Offset(least, values),
            false => Places::Hash((count as u64 * HASH_BITS).next_power_of_two().leading_zeros() + 1),
        };
        let words = usize::try_from(places.count().div_ceil(u64::BITS.into())).ok()?;
        let mut memory = Reservation::empty(memory);
        memory.try_grow_last(words * size_of::<u64>()).ok()?;
        let mut bits = vec![0_u64; words];
        for key in keys() {
            let place = places.of(key);
            bits[(place / 64) as usize] |= 1 << (place % 64);
        }
        Some(Set { places, bits, _memory: memory })
    }

    fn may_have(&self, value: i64) -> bool {
        let place = self.places.of(value);
        // Of the last word no bit is set beyond the last value.
        self.bits.get((place / 64) as usize).is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    fn of_type<T: ArrowPrimitiveType<Native: Into<i64>>>(&self, column: &ArrayRef) -> BooleanArray {
        let column = column.as_primitive::<T>();
        let values = column.values();
        let mut bits = BooleanBuffer::collect_bool(values.len(), |at| self.may_have(values[at].into()));
        // NULL is no key.
        if let Some(nulls) = column.nulls() {
            bits = &bits & nulls.inner();
        }
        BooleanArray::new(bits, None)
    }

    fn among(&self, column: &ArrayRef) -> Result<BooleanArray> {
        Ok(match column.data_type() {
            DataType::Int16 => self.of_type::<Int16Type>(column),
            DataType::Int32 => self.of_type::<Int32Type>(column),
            DataType::Int64 => self.of_type::<Int64Type>(column),
            DataType::Date32 => self.of_type::<Date32Type>(column),
            other => return internal_err!("no keys of {other} are kept"),
        })
    }
}

/// Gathers keys of the rows that go by: what these expressions are, each for those who look for it.
pub(super) struct Gather(pub(super) Vec<(Arc<dyn PhysicalExpr>, Arc<Keys>)>);

impl fmt::Debug for Gather {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.0.iter().map(|(key, _)| key.to_string()).collect();
        f.write_str(&keys.join(", "))
    }
}

impl Through for Gather {
    const NAME: &'static str = "KeysExec";
    // In its turn: by then the keys of joins above may be known.
    const BEGINS_LATE: bool = true;

    fn through(&self, input: SendableRecordBatchStream, _name: &str) -> SendableRecordBatchStream {
        let schema = input.schema();
        let of = |(key, keys): &(Arc<dyn PhysicalExpr>, Arc<Keys>)| Gathering {
            key: Arc::clone(key),
            keys: Arc::clone(keys),
            part: Some(Part { keys: Vec::new(), memory: Reservation::empty(&keys.memory) }),
        };
        let gathering: Vec<Gathering> = self.0.iter().map(of).collect();
        let batches = futures::stream::try_unfold((input, gathering), |(mut input, mut gathering)| async move {
            let Some(batch) = input.next().await.transpose()? else {
                gathering.into_iter().for_each(Gathering::end);
                return Ok(None);
            };
            gathering.iter_mut().try_for_each(|of| of.take(&batch))?;
            Ok(Some((batch, (input, gathering))))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

/// The keys of a partition that has not ended. One that ends early says nothing.
struct Gathering {
    key: Arc<dyn PhysicalExpr>,
    keys: Arc<Keys>,
    /// `None` if they are too many, or there is no memory for them.
    part: Option<Part>,
}

impl Gathering {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(part) = &mut self.part else { return Ok(()) };
        let column = self.key.evaluate(batch)?.into_array(batch.num_rows())?;
        match column.data_type() {
            DataType::Int16 => part.extend::<Int16Type>(&column),
            DataType::Int32 => part.extend::<Int32Type>(&column),
            DataType::Int64 => part.extend::<Int64Type>(&column),
            DataType::Date32 => part.extend::<Date32Type>(&column),
            other => return internal_err!("no keys of {other} are kept"),
        }
        let missing = (part.keys.capacity() * size_of::<i64>()).saturating_sub(part.memory.bytes());
        let is_refused = missing > 0 && part.memory.try_grow_last(missing).is_err();
        let before = self.keys.count.fetch_add(batch.num_rows(), Ordering::Relaxed);
        if is_refused || before + batch.num_rows() > KEYS_MAX {
            self.keys.give_up();
            self.part = None;
        }
        Ok(())
    }

    fn end(self) {
        if let Some(part) = self.part {
            self.keys.add(part);
        }
    }
}

impl Part {
    fn extend<T: ArrowPrimitiveType<Native: Into<i64>>>(&mut self, column: &ArrayRef) {
        let column = column.as_primitive::<T>();
        match column.null_count() {
            0 => self.keys.extend(column.values().iter().map(|key| -> i64 { (*key).into() })),
            _ => self.keys.extend(column.iter().flatten().map(|key| -> i64 { key.into() })),
        }
    }
}

/// Whether the value of a column may be among keys. Whoever is asked before these are known says yes to all.
#[derive(Debug)]
pub(super) struct KeyFilter {
    column: Arc<dyn PhysicalExpr>,
    keys: Arc<Keys>,
    tried: Arc<Tried>,
}

/// How many rows a filter has seen, and how many it has let pass.
#[derive(Debug, Default)]
struct Tried {
    seen: AtomicU64,
    passed: AtomicU64,
}

impl Tried {
    /// Whether it lets pass nearly all.
    fn is_vain(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        seen >= TRIED && self.passed.load(Ordering::Relaxed) > seen / MOST.1 * MOST.0
    }
}

impl KeyFilter {
    /// Whether this column's value is among these keys.
    pub(super) fn new(column: Arc<dyn PhysicalExpr>, keys: Arc<Keys>) -> KeyFilter {
        KeyFilter { column, keys, tried: Arc::default() }
    }
}

impl fmt::Display for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} among keys", self.column)
    }
}

// Two are the same that look for the same keys.
impl PartialEq for KeyFilter {
    fn eq(&self, other: &KeyFilter) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys) && self.column.eq(&other.column)
    }
}

impl Eq for KeyFilter {}

impl Hash for KeyFilter {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.keys).hash(state);
        self.column.hash(state);
    }
}

impl PhysicalExpr for KeyFilter {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let all = ColumnarValue::Scalar(ScalarValue::Boolean(Some(true)));
        let Some(keys) = self.keys.all.get().filter(|_| !self.tried.is_vain()) else { return Ok(all) };
        let passing = keys.among(&self.column.evaluate(batch)?.into_array(batch.num_rows())?)?;
        self.tried.seen.fetch_add(passing.len() as u64, Ordering::Relaxed);
        self.tried.passed.fetch_add(passing.true_count() as u64, Ordering::Relaxed);
        Ok(ColumnarValue::Array(Arc::new(passing)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.column]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let column = children.pop().ok_or_else(|| internal_datafusion_err!("a filter by keys is of a column"))?;
        Ok(Arc::new(KeyFilter { column, keys: Arc::clone(&self.keys), tried: Arc::clone(&self.tried) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

//! The result of one query as Cube's clients read it: the query, its rows in one of three forms, and what its members are.

use crate::cube::cells::Cells;
use crate::json::string;
use crate::outlet::{Outlet, PIECE_BYTES};
use crate::printing::{Form, send};
use crate::single::options;
use crate::told::Refusal;
use adapter::answer::{Answer, Answering, Follows, Statement, no_values};
use adapter::error::AdapterError;
use adapter::made::cube_load;
use adapter::seat::Seat;
use adapter::session::Session;
use arrow::array::RecordBatch;
use door::apart::elsewhere;
use ore::memory::Reservation;
use pgrepr::timezone::TimeZone;
use repr::datum::from_array;
use repr::{ColumnDesc, Datum, RelationDesc};
use semantic::model::Model;
use semantic::model::annotation::is_doubled;
use semantic::query::dates::{Instant, at_micros, printed, printed_micros};
use semantic::query::{Format, Limit, Query, Total};
use serde_json::{Value, json};
use std::sync::Arc;

/// What is asked in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One query.
    Regular,
    /// One for several ranges, whose rows say which they are of.
    Comparison,
}

/// What a row of a comparison says of itself: which range it is of.
pub(super) const COMPARED: &str = "compareDateRange";

/// Writes the result of a query, with all that belongs to it; `kind` is that of the question. Errors: those of
/// the query and its rows.
pub(super) async fn tell(seat: &mut Seat, query: &Query, kind: Kind, outlet: &mut impl Outlet) -> Result<(), Refusal> {
    // That there is none is best said by the statement.
    let model = model(seat, query);
    let out = outlet.buffer();
    out.extend_from_slice(b"{\"query\":");
    write(out, &query.normalized());
    out.extend_from_slice(b",\"data\":");
    let is_cut = data(seat, query, kind, outlet).await?;
    let total = match query.total {
        Total::Asked => json!(total(seat, query).await?),
        Total::NotAsked => Value::Null,
    };
    let out = outlet.buffer();
    out.extend_from_slice(b",\"annotation\":");
    write(out, &model?.annotation(query));
    out.extend_from_slice(b",\"lastRefreshTime\":");
    write(out, &refreshed(seat));
    out.extend_from_slice(b",\"truncated\":");
    write(out, &is_cut);
    out.extend_from_slice(b",\"total\":");
    write(out, &total);
    let rest = b",\"dataSource\":\"default\",\"dbType\":\"postgres\",\"external\":false,\"slowQuery\":false}";
    out.extend_from_slice(rest);
    Ok(())
}

/// Writes the rows; whether there were more than are told.
async fn data(seat: &mut Seat, query: &Query, kind: Kind, outlet: &mut impl Outlet) -> Result<bool, Refusal> {
    let (asked, max) = bounded(query);
    let answer = seat.answer(Statement::Text(statement(&asked)), no_values(), Follows::Others, PIECE_BYTES).await?;
    let Answer::Rows(mut rows) = answer else { return Err(AdapterError::internal("a query has no rows").into()) };
    let shape = Shape::of(query, &rows.desc().desc, kind, max);
    match query.format {
        Format::Objects | Format::Compact => lines(&mut rows, shape, outlet).await,
        Format::Columnar => columns(&mut rows, shape, outlet).await,
    }
}

/// The statement that gives the rows of a query.
pub(super) fn statement(query: &Query) -> String {
    format!("SELECT * FROM {}", relation(query))
}

fn relation(query: &Query) -> String {
    cube_load(&Value::Object(query.json()).to_string())
}

/// The model that a query is about.
pub(super) fn model(session: &Session, query: &Query) -> Result<Arc<Model>, AdapterError> {
    session.model_of(query.names().next().map(|name| name.cube.as_str()).unwrap_or_default())
}

/// The time at which the transaction reads, as JavaScript has it; null before it has read.
pub(super) fn refreshed(session: &Session) -> Value {
    let micros = session.reads_at().and_then(|at| i64::try_from(at).ok());
    json!(micros.and_then(printed_micros).map(|time| time + "Z"))
}

/// How many rows there are without limit and offset.
pub(super) async fn total(seat: &mut Seat, query: &Query) -> Result<i64, Refusal> {
    let all = Query { limit: Limit::Default(None), offset: 0, order: Vec::new(), ..query.clone() };
    let text = format!("SELECT count(*) FROM {}", relation(&all));
    let answer = seat.answer(Statement::Text(text), no_values(), Follows::Others, PIECE_BYTES).await?;
    let none = || AdapterError::internal("a count has no row");
    let Answer::Rows(mut rows) = answer else { return Err(none().into()) };
    let mut count = None;
    while let Some(batch) = rows.next().await? {
        if let Some(Datum::Int8(first)) = batch.columns().first().and_then(|column| from_array(column.as_ref(), 0)) {
            count = Some(first);
        }
    }
    count.ok_or_else(|| none().into())
}

/// The query with room for one row more than a limit that it has not asked for, and that limit: whether something is cut off is told.
fn bounded(query: &Query) -> (Query, Option<u64>) {
    match query.limit {
        Limit::Default(Some(limit)) => {
            (Query { limit: Limit::Asked(limit.saturating_add(1)), ..query.clone() }, Some(limit))
        }
        Limit::Asked(_) | Limit::Default(None) => (query.clone(), None),
    }
}

pub(super) fn write(out: &mut Vec<u8>, value: &impl serde::Serialize) {
    serde_json::to_writer(out, value).expect("memory takes whatever is written");
}

/// What a row has.
struct Shape {
    format: Format,
    /// For each column the names under which its value is told.
    names: Vec<Vec<String>>,
    /// The range that all rows are of, if that is told.
    range: Option<String>,
    /// More rows than these are cut off.
    max: Option<u64>,
    zone: TimeZone,
}

impl Shape {
    fn of(query: &Query, desc: &RelationDesc, kind: Kind, max: Option<u64>) -> Shape {
        let doubled = query.time_dimensions.iter().filter(|of| is_doubled(query, of));
        let doubled: Vec<_> = doubled.map(|of| (of.column(), of.dimension.to_string())).collect();
        let names = desc.columns.iter().map(|column| {
            let more = doubled.iter().filter(|(name, _)| *name == column.name).map(|(_, dimension)| dimension.clone());
            std::iter::once(column.name.clone()).chain(more).collect()
        });
        let range = query.time_dimensions.iter().find_map(|of| of.range).filter(|_| kind == Kind::Comparison);
        let range = range.map(|range| format!("{} - {}", printed(range.from), printed(range.last)));
        Shape { format: query.format, names: names.collect(), range, max, zone: TimeZone::Named(query.zone) }
    }

    /// What a list has, in its order.
    fn members(&self) -> Vec<&str> {
        let own = self.names.iter().flatten().map(String::as_str);
        own.chain(self.range.as_ref().map(|_| COMPARED)).collect()
    }
}

/// Rows one after the other, as objects or lists; whether there were more than are told.
async fn lines(rows: &mut Answering<'_>, shape: Shape, outlet: &mut impl Outlet) -> Result<bool, Refusal> {
    let is_list = shape.format == Format::Compact;
    let out = outlet.buffer();
    if is_list {
        out.extend_from_slice(b"{\"members\":");
        write(out, &shape.members());
        out.extend_from_slice(b",\"dataset\":");
    }
    out.push(b'[');
    let cells = Cells::new(options(rows), shape.zone);
    let lines = send(rows, Lines::new(shape, cells), outlet).await?;
    outlet.buffer().extend_from_slice(if is_list { b"]}" } else { b"]" });
    Ok(lines.max.is_some_and(|max| lines.count > max))
}

/// See [`lines`].
struct Lines {
    cells: Cells,
    is_list: bool,
    /// For each column what stands before its value, each time that it is told.
    names: Vec<Vec<Vec<u8>>>,
    /// What stands at the end of each row.
    range: Option<Vec<u8>>,
    max: Option<u64>,
    count: u64,
    is_first: bool,
}

impl Lines {
    fn new(shape: Shape, cells: Cells) -> Lines {
        let is_list = shape.format == Format::Compact;
        let before = |name: &str| {
            let mut before = Vec::new();
            if !is_list {
                string(&mut before, name);
                before.push(b':');
            }
            before
        };
        let range = shape.range.as_ref().map(|range| {
            let mut value = before(COMPARED);
            string(&mut value, range);
            value
        });
        let names = shape.names.iter().map(|names| names.iter().map(|name| before(name)).collect()).collect();
        Lines { cells, is_list, names, range, max: shape.max, count: 0, is_first: true }
    }

    fn is_over(&self) -> bool {
        self.max.is_some_and(|max| self.count > max)
    }

    fn separate(&mut self, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.is_first) {
            out.push(b',');
        }
    }
}

impl Form for Lines {
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.count += 1;
        if self.is_over() {
            return;
        }
        if self.count > 1 {
            out.push(b',');
        }
        out.push(if self.is_list { b'[' } else { b'{' });
        self.is_first = true;
    }

    fn value(&mut self, out: &mut Vec<u8>, at: usize, column: &ColumnDesc, datum: &Datum<'_>) {
        if self.is_over() {
            return;
        }
        for time in 0..self.names[at].len() {
            self.separate(out);
            out.extend_from_slice(&self.names[at][time]);
            self.cells.value(out, &column.ty, datum);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.is_over() {
            return;
        }
        if let Some(range) = self.range.take() {
            self.separate(out);
            out.extend_from_slice(&range);
            self.range = Some(range);
        }
        out.push(if self.is_list { b']' } else { b'}' });
    }
}

/// Rows column by column: all of them are in memory before the first is told.
async fn columns(rows: &mut Answering<'_>, shape: Shape, outlet: &mut impl Outlet) -> Result<bool, Refusal> {
    let desc = Arc::clone(&rows.desc().desc);
    let mut held = Reservation::empty(rows.session().message_memory());
    let mut left = shape.max.map_or(usize::MAX, |max| usize::try_from(max).unwrap_or(usize::MAX));
    let (mut batches, mut is_cut) = (Vec::new(), false);
    while let Some(batch) = rows.next().await? {
        is_cut |= batch.num_rows() > left;
        let batch = batch.slice(0, batch.num_rows().min(left));
        left -= batch.num_rows();
        held.try_grow(batch.get_array_memory_size()).map_err(AdapterError::from)?;
        batches.push(batch);
    }
    let mut cells = Cells::new(options(rows), shape.zone);
    let out = outlet.buffer();
    out.extend_from_slice(b"{\"members\":");
    write(out, &shape.members());
    out.extend_from_slice(b",\"columns\":[");
    let mut is_first = true;
    let places = shape.names.iter().enumerate().flat_map(|(at, names)| vec![Some(at); names.len()]);
    let places: Vec<Option<usize>> = places.chain(shape.range.as_ref().map(|_| None)).collect();
    for at in places {
        begin(&mut is_first, outlet.buffer(), b'[');
        let mut is_first = true;
        for batch in &batches {
            let mut out = std::mem::take(outlet.buffer());
            let (batch, ty) = (batch.clone(), at.map(|at| desc.columns[at].ty.clone()));
            let range = shape.range.clone().unwrap_or_default();
            // One column of a batch may be as large as its rows are.
            (cells, out) = elsewhere(move || {
                for row in 0..batch.num_rows() {
                    if row > 0 || !is_first {
                        out.push(b',');
                    }
                    match (at, &ty) {
                        (Some(at), Some(ty)) => cells.value(&mut out, ty, &value(&batch, at, row)?),
                        _ => string(&mut out, &range),
                    }
                }
                Ok::<_, AdapterError>((cells, out))
            })
            .await?;
            is_first = false;
            *outlet.buffer() = out;
            if outlet.buffer().len() >= PIECE_BYTES {
                outlet.flush().await?;
            }
        }
        outlet.buffer().push(b']');
    }
    outlet.buffer().extend_from_slice(b"]}");
    Ok(is_cut)
}

fn begin(is_first: &mut bool, out: &mut Vec<u8>, bracket: u8) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
    out.push(bracket);
}

fn value(batch: &RecordBatch, at: usize, row: usize) -> Result<Datum<'_>, AdapterError> {
    let array = batch.column(at);
    from_array(array.as_ref(), row)
        .ok_or_else(|| AdapterError::internal(format!("values of type {} cannot be sent", array.data_type())))
}

/// The time of day of a session, which is what a query's relative dates are relative to.
pub(super) fn now(session: &Session) -> Option<Instant> {
    at_micros(session.clock_us())
}

//! Joins of joins, groups and filters, of every type, beside what a loop over pairs of rows makes of them.

use crate::collection::{CollectionReader, CollectionTable};
use crate::morsels::{Collection, InMemory};
use crate::{Analysis, Engine, PlanFormat, SessionInfo};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use async_trait::async_trait;
use datafusion::common::{Column, JoinType, Result, Statistics, TableReference};
use datafusion::functions_aggregate::expr_fn::{count, max};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col, ident, lit};
use futures::TryStreamExt;
use ore::memory::Share;
use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use repr::{GlobalId, PgType, RelationDesc};
use std::collections::BTreeMap;
use std::sync::Arc;

type Row = Vec<Option<i64>>;

/// What reads tables of two columns, `a` of 32 bits and `b` of 64.
#[derive(Clone, Debug)]
enum Query {
    Table(usize),
    /// Rows whose column, of so many, is at least this.
    Filter(Box<Query>, usize, i64),
    /// A column's values, the greatest of another for each of them, and how many rows there are.
    Groups(Box<Query>, usize, usize),
    /// A join by one column of each side.
    Join(JoinType, Box<Query>, Box<Query>, usize, usize),
}

const TYPES: [JoinType; 8] = [
    JoinType::Inner,
    JoinType::Left,
    JoinType::Right,
    JoinType::Full,
    JoinType::LeftSemi,
    JoinType::LeftAnti,
    JoinType::RightSemi,
    JoinType::RightAnti,
];

impl Query {
    /// The rows, found one by one.
    fn rows(&self, tables: &[Vec<Row>]) -> Vec<Row> {
        match self {
            Query::Table(at) => tables[*at].clone(),
            Query::Filter(input, column, least) => {
                let mut rows = input.rows(tables);
                rows.retain(|row| row[column % row.len()].is_some_and(|value| value >= *least));
                rows
            }
            Query::Groups(input, by, of) => {
                let mut groups: BTreeMap<Option<i64>, (Option<i64>, i64)> = BTreeMap::new();
                for row in input.rows(tables) {
                    let group = groups.entry(row[by % row.len()]).or_default();
                    *group = (group.0.max(row[of % row.len()]), group.1 + 1);
                }
                groups.into_iter().map(|(by, (most, count))| vec![by, most, Some(count)]).collect()
            }
            Query::Join(ty, left, right, of_left, of_right) => {
                joined(*ty, (left.rows(tables), left.width(), *of_left), (right.rows(tables), right.width(), *of_right))
            }
        }
    }

    fn width(&self) -> usize {
        match self {
            Query::Table(_) => 2,
            Query::Filter(input, ..) => input.width(),
            Query::Groups(..) => 3,
            Query::Join(ty, left, right, ..) => match ty {
                JoinType::LeftSemi | JoinType::LeftAnti => left.width(),
                JoinType::RightSemi | JoinType::RightAnti => right.width(),
                _ => left.width() + right.width(),
            },
        }
    }

    /// The plan, and its columns. `names` counts what has been named.
    fn plan(&self, names: &mut usize) -> Result<(LogicalPlanBuilder, Vec<Of>)> {
        *names += 1;
        let name = format!("n{names}");
        match self {
            Query::Table(at) => {
                let source = CollectionTable::source(GlobalId::User(*at as u64), desc());
                let column = |of: &str| Column::new(Some(TableReference::bare(name.clone())), of);
                let columns = vec![Of(column("a"), true), Of(column("b"), false)];
                Ok((LogicalPlanBuilder::scan(name.clone(), source, None)?, columns))
            }
            Query::Filter(input, column, least) => {
                let (input, columns) = input.plan(names)?;
                let filter = columns[column % columns.len()].as_long().gt_eq(lit(*least));
                Ok((input.filter(filter)?, columns))
            }
            Query::Groups(input, by, of) => {
                let (input, columns) = input.plan(names)?;
                let column = |at: &usize| columns[at % columns.len()].plain();
                let kinds = (columns[by % columns.len()].1, columns[of % columns.len()].1);
                let made = ["g", "m", "c"].map(|part| format!("{name}{part}"));
                let groups =
                    input.aggregate([column(by)], [max(column(of)).alias(&made[1]), count(lit(1)).alias(&made[2])])?;
                let all = [column(by).alias(&made[0]), ident(&made[1]), ident(&made[2])];
                let [by, most, count] = made.map(Column::new_unqualified);
                Ok((groups.project(all)?, vec![Of(by, kinds.0), Of(most, kinds.1), Of(count, false)]))
            }
            Query::Join(ty, left, right, of_left, of_right) => {
                let ((left, mut columns), (right, others)) = (left.plan(names)?, right.plan(names)?);
                let (one, other) = (&columns[of_left % columns.len()], &others[of_right % others.len()]);
                let on = match one.1 == other.1 {
                    true => one.plain().eq(other.plain()),
                    false => one.as_long().eq(other.as_long()),
                };
                match ty {
                    JoinType::LeftSemi | JoinType::LeftAnti => {}
                    JoinType::RightSemi | JoinType::RightAnti => columns = others,
                    _ => columns.extend(others),
                }
                Ok((left.join_on(right.build()?, *ty, [on])?, columns))
            }
        }
    }
}

/// A column of a plan, and whether it is of 32 bits.
#[derive(Clone)]
struct Of(Column, bool);

impl Of {
    fn plain(&self) -> Expr {
        Expr::Column(self.0.clone())
    }

    fn as_long(&self) -> Expr {
        if self.1 { cast(self.plain(), DataType::Int64) } else { self.plain() }
    }
}

fn joined(ty: JoinType, (left, width, of_left): (Vec<Row>, usize, usize), right: (Vec<Row>, usize, usize)) -> Vec<Row> {
    let (right, right_width, of_right) = right;
    let (of_left, of_right) = (of_left % width, of_right % right_width);
    let (mut rows, mut left_found, mut right_found) = (Vec::new(), vec![false; left.len()], vec![false; right.len()]);
    let pairs = matches!(ty, JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full);
    for (i, one) in left.iter().enumerate() {
        for (j, other) in right.iter().enumerate() {
            if one[of_left].is_some() && one[of_left] == other[of_right] {
                (left_found[i], right_found[j]) = (true, true);
                if pairs {
                    rows.push([one.as_slice(), other].concat());
                }
            }
        }
    }
    let of = |rows: &[Row], found: &[bool], wanted: bool| -> Vec<Row> {
        rows.iter().zip(found).filter(|(_, found)| **found == wanted).map(|(row, _)| row.clone()).collect()
    };
    let nothing = |width: usize| vec![None; width];
    let alone = |row: Row| [row, nothing(right_width)].concat();
    let other_alone = |row: Row| [nothing(width), row].concat();
    if matches!(ty, JoinType::Left | JoinType::Full) {
        rows.extend(of(&left, &left_found, false).into_iter().map(alone));
    }
    if matches!(ty, JoinType::Right | JoinType::Full) {
        rows.extend(of(&right, &right_found, false).into_iter().map(other_alone));
    }
    match ty {
        JoinType::LeftSemi | JoinType::LeftAnti => of(&left, &left_found, ty == JoinType::LeftSemi),
        JoinType::RightSemi | JoinType::RightAnti => of(&right, &right_found, ty == JoinType::RightSemi),
        _ => rows,
    }
}

fn desc() -> Arc<RelationDesc> {
    let columns = [("a", PgType::Int4), ("b", PgType::Int8)];
    Arc::new(RelationDesc::new(columns.map(|(name, ty)| (name.to_owned(), ty, true))))
}

struct Tables(Vec<Vec<Row>>);

#[async_trait]
impl CollectionReader for Tables {
    fn row_count(&self, id: GlobalId, _filters: &[Expr]) -> Option<usize> {
        let GlobalId::User(at) = id else { return None };
        Some(self.0[at as usize].len())
    }

    fn statistics(&self, _id: GlobalId) -> Option<Arc<Statistics>> {
        None
    }

    async fn open(&self, id: GlobalId, _filters: &[Expr]) -> Result<Arc<dyn Collection>> {
        let GlobalId::User(at) = id else { unreachable!("all tables are users'") };
        let rows = &self.0[at as usize];
        let small = |row: &Row| row[0].map(|a| i32::try_from(a).expect("a is small"));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(rows.iter().map(small).collect::<Int32Array>()),
            Arc::new(rows.iter().map(|row| row[1]).collect::<Int64Array>()),
        ];
        Ok(Arc::new(InMemory(RecordBatch::try_new(Arc::clone(&desc().schema), columns)?)))
    }
}

/// Runs a plan in so many partitions, and gives its rows in their order.
async fn run(plan: LogicalPlan, tables: &[Vec<Row>], partitions: usize) -> Vec<Row> {
    let engine = Engine::with(&[], Share::root(usize::MAX, None), partitions, None);
    let session = SessionInfo::default();
    let plan = engine.optimize(plan, &session).expect("it is a plan");
    let stream = engine.execute(plan, &session, Arc::new(Tables(tables.to_vec()))).await.expect("it runs");
    let batches: Vec<RecordBatch> = stream.try_collect().await.expect("it runs to its end");
    let value = |column: &ArrayRef, at: usize| {
        column.is_valid(at).then(|| match column.as_primitive_opt::<Int32Type>() {
            Some(small) => i64::from(small.value(at)),
            None => column.as_primitive::<Int64Type>().value(at),
        })
    };
    let row = |batch: &RecordBatch, at: usize| batch.columns().iter().map(|column| value(column, at)).collect();
    let rows = batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at)));
    let mut rows: Vec<Row> = rows.collect();
    rows.sort();
    rows
}

fn queries() -> impl Strategy<Value = Query> {
    let column = || 0..6_usize;
    (0..4_usize).prop_map(Query::Table).prop_recursive(5, 24, 2, move |inner| {
        let join = (0..TYPES.len(), inner.clone(), inner.clone(), column(), column());
        prop_oneof![
            6 => join.prop_map(|(ty, left, right, one, other)| {
                Query::Join(TYPES[ty], Box::new(left), Box::new(right), one, other)
            }),
            1 => (inner.clone(), column(), -20..20_i64).prop_map(|(of, at, least)| Query::Filter(Box::new(of), at, least)),
            2 => (inner, column(), column()).prop_map(|(of, by, most)| Query::Groups(Box::new(of), by, most)),
        ]
    })
}

/// Rows with values that meet each other's, but for some that are far from all.
fn tables() -> impl Strategy<Value = Vec<Vec<Row>>> {
    let near = || prop_oneof![8 => (-20..20_i64).prop_map(Some), 1 => Just(None)];
    let far = prop_oneof![20 => near(), 1 => any::<i64>().prop_map(Some)];
    let row = (near(), far).prop_map(|(a, b)| vec![a, b]);
    prop::collection::vec(prop::collection::vec(row, 0..25), 4)
}

proptest! {
    #[test]
    fn joins_give_what_a_loop_over_pairs_gives(query in queries(), tables in tables(), partitions in 1..8_usize) {
        let (plan, columns) = query.plan(&mut 0).expect("sound");
        // Of two columns of one name a plan cannot tell which is meant.
        let columns = columns.into_iter().enumerate().map(|(at, of)| of.plain().alias(format!("c{at}")));
        let plan = plan.project(columns).and_then(LogicalPlanBuilder::build).expect("sound");
        let mut expected = query.rows(&tables);
        expected.sort();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("it starts");
        // Half of the runs have filters by keys.
        for _ in 0..4 {
            prop_assert_eq!(&runtime.block_on(run(plan.clone(), &tables, partitions)), &expected);
        }
    }
}

/// The rows that the scan of a large table gives to a join with a small one.
async fn scanned(ty: JoinType, plan: impl FnOnce(LogicalPlanBuilder) -> Result<LogicalPlanBuilder>) -> String {
    let large: Vec<Row> = (0..20_000).map(|at| vec![Some(at), Some(at % 5_000)]).collect();
    let small = [3, 5_000, 70_000].map(|a| vec![Some(a), None]).to_vec();
    let source = |at| CollectionTable::source(GlobalId::User(at), desc());
    let large_side = plan(LogicalPlanBuilder::scan("l", source(0), None).expect("a table")).expect("sound");
    let on = col("s.a").eq(col("l.a"));
    let join = LogicalPlanBuilder::scan("s", source(1), None).and_then(|s| s.join_on(large_side.build()?, ty, [on]));
    let engine = Engine::with(&[], Share::root(usize::MAX, None), 2, None);
    let session = SessionInfo::default();
    let plan = engine.optimize(join.and_then(LogicalPlanBuilder::build).expect("sound"), &session).expect("a plan");
    let mut rows = String::new();
    // Where the small side is in several partitions, one may begin to look for partners before the keys of another are known.
    for _ in 0..50 {
        let reader = Arc::new(Tables(vec![large.clone(), small.clone()]));
        let analyzed = engine.analyze(plan.clone(), &session, reader, PlanFormat::Text).await.expect("it runs");
        let plan = Analysis::of(analyzed).await.expect("it ran").plan;
        let scan = plan.lines().find(|line| line.contains("CollectionExec: u0")).expect("it is scanned");
        let of_run = scan.split("output_rows=").nth(1).and_then(|rows| rows.split([',', ']']).next());
        rows = of_run.expect("rows are counted").to_owned();
        if rows != ALL {
            break;
        }
    }
    rows
}

/// How all rows of the large table are counted.
const ALL: &str = "20.00 K";

#[tokio::test]
async fn scans_give_what_joins_want() {
    assert_eq!(scanned(JoinType::Inner, Ok).await, "2");
    assert_eq!(scanned(JoinType::Left, Ok).await, "2");
    assert_eq!(scanned(JoinType::LeftAnti, Ok).await, "2");
    // Whatever else is between that keeps the rows apart.
    let grouped = scanned(JoinType::Inner, |l| {
        l.filter(col("l.b").gt_eq(lit(1_i64)))?.aggregate([col("l.a")], [max(col("l.b"))])
    });
    assert_eq!(grouped.await, "1");
    // Not if the join gives the others, too, or if it is another question which rows there are.
    assert_eq!(scanned(JoinType::Full, Ok).await, ALL);
    let first = scanned(JoinType::Inner, |l| l.sort([col("l.b").sort(true, false)])?.limit(0, Some(9_000)));
    assert_eq!(first.await, ALL);
    let others = scanned(JoinType::Inner, |l| l.aggregate([col("l.b")], [max(col("l.a")).alias("a")])?.alias("l"));
    assert_eq!(others.await, ALL);
}

//! Rows as a program written by hand would have them: the columns that the programs read, as numbers where they are.
//!
//! Decimals are integers of their last digit, dates are `yyyymmdd`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tpch::{Row, Table};

/// A row of `lineitem`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Lineitem {
    pub(crate) orderkey: i64,
    pub(crate) suppkey: i32,
    pub(crate) quantity: i64,
    pub(crate) extendedprice: i64,
    pub(crate) discount: i64,
    pub(crate) tax: i64,
    pub(crate) returnflag: u8,
    pub(crate) linestatus: u8,
    pub(crate) shipdate: i32,
}

/// A row of `orders`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) orderkey: i64,
    pub(crate) custkey: i32,
    pub(crate) totalprice: i64,
    pub(crate) orderdate: i32,
    pub(crate) shippriority: i32,
}

/// A row of `customer`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Customer {
    pub(crate) custkey: i32,
    pub(crate) name: String,
    pub(crate) nationkey: i32,
    pub(crate) mktsegment: String,
}

/// A row of `supplier`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Supplier {
    pub(crate) suppkey: i32,
    pub(crate) nationkey: i32,
}

/// A row of `nation`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Nation {
    pub(crate) nationkey: i32,
    pub(crate) name: String,
    pub(crate) regionkey: i32,
}

/// A row of `region`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Region {
    pub(crate) regionkey: i32,
    pub(crate) name: String,
}

/// Updates of all tables that the programs read.
#[derive(Debug, Default)]
pub(crate) struct TypedRows {
    pub(crate) lineitem: Vec<(Lineitem, i64)>,
    pub(crate) orders: Vec<(Order, i64)>,
    pub(crate) customer: Vec<(Customer, i64)>,
    pub(crate) supplier: Vec<(Supplier, i64)>,
    pub(crate) nation: Vec<(Nation, i64)>,
    pub(crate) region: Vec<(Region, i64)>,
}

impl TypedRows {
    /// Adds copies of a row. Tables that no program reads are left out.
    pub(crate) fn push(&mut self, table: Table, row: &Row, diff: i64) -> Result<()> {
        let fields: Vec<&str> = row.fields().map(|field| field.unwrap_or_default()).collect();
        let text = |at: usize| fields[at].to_owned();
        let int = |at: usize| fields[at].parse::<i32>().with_context(|| format!("{row:?}, column {at}"));
        let long = |at: usize| fields[at].parse::<i64>().with_context(|| format!("{row:?}, column {at}"));
        let cents = |at: usize| decimal(fields[at]).with_context(|| format!("{row:?}, column {at}"));
        let date =
            |at: usize| fields[at].replace('-', "").parse::<i32>().with_context(|| format!("{row:?}, column {at}"));
        let byte = |at: usize| fields[at].bytes().next().unwrap_or(b' ');
        match table {
            Table::Lineitem => self.lineitem.push((
                Lineitem {
                    orderkey: long(0)?,
                    suppkey: int(2)?,
                    quantity: cents(4)?,
                    extendedprice: cents(5)?,
                    discount: cents(6)?,
                    tax: cents(7)?,
                    returnflag: byte(8),
                    linestatus: byte(9),
                    shipdate: date(10)?,
                },
                diff,
            )),
            Table::Orders => self.orders.push((
                Order {
                    orderkey: long(0)?,
                    custkey: int(1)?,
                    totalprice: cents(3)?,
                    orderdate: date(4)?,
                    shippriority: int(7)?,
                },
                diff,
            )),
            Table::Customer => self
                .customer
                .push((Customer { custkey: int(0)?, name: text(1), nationkey: int(3)?, mktsegment: text(6) }, diff)),
            Table::Supplier => self.supplier.push((Supplier { suppkey: int(0)?, nationkey: int(3)? }, diff)),
            Table::Nation => {
                self.nation.push((Nation { nationkey: int(0)?, name: text(1), regionkey: int(2)? }, diff));
            }
            Table::Region => self.region.push((Region { regionkey: int(0)?, name: text(1) }, diff)),
            Table::Part | Table::Partsupp => {}
        }
        Ok(())
    }
}

/// A decimal of at most two digits behind the point, in hundredths.
fn decimal(text: &str) -> Option<i64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let cents: i64 = format!("{rest:0<2}").parse().ok()?;
    let magnitude = whole.trim_start_matches('-').parse::<i64>().ok()? * 100 + cents;
    Some(if whole.starts_with('-') { -magnitude } else { magnitude })
}

/// An integer of its last digit as a decimal of `scale` digits behind the point.
pub(crate) fn shown(value: i64, scale: u32) -> String {
    let unit = 10_u64.pow(scale);
    let magnitude = value.unsigned_abs();
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}.{:0width$}", magnitude / unit, magnitude % unit, width = scale as usize)
}

/// `yyyymmdd` as a date.
pub(crate) fn shown_date(date: i32) -> String {
    format!("{:04}-{:02}-{:02}", date / 10_000, date / 100 % 100, date % 100)
}

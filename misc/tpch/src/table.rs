//! The tables and their rows.

use std::fmt;

/// One of the eight tables, small ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Five regions.
    Region,
    /// Twenty-five nations.
    Nation,
    /// 200,000 parts times the scale.
    Part,
    /// 10,000 suppliers times the scale.
    Supplier,
    /// Four suppliers of each part.
    Partsupp,
    /// 150,000 customers times the scale.
    Customer,
    /// 1,500,000 orders times the scale.
    Orders,
    /// One to seven lines of each order.
    Lineitem,
}

impl Table {
    /// All of them.
    pub const ALL: [Table; 8] = [
        Table::Region,
        Table::Nation,
        Table::Part,
        Table::Supplier,
        Table::Partsupp,
        Table::Customer,
        Table::Orders,
        Table::Lineitem,
    ];

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Part => "part",
            Table::Supplier => "supplier",
            Table::Partsupp => "partsupp",
            Table::Customer => "customer",
            Table::Orders => "orders",
            Table::Lineitem => "lineitem",
        }
    }

    /// Its columns, in order.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Region => &["r_regionkey", "r_name", "r_comment"],
            Table::Nation => &["n_nationkey", "n_name", "n_regionkey", "n_comment"],
            Table::Part => &[
                "p_partkey",
                "p_name",
                "p_mfgr",
                "p_brand",
                "p_type",
                "p_size",
                "p_container",
                "p_retailprice",
                "p_comment",
            ],
            Table::Supplier => {
                &["s_suppkey", "s_name", "s_address", "s_nationkey", "s_phone", "s_acctbal", "s_comment"]
            }
            Table::Partsupp => &["ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost", "ps_comment"],
            Table::Customer => &[
                "c_custkey",
                "c_name",
                "c_address",
                "c_nationkey",
                "c_phone",
                "c_acctbal",
                "c_mktsegment",
                "c_comment",
            ],
            Table::Orders => &[
                "o_orderkey",
                "o_custkey",
                "o_orderstatus",
                "o_totalprice",
                "o_orderdate",
                "o_orderpriority",
                "o_clerk",
                "o_shippriority",
                "o_comment",
            ],
            Table::Lineitem => &[
                "l_orderkey",
                "l_partkey",
                "l_suppkey",
                "l_linenumber",
                "l_quantity",
                "l_extendedprice",
                "l_discount",
                "l_tax",
                "l_returnflag",
                "l_linestatus",
                "l_shipdate",
                "l_commitdate",
                "l_receiptdate",
                "l_shipinstruct",
                "l_shipmode",
                "l_comment",
            ],
        }
    }

    /// The positions of the columns that identify a row.
    pub fn key(self) -> &'static [usize] {
        match self {
            Table::Partsupp => &[0, 1],
            Table::Lineitem => &[0, 3],
            _ => &[0],
        }
    }
}

/// A row in the form of a `.tbl` file: each field is followed by `|`, NULL is `\N`. No field holds a `|` of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(Box<str>);

/// How a field says NULL.
const NULL: &str = "\\N";

impl Row {
    /// The row of a line.
    pub(crate) fn new(line: impl fmt::Display) -> Row {
        Row(line.to_string().into_boxed_str())
    }

    /// Its fields; `None` is NULL.
    pub fn fields(&self) -> impl Iterator<Item = Option<&str>> {
        let line = self.0.strip_suffix('|').unwrap_or(&self.0);
        line.split('|').map(|field| (field != NULL).then_some(field))
    }

    /// One field.
    pub fn field(&self, at: usize) -> Option<&str> {
        self.fields().nth(at).flatten()
    }

    /// The row with another value in one field.
    pub(crate) fn with(&self, at: usize, value: Option<&str>) -> Row {
        let mut line = String::with_capacity(self.0.len());
        for (position, field) in self.fields().enumerate() {
            let field = if position == at { value } else { field };
            line.push_str(field.unwrap_or(NULL));
            line.push('|');
        }
        Row(line.into_boxed_str())
    }

    /// `('1', 'x', NULL)`: literals whose types the columns decide.
    pub fn values(&self) -> String {
        let literals: Vec<String> = self.fields().map(literal).collect();
        format!("({})", literals.join(", "))
    }

    /// The row as a line of COPY's text format, without the end of the line.
    pub fn copy_line(&self) -> String {
        let fields: Vec<&str> = self.fields().map(|field| field.unwrap_or(NULL)).collect();
        fields.join("\t")
    }
}

/// A value as an SQL literal.
pub(crate) fn literal(value: Option<&str>) -> String {
    value.map_or_else(|| "NULL".to_owned(), |value| format!("'{}'", value.replace('\'', "''")))
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn fields_are_found_and_replaced() {
        let row = Row::new("1|it's|\\N|2.50|");
        assert_eq!(row.fields().collect::<Vec<_>>(), [Some("1"), Some("it's"), None, Some("2.50")]);
        assert_eq!(row.values(), "('1', 'it''s', NULL, '2.50')");
        assert_eq!(row.with(1, None).with(2, Some("x")).copy_line(), "1\t\\N\tx\t2.50");
        assert_eq!(row.field(3), Some("2.50"));
    }
}

//! All rows of a scale, in memory.

use crate::table::{Row, Table};
use std::collections::HashSet;
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;

/// Comments are cut from this much text; the original's 300 MB take seconds to make and say nothing more.
const TEXT_BYTES: i32 = 4 << 20;

/// An order and its lines.
#[derive(Clone, Debug)]
pub struct Order {
    /// The row of `orders`.
    pub order: Row,
    /// The rows of `lineitem`.
    pub lines: Vec<Row>,
}

/// The rows of all tables.
#[derive(Clone, Debug)]
pub struct Data {
    /// The first six tables, in the order of [`Table::ALL`].
    pub(crate) small: [Vec<Row>; 6],
    /// `orders` and `lineitem`.
    pub(crate) orders: Vec<Order>,
}

impl Data {
    /// The rows at a scale: 1 has 1.5 million orders, 0.001 has 1,500.
    pub fn generate(scale: f64) -> Data {
        let distributions = Distributions::static_default();
        let pool = TextPool::new(TEXT_BYTES, distributions);
        let regions = RegionGenerator::new_with_distributions_and_text_pool(distributions, &pool);
        let nations = NationGenerator::new_with_distributions_and_text_pool(distributions, &pool);
        let parts = PartGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, &pool);
        let suppliers = SupplierGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, &pool);
        let partsupps = PartSuppGenerator::new_with_text_pool(scale, 1, 1, &pool);
        let customers = CustomerGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, &pool);
        let orders = OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, &pool);
        let lines = LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, &pool);
        // With few suppliers the formula that picks a part's four picks some twice.
        let mut keys = HashSet::new();
        let is_new = |row: &Row| keys.insert((row.field(0).map(str::to_owned), row.field(1).map(str::to_owned)));
        let small = [
            regions.iter().map(Row::new).collect(),
            nations.iter().map(Row::new).collect(),
            parts.iter().map(Row::new).collect(),
            suppliers.iter().map(Row::new).collect(),
            partsupps.iter().map(Row::new).filter(is_new).collect(),
            customers.iter().map(Row::new).collect(),
        ];
        let mut lines = lines.iter().map(Row::new).peekable();
        let orders = orders.iter().map(Row::new).map(|order| {
            let mut own = Vec::new();
            while let Some(line) = lines.next_if(|line| line.field(0) == order.field(0)) {
                own.push(line);
            }
            Order { order, lines: own }
        });
        let orders = orders.collect();
        assert!(lines.next().is_none(), "lines come in the order of their orders");
        Data { small, orders }
    }

    /// The rows of a table.
    pub fn rows(&self, table: Table) -> Box<dyn Iterator<Item = &Row> + '_> {
        match table {
            Table::Orders => Box::new(self.orders.iter().map(|order| &order.order)),
            Table::Lineitem => Box::new(self.orders.iter().flat_map(|order| &order.lines)),
            small => Box::new(self.small[small as usize].iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Data;
    use crate::table::Table;
    use std::collections::BTreeSet;

    #[test]
    fn rows_have_the_columns_of_their_tables_and_unique_keys() {
        let data = Data::generate(0.001);
        for table in Table::ALL {
            let mut keys = BTreeSet::new();
            for row in data.rows(table) {
                assert_eq!(row.fields().count(), table.columns().len(), "{}: {row:?}", table.name());
                assert!(keys.insert(table.key().iter().map(|at| row.field(*at)).collect::<Vec<_>>()), "{row:?}");
            }
        }
        assert_eq!(data.rows(Table::Orders).count(), 1_500);
        assert!(data.rows(Table::Lineitem).count() > 5_000);
    }
}

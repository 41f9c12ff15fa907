//! TPC-H 1, 3, 5 and 18 as one would write them for differential dataflow directly: typed rows cut to what is needed before
//! they are arranged, sums kept as multiplicities, the first rows found through a tree of small groups.
//!
//! They take liberties that a database cannot: no column is NULL, nothing overflows, a group whose sum is zero is absent.

use crate::by_hand::{Inputs, Shown};
use crate::typed::{shown, shown_date};
use differential_dataflow::hashable::Hashable;
use differential_dataflow::{ExchangeData, VecCollection};

/// The queries that there are programs for.
pub(crate) const ALL: [u8; 4] = [1, 3, 5, 18];

type Rows<'scope, D> = VecCollection<'scope, u64, D, i64>;

/// Builds the program of a query; its result goes to `shown`.
///
/// # Panics
/// When there is no program for it.
pub(crate) fn build<'scope>(query: u8, inputs: Inputs<'scope>, shown: &mut Shown) {
    match query {
        1 => query_1(inputs, shown),
        3 => query_3(inputs, shown),
        5 => query_5(inputs, shown),
        18 => query_18(inputs, shown),
        other => panic!("there is no program for query {other}"),
    }
}

/// Six sums under a key of two bytes.
fn query_1(inputs: Inputs<'_>, out: &mut Shown) {
    let sums = inputs
        .lineitem
        .filter(|line| line.shipdate <= 19_980_902)
        .explode(|line| {
            let discounted = line.extendedprice * (100 - line.discount);
            let charge = discounted * (100 + line.tax);
            let sums = ((line.quantity, line.extendedprice), (discounted, charge), (line.discount, 1));
            Some(((line.returnflag, line.linestatus), sums))
        })
        .count_core::<i64>();
    out.show(sums, &[0, 1, 2, 3, 4, 5, 9], |(flag, status), ((quantity, price), (discounted, charge), (_, count))| {
        let letter = |byte: &u8| char::from(*byte).to_string();
        let sums = [shown(*quantity, 2), shown(*price, 2), shown(*discounted, 4), shown(*charge, 6)];
        [vec![letter(flag), letter(status)], sums.to_vec(), vec![count.to_string()]].concat()
    });
}

fn query_3(inputs: Inputs<'_>, out: &mut Shown) {
    let customers = inputs.customer.filter(|row| row.mktsegment == "BUILDING").map(|row| (row.custkey, ()));
    let orders = inputs
        .orders
        .filter(|order| order.orderdate < 19_950_315)
        .map(|order| (order.custkey, (order.orderkey, order.orderdate, order.shippriority)))
        .join_map(customers, |_, (orderkey, date, priority), ()| (*orderkey, (*date, *priority)));
    let revenue = inputs
        .lineitem
        .filter(|line| line.shipdate > 19_950_315)
        .explode(|line| Some(((line.orderkey, ()), line.extendedprice * (100 - line.discount))));
    let groups = revenue
        .join_map(orders, |orderkey, (), (date, priority)| (*orderkey, *date, *priority))
        .count_core::<i64>()
        .map(|((orderkey, date, priority), revenue)| (-revenue, date, orderkey, priority));
    out.show(first(groups, 10).map(|row| (row, ())), &[0, 1, 2, 3], |(revenue, date, orderkey, priority), ()| {
        vec![orderkey.to_string(), shown(-revenue, 4), shown_date(*date), priority.to_string()]
    });
}

fn query_5(inputs: Inputs<'_>, out: &mut Shown) {
    let regions = inputs.region.filter(|row| row.name == "AFRICA").map(|row| (row.regionkey, ()));
    let nations = inputs
        .nation
        .map(|row| (row.regionkey, (row.nationkey, row.name)))
        .join_map(regions, |_, (nationkey, name), ()| (*nationkey, name.clone()))
        .arrange_by_key();
    let suppliers = inputs.supplier.map(|row| (row.nationkey, row.suppkey));
    let suppliers =
        suppliers.join_core(nations.clone(), |nation, supplier, name| Some(((*supplier, *nation), name.clone())));
    let customers = inputs.customer.map(|row| (row.nationkey, row.custkey));
    let customers = customers.join_core(nations, |nation, customer, _| Some((*customer, *nation)));
    let orders = inputs
        .orders
        .filter(|order| (19_940_101..19_960_101).contains(&order.orderdate))
        .map(|order| (order.custkey, order.orderkey))
        .join_map(customers, |_, orderkey, nation| (*orderkey, *nation));
    let revenue = inputs
        .lineitem
        .explode(|line| Some(((line.orderkey, line.suppkey), line.extendedprice * (100 - line.discount))))
        .join_map(orders, |_, supplier, nation| ((*supplier, *nation), ()))
        .join_map(suppliers, |_, (), name| name.clone())
        .count_core::<i64>();
    out.show(revenue, &[0, 1], |name, revenue| vec![name.clone(), shown(*revenue, 4)]);
}

fn query_18(inputs: Inputs<'_>, out: &mut Shown) {
    let large = inputs
        .lineitem
        .explode(|line| Some((line.orderkey, line.quantity)))
        .count_core::<i64>()
        .filter(|(_, quantity)| *quantity > 25_000);
    let customers = inputs.customer.map(|row| (row.custkey, row.name));
    let orders = inputs
        .orders
        .map(|order| (order.orderkey, (order.custkey, order.totalprice, order.orderdate)))
        .join_map(large, |orderkey, (customer, price, date), quantity| {
            (*customer, (-*price, *date, *orderkey, *quantity))
        })
        .join_map(customers, |customer, (price, date, orderkey, quantity), name| {
            (*price, *date, *orderkey, *quantity, *customer, name.clone())
        });
    out.show(
        first(orders, 100).map(|row| (row, ())),
        &[0, 1, 2, 3, 4, 5],
        |(price, date, orderkey, quantity, customer, name), ()| {
            vec![
                name.clone(),
                customer.to_string(),
                orderkey.to_string(),
                shown_date(*date),
                shown(-price, 2),
                shown(*quantity, 2),
            ]
        },
    );
}

/// The first `count` rows, through groups of groups: a change reads the first rows of its own small groups only.
fn first<'scope, D: ExchangeData + Hashable<Output = u64>>(rows: Rows<'scope, D>, count: usize) -> Rows<'scope, D> {
    [12, 8, 4, 0].into_iter().fold(rows, |rows, bits| {
        rows.map(move |row| (row.hashed() & ((1 << bits) - 1), row))
            .reduce(move |_, input, output| {
                output.extend(input.iter().take(count).map(|(row, _)| ((*row).clone(), 1)));
            })
            .map(|(_, row)| row)
    })
}

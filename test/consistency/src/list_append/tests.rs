//! Histories made by hand: each anomaly is found, and named; what is allowed is not.

use super::*;

/// A transaction from `call` to `answer`.
fn txn(call: u64, answer: u64, steps: &[Step]) -> Txn {
    let (outcome, client) = (Outcome::Committed, 0);
    Txn { client, call_ns: call * 10, return_ns: answer * 10 + 5, outcome, steps: steps.to_vec() }
}

/// Transactions that all overlap.
fn at_once(all: &[&[Step]]) -> Vec<Txn> {
    all.iter().map(|steps| txn(0, 100, steps)).collect()
}

fn append(key: u64, value: u64) -> Step {
    Step::Append { key, value }
}

fn read(key: u64, list: &[u64]) -> Step {
    Step::Read { key, list: list.to_vec() }
}

/// What is found first, and whether in real time.
fn found(history: &[Txn]) -> Option<(Kind, bool)> {
    check(history).first().map(|anomaly| (anomaly.kind, anomaly.in_real_time))
}

const X: u64 = 1;
const Y: u64 = 2;

#[test]
fn a_serial_history_is_fine() {
    let history = [
        txn(0, 1, &[append(X, 1), append(Y, 1)]),
        txn(2, 3, &[read(X, &[1]), append(X, 2), read(X, &[1, 2])]),
        txn(4, 5, &[read(X, &[1, 2]), read(Y, &[1])]),
        txn(6, 7, &[append(X, 3), append(X, 4), read(X, &[1, 2, 3, 4])]),
        txn(8, 9, &[read(X, &[1, 2, 3, 4])]),
    ];
    assert_eq!(found(&history), None, "{:?}", check(&history));
}

#[test]
fn concurrent_transactions_may_have_either_order() {
    for seen in [&[][..], &[1][..]] {
        let history = [txn(0, 10, &[append(X, 1)]), txn(5, 6, &[read(X, seen)]), txn(20, 21, &[read(X, &[1])])];
        assert_eq!(found(&history), None);
    }
}

#[test]
fn garbage_and_duplicates() {
    assert_eq!(found(&at_once(&[&[append(X, 1)], &[read(X, &[1, 7])]])), Some((Kind::Garbage, false)));
    assert_eq!(found(&at_once(&[&[append(X, 1)], &[read(X, &[1, 1])]])), Some((Kind::Duplicate, false)));
}

#[test]
fn reads_of_incompatible_orders() {
    let history = at_once(&[&[append(X, 1)], &[append(X, 2)], &[read(X, &[1, 2])], &[read(X, &[2])]]);
    assert_eq!(found(&history), Some((Kind::IncompatibleOrder, false)));
}

#[test]
fn a_transaction_that_does_not_see_its_own() {
    assert_eq!(found(&at_once(&[&[append(X, 1), read(X, &[])]])), Some((Kind::Internal, false)));
    let changed = at_once(&[&[append(X, 1)], &[read(X, &[]), read(X, &[1])]]);
    assert_eq!(found(&changed), Some((Kind::Internal, false)));
}

#[test]
fn g0_dirty_write() {
    let history = at_once(&[
        &[append(X, 1), append(Y, 1)],
        &[append(X, 2), append(Y, 2)],
        &[read(X, &[1, 2])],
        &[read(Y, &[2, 1])],
    ]);
    assert_eq!(found(&history), Some((Kind::G0, false)));
}

#[test]
fn g1a_aborted_read() {
    let mut history = at_once(&[&[append(X, 1)], &[read(X, &[1])]]);
    assert_eq!(found(&history), None);
    history[0].outcome = Outcome::Aborted;
    assert_eq!(found(&history), Some((Kind::G1a, false)));
}

#[test]
fn g1b_intermediate_read() {
    let history = at_once(&[&[append(X, 1), append(X, 2)], &[read(X, &[1])], &[read(X, &[1, 2])]]);
    assert_eq!(found(&history), Some((Kind::G1b, false)));
}

#[test]
fn g1c_circular_information_flow() {
    let history = at_once(&[&[append(X, 1), read(Y, &[1])], &[append(Y, 1), read(X, &[1])]]);
    assert_eq!(found(&history), Some((Kind::G1c, false)));
}

#[test]
fn g_single_read_skew() {
    let history = at_once(&[&[append(X, 1), append(Y, 1)], &[read(X, &[1]), read(Y, &[])], &[read(Y, &[1])]]);
    assert_eq!(found(&history), Some((Kind::GSingle, false)));
}

#[test]
fn lost_update() {
    let history = at_once(&[&[read(X, &[]), append(X, 1)], &[read(X, &[]), append(X, 2)], &[read(X, &[1, 2])]]);
    assert_eq!(found(&history), Some((Kind::LostUpdate, false)));
}

#[test]
fn g2_write_skew() {
    let history =
        at_once(&[&[read(X, &[]), append(Y, 1)], &[read(Y, &[]), append(X, 1)], &[read(X, &[1])], &[read(Y, &[1])]]);
    assert_eq!(found(&history), Some((Kind::G2, false)));
}

#[test]
fn a_stale_read_violates_real_time_alone() {
    let stale = [txn(0, 1, &[append(X, 1)]), txn(2, 3, &[read(X, &[])]), txn(4, 5, &[read(X, &[1])])];
    assert_eq!(found(&stale), Some((Kind::GSingle, true)));
    let back = [txn(0, 9, &[append(X, 1)]), txn(1, 2, &[read(X, &[1])]), txn(3, 4, &[read(X, &[])])];
    assert_eq!(found(&back), Some((Kind::GSingle, true)));
}

#[test]
fn a_read_from_the_future_violates_real_time() {
    let history = [txn(0, 1, &[read(X, &[1])]), txn(2, 3, &[append(X, 1)])];
    assert_eq!(found(&history), Some((Kind::G1c, true)));
}

#[test]
fn writes_in_the_wrong_order_of_time() {
    let history = [txn(0, 1, &[append(X, 1)]), txn(2, 3, &[append(X, 2)]), txn(0, 9, &[read(X, &[2, 1])])];
    assert_eq!(found(&history), Some((Kind::G0, true)));
}

#[test]
fn an_acknowledged_append_that_is_lost() {
    let nothing = [txn(0, 1, &[append(X, 1)]), txn(2, 3, &[read(X, &[])])];
    assert_eq!(found(&nothing), Some((Kind::GSingle, true)));
    let other = [txn(0, 1, &[append(X, 1)]), txn(0, 1, &[append(X, 2)]), txn(2, 3, &[read(X, &[2])])];
    assert_eq!(found(&other), Some((Kind::GSingle, true)));
}

#[test]
fn an_unknown_append_may_be_seen_or_not_but_not_forgotten() {
    let unknown = || {
        let mut txn = txn(0, 0, &[append(X, 1)]);
        (txn.outcome, txn.return_ns) = (Outcome::Unknown, u64::MAX);
        txn
    };
    assert_eq!(found(&[unknown(), txn(2, 3, &[read(X, &[])])]), None);
    assert_eq!(found(&[unknown(), txn(2, 3, &[read(X, &[1])])]), None);
    assert_eq!(found(&[unknown(), txn(2, 3, &[read(X, &[])]), txn(4, 5, &[read(X, &[1])])]), None);
    let forgotten = [unknown(), txn(2, 3, &[read(X, &[1])]), txn(4, 5, &[read(X, &[])])];
    assert_eq!(found(&forgotten), Some((Kind::GSingle, true)));
}

/// Random serial histories are fine whatever overlaps; one with a stale read is not.
#[test]
fn long_histories_are_judged_quickly_and_rightly() {
    let mut lists = vec![Vec::new(); 20];
    let mut history = Vec::new();
    for n in 0..6_000_u64 {
        let key = n * 7 % 20;
        let list = &mut lists[usize::try_from(key).expect("small")];
        let step = if n % 3 == 0 {
            list.push(n);
            append(key, n)
        } else {
            read(key, list)
        };
        // It happens at n, and overlaps with a few others.
        history.push(txn((n * 2).saturating_sub(n % 11), n * 2 + 1 + n % 7, &[step]));
    }
    assert_eq!(found(&history), None);
    let stale = history.len();
    history.push(txn(14_000, 14_001, &[read(0, &lists[0][..lists[0].len() - 1])]));
    assert_eq!(found(&history), Some((Kind::GSingle, true)), "{stale}");
}

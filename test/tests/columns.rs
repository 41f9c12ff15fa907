//! Column names and type OIDs are PostgreSQL's, in both protocols.

use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use glimpse_test::{blocks, columns, slt};

#[test]
fn names_and_types_of_columns_are_those_of_postgres() {
    let target = Target::start().expect("the server starts");
    let (mut passed, mut failed) = (0, Vec::new());
    for path in slt::files(&columns::dir(), "txt").expect("the directory is readable") {
        let (some_passed, some_failed) = slt::in_own_database(&target, |database| {
            let mut wire = Wire::start(target.admin_addr(), "mz_system", database)?;
            blocks::check(&path, target.is_glimpse(), |input| columns::run(&mut wire, input))
        })
        .expect("the file runs");
        passed += some_passed;
        failed.extend(some_failed);
    }
    eprintln!("columns: {passed} passed, {} failed", failed.len());
    assert!(passed + failed.len() > 0, "there are files");
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

//! Scripts of wire messages are answered as PostgreSQL answers them.

use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use glimpse_test::{blocks, pgtest, slt};

#[test]
fn messages_are_answered_as_by_postgres() {
    let target = Target::start().expect("the server starts");
    let (mut passed, mut failed) = (0, Vec::new());
    for path in slt::files(&pgtest::dir(), "pt").expect("the directory is readable") {
        let (some_passed, some_failed) = slt::in_own_database(&target, |database| {
            let open = || Wire::start(target.admin_addr(), "mz_system", database);
            let mut wire = open()?;
            blocks::check(&path, target.is_glimpse(), |input| {
                let result = pgtest::run(&mut wire, input);
                if result.is_err() {
                    wire = open()?;
                }
                result
            })
        })
        .expect("the file runs");
        passed += some_passed;
        failed.extend(some_failed);
    }
    eprintln!("pgtest: {passed} passed, {} failed", failed.len());
    assert!(passed + failed.len() > 0, "there are files");
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

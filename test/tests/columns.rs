//! Column names and type OIDs are PostgreSQL's, in both protocols, and those of functions are what `pg_proc` says.

use glimpse_test::target::Target;
use glimpse_test::wire::Wire;
use glimpse_test::{blocks, columns, slt};
use std::collections::HashMap;

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

/// Of each function its name, its kind, the type of its result, whether its rows have several columns, the types of its
/// arguments, and that of its last one if it repeats, which is an array among them. Functions that only types call are left out.
const FUNCTIONS: &str = "
    SELECT p.proname, p.prokind, p.prorettype, p.proallargtypes IS NOT NULL AND p.provariadic = 0, p.proargtypes, p.provariadic
    FROM pg_proc p
    WHERE NOT EXISTS (SELECT FROM pg_type t
                      WHERE p.oid IN (t.typinput, t.typoutput, t.typreceive, t.typsend, t.typmodin, t.typmodout))
    ORDER BY p.oid";

/// Aggregates over an ordered group, by how many of their arguments stand in front of the group.
const ORDERED: [(&str, usize); 7] = [
    ("mode", 0),
    ("percentile_cont", 1),
    ("percentile_disc", 1),
    ("rank", 1),
    ("dense_rank", 1),
    ("percent_rank", 1),
    ("cume_dist", 1),
];

/// What stands for an argument of a pseudo-type.
fn stand_in(oid: &str) -> Option<&'static str> {
    Some(match oid {
        "2276" | "2283" | "2776" | "5077" | "5079" => "int4",
        "2277" | "5078" => "int4[]",
        _ => return None,
    })
}

#[test]
fn what_pg_proc_lists_can_be_called() {
    let target = Target::start().expect("the server starts");
    if !target.is_glimpse() {
        // PostgreSQL lists what only its own modules call.
        return;
    }
    let mut wire = target.admin().expect("a session");
    let text = |value: &Option<String>| value.clone().expect("no NULL");
    let types = wire.rows("SELECT oid, format_type(oid, NULL) FROM pg_type");
    let types: HashMap<String, String> =
        types.expect("types").iter().map(|row| (text(&row[0]), text(&row[1]))).collect();
    let (mut called, mut wrong) = (0, Vec::new());
    for row in wire.rows(FUNCTIONS).expect("functions") {
        let row: Vec<String> = row.iter().map(text).collect();
        let [name, kind, result, has_columns, args, repeated] = row.as_slice() else { panic!("{row:?}") };
        let named = |oid: &str| stand_in(oid).map(str::to_owned).or_else(|| types.get(oid).cloned());
        let Some(mut names) = args.split_whitespace().map(named).collect::<Option<Vec<String>>>() else { continue };
        if repeated != "0" {
            names.pop();
            names.extend(named(repeated));
        }
        if stand_in(result).is_none() && !types.contains_key(result) {
            continue;
        }
        let mut values: Vec<String> = names.iter().map(|ty| format!("NULL::{ty}")).collect();
        if name.ends_with("_build_object") && !values.is_empty() {
            values = vec!["'a'".to_owned(), "1".to_owned()];
        }
        let ordered = ORDERED.iter().find(|(ordered, _)| ordered == name && kind == "a");
        if matches!(ordered, Some((_, 1))) && values.len() == 1 {
            values.push(values[0].clone());
        }
        let arguments = match (ordered, values.as_slice()) {
            (Some((_, 0)), [value]) => format!("() WITHIN GROUP (ORDER BY {value})"),
            (Some(_), [direct, .., value]) => format!("({direct}) WITHIN GROUP (ORDER BY {value})"),
            (_, []) if name == "count" => "(*)".to_owned(),
            (_, values) => format!("({})", values.join(", ")),
        };
        let sql = match (has_columns == "t", kind == "w") {
            (true, _) => format!("SELECT * FROM \"{name}\"{arguments} WHERE false"),
            (false, true) => format!("SELECT \"{name}\"{arguments} OVER () WHERE false"),
            (false, false) => format!("SELECT \"{name}\"{arguments} WHERE false"),
        };
        let lines = columns::run(&mut wire, std::slice::from_ref(&sql)).expect("the server answers");
        called += 1;
        let ty = lines[0].split(' ').nth(1).unwrap_or_default();
        let is_right =
            !lines[0].starts_with("error") && (has_columns == "t" || stand_in(result).is_some() || ty == result);
        if !is_right {
            wrong.push(format!("{sql}: {lines:?} instead of {result}"));
        }
    }
    eprintln!("pg_proc: {called} functions called");
    assert!(called > 600, "there are functions");
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

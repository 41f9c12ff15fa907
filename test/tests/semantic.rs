//! Semantic models, from outside.

use glimpse_test::server::find_binary;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// What `--check-model` of a directory says, and its exit code.
fn check(dir: &Path) -> (String, i32) {
    let binary = find_binary().expect("the server is built");
    let at = TempDir::new().expect("a directory");
    let output = Command::new(binary).current_dir(at.path()).arg("--check-model").arg(dir).output().expect("it runs");
    // No server was started.
    assert_eq!(std::fs::read_dir(at.path()).expect("it is there").count(), 0);
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).expect("UTF-8"), output.status.code().expect("it ends by itself"))
}

fn directory(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().expect("a directory");
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    }
    dir
}

const CUBE: &str = "cubes:\n  - name: c\n    sql_table: t\n    refresh_key: {every: 1 hour}\n";

#[test]
fn a_directory_is_checked_without_a_server() {
    let right = directory(&[
        ("cubes/c.yml", CUBE),
        ("views/v.yaml", "views: [{name: v, cubes: [{join_path: c, includes: \"*\"}]}]\n"),
        (".git/x.yml", "{"),
        ("notes.txt", "{{"),
    ]);
    // A link that leads back.
    std::os::unix::fs::symlink(right.path(), right.path().join("cubes/again")).expect("a link");
    let said = "notice: cubes/c.yml:4:18: `refresh_key` has no effect: answers are always fresh\nnothing is wrong; cubes: 1, views: 1\n";
    assert_eq!(check(right.path()), (said.to_owned(), 0));

    let wrong = directory(&[
        ("c.yml", CUBE),
        ("d.yml", "cubes:\n  - name: d\n    sql_tabel: t\n    measures: [{name: n, type: cuont}]\n"),
    ]);
    let (said, code) = check(wrong.path());
    let errors = [
        "error: d.yml:2:5: a cube has `sql_table` or `sql`, and here is neither\n",
        "error: d.yml:3:5: unknown key of cube `d` `sql_tabel` (did you mean `sql_table`?)\n",
        "error: d.yml:4:32: unknown `type` of measure `n` `cuont` (did you mean `count`?)\nerrors: 3\n",
    ];
    assert!(said.contains(&errors.concat()), "{said}");
    assert_eq!(code, 1);

    let (said, code) = check(directory(&[("notes.txt", "")]).path());
    assert!(said.contains("there is no cube and no view in"), "{said}");
    assert_eq!(code, 1);
    let (said, code) = check(&right.path().join("missing"));
    assert!(said.contains("cannot read directory"), "{said}");
    assert_eq!(code, 1);
}

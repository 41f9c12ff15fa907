//! Whether histories of registers are linearizable: porcupine says (`porcupine/main.go`).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, bail};
use glimpse_test::programs::program;

use crate::registers::Operation;

/// The checker, built once. `None` if there is no Go or it cannot be built, which is said in one line.
pub fn checker() -> Option<&'static PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let built = || build(&program("go", "GLIMPSE_GO")?).inspect_err(|error| eprintln!("SKIPPED: {error:#}")).ok();
    BUILT.get_or_init(built).as_ref()
}

/// Builds beside what else was built, where it stays for whoever needs it next: histories of one process are judged at the same
/// time, and a binary that another process builds replaces this one whole.
fn build(go: &Path) -> anyhow::Result<PathBuf> {
    let binary = std::env::current_exe()?.with_file_name("porcupine");
    let own = binary.with_extension(std::process::id().to_string());
    let mut command = Command::new(go);
    command.current_dir(manifest_dir().join("porcupine")).args(["build", "-o"]).arg(&own).arg(".");
    let output = command.output().context("porcupine could not be built")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("porcupine could not be built: {}", said.lines().last().unwrap_or_default());
    }
    std::fs::rename(own, &binary).context("porcupine could not be kept")?;
    Ok(binary)
}

/// Where this crate's data is: what cargo says when it runs a test, because a build cache may be older than the checkout.
fn manifest_dir() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), Into::into)
}

/// What is wrong with a history; nothing, if there is an order that explains it.
pub fn check(history: &[Operation]) -> anyhow::Result<Vec<String>> {
    let Some(binary) = checker() else { return Ok(Vec::new()) };
    let mut child = Command::new(binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("stdin is piped")?;
    for operation in history {
        writeln!(input, "{}", operation.json())?;
    }
    drop(input);
    let output = child.wait_with_output()?;
    let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).context("a verdict")?;
    let keys = |name: &str| -> Vec<u64> {
        verdict[name].as_array().into_iter().flatten().filter_map(serde_json::Value::as_u64).collect()
    };
    if let Some(key) = keys("unknown").first() {
        bail!("nobody can tell whether the history of register {key} is linearizable");
    }
    let say = |key: u64| {
        let of_key = history.iter().filter(|operation| operation.key == key);
        let lines: Vec<String> = of_key.map(|operation| format!("\n  {operation:?}")).collect();
        format!("register {key} is not linearizable:{}", lines.concat())
    };
    Ok(keys("wrong").into_iter().map(say).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::Action;

    fn operation(action: Action, call_ns: u64, return_ns: u64) -> Operation {
        Operation { client: 0, key: 7, action, call_ns, return_ns }
    }

    #[test]
    fn porcupine_tells_the_possible_from_the_impossible() {
        if checker().is_none() {
            return;
        }
        let write = operation(Action::Write(1), 0, 10);
        let lost = operation(Action::Write(1), 0, u64::MAX);
        let (stale, fresh) = (operation(Action::Read(Some(0)), 20, 30), operation(Action::Read(Some(1)), 40, 50));
        let failed = |had| operation(Action::CompareAndSet { expected: 1, value: 2, had: Some(had) }, 20, 30);
        let swapped = |found| operation(Action::Swap { found: Some(found), value: 5 }, 20, 30);
        for (history, is_fine) in [
            (vec![write.clone(), fresh.clone()], true),
            (vec![write.clone(), stale.clone()], false),
            (vec![lost.clone(), stale.clone(), fresh.clone()], true),
            (vec![lost, fresh, operation(Action::Read(Some(0)), 60, 70)], false),
            (vec![write.clone(), failed(true)], true),
            (vec![write.clone(), failed(false)], false),
            (vec![write.clone(), swapped(1), operation(Action::Read(Some(5)), 40, 50)], true),
            (vec![write, swapped(0)], false),
        ] {
            assert_eq!(check(&history).expect("it runs").is_empty(), is_fine, "{history:?}");
        }
    }
}

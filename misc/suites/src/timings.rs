//! Where the time of a build went, from the reports that `cargo --timings` writes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::build::Built;

/// Packages that are listed.
const SHOWN: usize = 30;

/// Seconds by package and kind of what was compiled, the longest first.
pub(crate) fn crates(built: &Built) -> Result<Vec<(String, f64)>> {
    let mut seconds: BTreeMap<String, f64> = BTreeMap::new();
    for report in &built.reports {
        add(&std::fs::read_to_string(report)?, &mut seconds).with_context(|| report_name(report))?;
    }
    let mut seconds: Vec<(String, f64)> = seconds.into_iter().filter(|(_, seconds)| *seconds >= 0.1).collect();
    seconds.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: f64 = seconds.iter().map(|(_, seconds)| seconds).sum();
    let rest = seconds.len().saturating_sub(SHOWN);
    seconds.truncate(SHOWN);
    let shown: f64 = seconds.iter().map(|(_, seconds)| seconds).sum();
    seconds.push((format!("{rest} others"), all - shown));
    seconds.push(("sum, on all processors".to_owned(), all));
    Ok(seconds)
}

fn report_name(report: &Path) -> String {
    format!("{} has no list of units as cargo writes it", report.display())
}

/// Adds what one report says: a page that has its data as a constant of its script.
fn add(page: &str, seconds: &mut BTreeMap<String, f64>) -> Result<()> {
    let data = page.split("const UNIT_DATA = ").nth(1).context("UNIT_DATA")?;
    let units = serde_json::Deserializer::from_str(data).into_iter::<Value>().next().context("a list")??;
    for unit in units.as_array().context("a list")? {
        let text = |key: &str| unit[key].as_str().unwrap_or_default();
        let name = format!("{}{}", text("name"), text("target"));
        *seconds.entry(name).or_default() += unit["duration"].as_f64().context("a duration")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let page = "<script>\nconst UNIT_DATA = [{\"name\":\"a\",\"target\":\"\",\"duration\":1.5},\n\
            {\"name\":\"a\",\"target\":\" test\",\"duration\":2}];\nconst OTHER = 1;";
        let mut seconds = BTreeMap::new();
        add(page, &mut seconds).unwrap();
        add(page, &mut seconds).unwrap();
        assert_eq!(seconds.into_iter().collect::<Vec<_>>(), [("a".to_owned(), 3.0), ("a test".to_owned(), 4.0)]);
        assert!(add("<html>", &mut BTreeMap::new()).is_err());
    }
}

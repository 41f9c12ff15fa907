//! Measurements to tables: medians, ratios, the bars.
//!
//! # Invariants
//! - A ratio is the median of the ratios of single rounds, in which the two servers ran one after the other; it is not the
//!   ratio of two medians, which would compare moments that may be minutes apart.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::run::LoadReport;
use crate::servers::Target;
use crate::suite::{CASES, READS_ALONE, Results};

/// One line of what must be reached.
pub struct Bar {
    what: &'static str,
    unit: Unit,
    /// The bar of the first release, then the one where it must end.
    first: f64,
    last: f64,
    /// The measurement; none when that workload, server or number of connections did not run.
    measured: Option<f64>,
}

/// How a bar's numbers read, and which direction is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// A ratio: more is better.
    Times,
    /// Microseconds of CPU: less is better.
    Micros,
    /// Megabytes: less is better.
    Megabytes,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Times => format!("{value:.2}x"),
            Self::Micros => format!("{value:.1} us"),
            Self::Megabytes => format!("{value:.0} MB"),
        }
    }

    fn reaches(self, value: f64, bar: f64) -> bool {
        match self {
            Self::Times => value >= bar,
            Self::Micros | Self::Megabytes => value <= bar,
        }
    }
}

/// The whole report for a person, in Markdown.
pub fn render(results: &Results) -> String {
    let mut out = String::new();
    let options = &results.options;
    // Writing to a String does not fail.
    let _ = writeln!(out, "{}\n", results.machine.line());
    for (target, version) in &results.versions {
        let _ = writeln!(out, "- {}: {version}", target.name());
    }
    let _ = writeln!(
        out,
        "- {} rounds of {:?} after {:?} of warm-up; {} client threads; {} rows; seed {}; portals described: {}\n",
        options.rounds, options.duration, options.warmup, options.threads, options.rows, options.seed, options.describe
    );
    table(results, &mut out);
    tls_table(results, &mut out);
    if let Some(memory) = &results.memory {
        let _ = writeln!(
            out,
            "\nMemory of Glimpse, {} rows with index: {:.0} MB resident ({:.0} MB empty, {:.0} MB peak); loaded in {:.1} s, indexed in {:.1} s.",
            memory.rows,
            megabytes(memory.loaded_bytes),
            megabytes(memory.empty_bytes),
            megabytes(memory.peak_bytes),
            memory.load_seconds,
            memory.index_seconds
        );
    }
    let checks: u64 = results.measurements.iter().map(|measurement| measurement.report.freshness_checks).sum();
    let _ = writeln!(out, "\nRows written beside the reads, each seen by the next read: {checks}.\n");
    bars_table(&bars(results), &mut out);
    out
}

/// Everything as JSON: settings, every run, the bars.
pub fn to_json(results: &Results) -> Value {
    let options = &results.options;
    let runs: Vec<Value> = results
        .measurements
        .iter()
        .map(|one| {
            json!({
                "case": one.case,
                "connections": one.connections,
                "round": one.round,
                "server": one.target.name(),
                "report": one.report.to_json(),
            })
        })
        .collect();
    let bars: Vec<Value> = bars(results)
        .iter()
        .map(|bar| json!({ "what": bar.what, "first": bar.first, "last": bar.last, "measured": bar.measured }))
        .collect();
    let memory = results.memory.as_ref().map(|memory| {
        json!({
            "rows": memory.rows,
            "empty_bytes": memory.empty_bytes,
            "loaded_bytes": memory.loaded_bytes,
            "peak_bytes": memory.peak_bytes,
            "load_seconds": memory.load_seconds,
            "index_seconds": memory.index_seconds,
        })
    });
    let versions: Vec<Value> = results
        .versions
        .iter()
        .map(|(target, version)| json!({ "server": target.name(), "version": version }))
        .collect();
    json!({
        "machine": results.machine.to_json(),
        "versions": versions,
        "settings": {
            "rounds": options.rounds,
            "duration_seconds": options.duration.as_secs_f64(),
            "warmup_seconds": options.warmup.as_secs_f64(),
            "threads": options.threads,
            "rows": options.rows,
            "seed": options.seed,
            "describe": options.describe,
        },
        "memory": memory,
        "bars": bars,
        "runs": runs,
    })
}

fn table(results: &Results, out: &mut String) {
    out.push_str(
        "| workload | conns | Glimpse /s | / floor | / PG | p50 us | p99 us | p99.9 us | server CPU us/query: Glimpse | floor | PG | client | floor /s | PG /s |\n",
    );
    out.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    let names = CASES.iter().flat_map(|case| case.beside.into_iter().chain([case.name]));
    for name in names {
        for connections in &results.options.connections {
            row(results, name, *connections, out);
        }
    }
}

/// What is left of the point reads over TLS, beside those without on the same server.
fn tls_table(results: &Results, out: &mut String) {
    let pairs = CASES.iter().filter(|case| case.tls).filter_map(|case| Some((case.name, case.beside?)));
    let pairs = pairs.flat_map(|pair| results.options.connections.iter().map(move |connections| (pair, *connections)));
    let mut rows = Vec::new();
    for ((case, beside), connections) in pairs {
        let ratios = [Target::Glimpse, Target::Postgres].map(|target| {
            let qps = |name, round| Some(results.report(name, connections, target, round)?.qps);
            results.by_round(|round| Some(qps(case, round)? / qps(beside, round)?))
        });
        if ratios.iter().any(Option::is_some) {
            let [glimpse, postgres] = ratios.map(|ratio| cell(ratio, 2));
            rows.push(format!("| {case} / {beside} | {connections} | {glimpse} | {postgres} |"));
        }
    }
    if !rows.is_empty() {
        let head = "| over TLS / without | conns | Glimpse | PG |\n|---|--:|--:|--:|";
        let _ = writeln!(out, "\n{head}\n{}", rows.join("\n"));
    }
}

fn row(results: &Results, case: &str, connections: u32, out: &mut String) {
    let of = |target, field: fn(&LoadReport) -> Option<f64>| results.median(case, connections, target, field);
    let qps: fn(&LoadReport) -> Option<f64> = |report| Some(report.qps);
    let cpu: fn(&LoadReport) -> Option<f64> = |report| report.server_cpu_us;
    // Without Glimpse, the row shows the first server that ran.
    let shown = [Target::Glimpse, Target::Postgres, Target::Floor];
    let Some(shown) = shown.into_iter().find(|target| of(*target, qps).is_some()) else {
        return;
    };
    let _ = writeln!(
        out,
        "| {case} | {connections} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        cell(of(Target::Glimpse, qps), 0),
        cell(results.ratio(case, connections, Target::Floor), 2),
        cell(results.ratio(case, connections, Target::Postgres), 2),
        cell(of(shown, |report| Some(report.latency.p50_us)), 0),
        cell(of(shown, |report| Some(report.latency.p99_us)), 0),
        cell(of(shown, |report| Some(report.latency.p999_us)), 0),
        cell(of(Target::Glimpse, cpu), 2),
        cell(of(Target::Floor, cpu), 2),
        cell(of(Target::Postgres, cpu), 2),
        cell(of(shown, |report| Some(report.client_cpu_us)), 2),
        cell(of(Target::Floor, qps), 0),
        cell(of(Target::Postgres, qps), 0),
    );
}

fn bars_table(bars: &[Bar], out: &mut String) {
    out.push_str("| bar | measured | first bar | where it must end | |\n|---|--:|--:|--:|---|\n");
    for bar in bars {
        let (measured, verdict) = match bar.measured {
            None => ("not measured".to_owned(), ""),
            Some(value) if bar.unit.reaches(value, bar.last) => (bar.unit.show(value), "done"),
            Some(value) if bar.unit.reaches(value, bar.first) => (bar.unit.show(value), "met"),
            Some(value) => (bar.unit.show(value), "MISSED"),
        };
        let (first, last) = (bar.unit.show(bar.first), bar.unit.show(bar.last));
        let _ = writeln!(out, "| {} | {measured} | {first} | {last} | {verdict} |", bar.what);
    }
}

/// What must be reached, and what was. The numbers are the project's performance contract.
fn bars(results: &Results) -> Vec<Bar> {
    use Unit::{Megabytes, Micros, Times};
    let floor = |case| results.ratio(case, 64, Target::Floor);
    let postgres = |case, connections| results.ratio(case, connections, Target::Postgres);
    let bar = |what, unit, first, last, measured| Bar { what, unit, first, last, measured };
    let memory = results.memory.as_ref().map(|memory| megabytes(memory.loaded_bytes));
    vec![
        bar("select_star vs floor, 64 connections", Times, 0.85, 0.97, floor("select_star")),
        bar("point simple vs floor, 64", Times, 0.70, 0.90, floor("point_simple")),
        bar("point simple vs PostgreSQL, 64", Times, 2.5, 4.0, postgres("point_simple", 64)),
        bar("point prepared vs PostgreSQL, 64", Times, 2.0, 3.0, postgres("point_prepared", 64)),
        bar(
            "server CPU above the floor, point simple, 64",
            Micros,
            4.0,
            1.5,
            results.cpu_above_floor("point_simple", 64),
        ),
        bar("pipelined vs PostgreSQL, 64", Times, 1.5, 4.0, postgres("pipelined", 64)),
        bar("reads during 10 % writes vs reads alone, 64", Times, 0.6, 0.9, results.reads_during_writes(64)),
        bar("durable insert vs PostgreSQL, 1", Times, 0.7, 1.0, postgres("insert_simple", 1)),
        bar("durable insert vs PostgreSQL, 16", Times, 1.0, 2.0, postgres("insert_simple", 16)),
        bar("durable insert vs PostgreSQL, 64", Times, 1.0, 3.0, postgres("insert_simple", 64)),
        bar("memory, 1 M rows with index", Megabytes, 300.0, 120.0, memory),
    ]
}

impl Results {
    fn report(&self, case: &str, connections: u32, target: Target, round: u32) -> Option<&LoadReport> {
        let found = self.measurements.iter().find(|one| {
            one.case == case && one.connections == connections && one.target == target && one.round == round
        });
        found.map(|one| &one.report)
    }

    fn by_round(&self, value: impl Fn(u32) -> Option<f64>) -> Option<f64> {
        median((0..self.options.rounds).filter_map(value).collect())
    }

    fn median(
        &self,
        case: &str,
        connections: u32,
        target: Target,
        field: impl Fn(&LoadReport) -> Option<f64>,
    ) -> Option<f64> {
        self.by_round(|round| field(self.report(case, connections, target, round)?))
    }

    /// Queries per second of Glimpse over those of `other`.
    fn ratio(&self, case: &str, connections: u32, other: Target) -> Option<f64> {
        self.by_round(|round| {
            let glimpse = self.report(case, connections, Target::Glimpse, round)?;
            let other = self.report(case, connections, other, round)?;
            Some(glimpse.qps / other.qps)
        })
    }

    fn cpu_above_floor(&self, case: &str, connections: u32) -> Option<f64> {
        self.by_round(|round| {
            let glimpse = self.report(case, connections, Target::Glimpse, round)?.server_cpu_us?;
            let floor = self.report(case, connections, Target::Floor, round)?.server_cpu_us?;
            Some(glimpse - floor)
        })
    }

    /// Reads per second while one query in ten is a write, over reads per second without writes.
    fn reads_during_writes(&self, connections: u32) -> Option<f64> {
        self.by_round(|round| {
            let mixed = self.report("mixed", connections, Target::Glimpse, round)?;
            let alone = self.report(READS_ALONE, connections, Target::Glimpse, round)?;
            Some(mixed.reads_per_second / alone.reads_per_second)
        })
    }
}

/// The middle of some values; none of none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        let low = middle.checked_sub(1)?;
        return Some((values[low] + values[middle]) / 2.0);
    }
    values.get(middle).copied()
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn less_is_better_for_costs() {
        assert!(Unit::Times.reaches(1.0, 0.9) && !Unit::Times.reaches(0.8, 0.9));
        assert!(Unit::Micros.reaches(1.0, 1.5) && !Unit::Micros.reaches(2.0, 1.5));
    }
}

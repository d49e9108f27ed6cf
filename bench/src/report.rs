//! What was measured, as a table for people or as JSON for programs.

use std::time::Duration;

use serde_json::{Value, json};

/// All figures of one run.
#[derive(Default)]
pub(crate) struct Report {
    facts: Vec<(String, String)>,
    rows: Vec<Row>,
}

struct Row {
    what: String,
    figure: String,
    target: Option<(String, bool)>,
    value: Value,
}

impl Report {
    /// Something about the machine or the settings.
    pub(crate) fn fact(&mut self, what: &str, value: impl ToString) {
        self.facts.push((what.into(), value.to_string()));
    }

    /// A figure, without a target.
    pub(crate) fn figure(&mut self, what: &str, figure: String, value: impl Into<Value>) {
        self.push(Row { what: what.into(), figure, target: None, value: value.into() });
    }

    /// A figure with a target, and whether it was met.
    pub(crate) fn check(
        &mut self,
        what: &str,
        figure: String,
        value: impl Into<Value>,
        target: &str,
        met: bool,
    ) {
        let target = Some((target.into(), met));
        self.push(Row { what: what.into(), figure, target, value: value.into() });
    }

    fn push(&mut self, row: Row) {
        eprintln!("{}", line(&row));
        self.rows.push(row);
    }

    /// Prints everything; true if every target was met.
    pub(crate) fn print(&self, as_json: bool) -> bool {
        if as_json {
            let facts: serde_json::Map<_, _> =
                self.facts.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            let rows: Vec<_> = self
                .rows
                .iter()
                .map(|row| {
                    json!({
                        "what": row.what,
                        "value": row.value,
                        "figure": row.figure,
                        "target": row.target.as_ref().map(|(text, _)| text),
                        "met": row.target.as_ref().map(|(_, met)| met),
                    })
                })
                .collect();
            println!("{}", json!({ "machine": facts, "figures": rows }));
        } else {
            println!();
            for (what, value) in &self.facts {
                println!("{what:<18} {value}");
            }
            println!();
            for row in &self.rows {
                println!("{}", line(row));
            }
        }
        self.rows.iter().all(|row| row.target.as_ref().is_none_or(|(_, met)| *met))
    }
}

fn line(row: &Row) -> String {
    let target = match &row.target {
        Some((text, true)) => format!("  target {text}: met"),
        Some((text, false)) => format!("  target {text}: MISSED"),
        None => String::new(),
    };
    format!("{:<58} {:>30}{target}", row.what, row.figure)
}

/// The value in the middle.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value below which `part` of all lie.
pub(crate) fn percentile(values: &mut [Duration], part: f64) -> Duration {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * part) as usize]
}

/// The middle of some times, and where the last hundredth of them begins.
pub(crate) fn spread(times: &mut [Duration]) -> String {
    format!("p50 {:.1?}, p99 {:.1?}", percentile(times, 0.5), percentile(times, 0.99))
}

/// The middle of some times, in microseconds.
pub(crate) fn p50_us(times: &mut [Duration]) -> u64 {
    percentile(times, 0.5).as_micros() as u64
}

/// A rate with thousands apart.
pub(crate) fn rate(per_second: f64) -> String {
    let digits = format!("{per_second:.0}");
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out + "/s"
}

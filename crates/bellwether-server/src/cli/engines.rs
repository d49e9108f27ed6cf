//! `bellwether engines`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::{Elections, EngineFacts};
use clap::Args;
use serde_json::{Value, json};

use super::failure::Ended;
use super::human::ms;
use super::screen::{Format, Screen};
use super::table::pairs;

const EXAMPLES: &str = "\
Examples:
  bellwether engines
  bellwether engines --output json | jq '.[] | select(.built_in).name'";

/// What elections can be kept on, what each can do, and which this program was built with.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Engines {
    /// How the answer is written: lines for people, or JSON.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    output: Format,
}

fn is_built_in(facts: &EngineFacts) -> bool {
    let features = [
        ("", true),
        ("azure-blob", cfg!(feature = "azure-blob")),
        ("etcd", cfg!(feature = "etcd")),
        ("nats", cfg!(feature = "nats")),
        ("postgres", cfg!(feature = "postgres")),
        ("zookeeper", cfg!(feature = "zookeeper")),
    ];
    features.contains(&(facts.feature, true))
}

fn form(facts: &EngineFacts) -> Value {
    json!({
        "name": facts.name,
        "address": facts.scheme,
        "feature": facts.feature,
        "built_in": is_built_in(facts),
        "ttl_min_ms": ms(facts.ttl_min),
        "terms": facts.terms,
        "wakes_by": facts.wakes_by,
        "line": facts.line,
        "renewal": facts.renewal,
        "lacks": facts.lacks,
    })
}

impl Engines {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let mut screen = Screen::new(out, self.output);
        let engines = Elections::engines();
        if screen.is_json() {
            screen.json(&engines.iter().map(form).collect())?;
            return Ok(ExitCode::SUCCESS);
        }
        for (nth, facts) in engines.iter().enumerate() {
            if nth > 0 {
                screen.line("")?;
            }
            let built_in = match (is_built_in(facts), facts.feature) {
                (true, _) => "yes".to_owned(),
                (false, feature) => format!("no: build with --features {feature}"),
            };
            for line in pairs(&[
                ("engine", facts.name.to_owned()),
                ("address", facts.scheme.to_owned()),
                ("built in", built_in),
                ("shortest ttl", format!("{:?}", facts.ttl_min)),
                ("terms", facts.terms.to_owned()),
                ("wakes by", facts.wakes_by.to_owned()),
                ("line", facts.line.to_owned()),
                ("a renewal costs", facts.renewal.to_owned()),
                ("lacks", facts.lacks.to_owned()),
            ]) {
                screen.line(&line)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

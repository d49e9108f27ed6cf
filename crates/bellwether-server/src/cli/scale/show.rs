//! `bellwether scale --show`: who scales a queue, and how it decided.

use std::process::ExitCode;

use bellwether::{Bellwether, Error};
use serde_json::json;

use super::super::failure::Ended;
use super::super::screen::Screen;
use super::super::table::Table;
use super::plan::{HostReport, newest};

/// What those who scale tell each other.
async fn reports(store: &Bellwether, election: &str) -> Result<Vec<HostReport>, Error> {
    let told = store.reports(election).await?;
    Ok(told.iter().filter_map(|report| serde_json::from_str(&report.text).ok()).collect())
}

pub(super) async fn show(store: &Bellwether, election: &str, screen: &mut Screen<'_>) -> Ended {
    let reports = reports(store, election).await?;
    let plan = newest(&reports);
    if screen.is_json() {
        let hosts: Vec<_> =
            reports.iter().map(|report| HostReport { plan: None, ..report.clone() }).collect();
        screen.json(&json!({ "election": election, "hosts": hosts, "plan": plan }))?;
        return Ok(found(!reports.is_empty()));
    }
    let heading = ["HOST", ">ROOM", ">WANTED", ">RUNNING", ">STARTING", ">BUSY", ">FAILING"];
    let mut hosts = Table::new(&heading);
    for report in &reports {
        let wanted = plan.and_then(|plan| plan.shares.get(&report.instance)).copied();
        hosts.row([
            report.at.clone(),
            report.room.to_string(),
            wanted.map_or_else(|| "-".into(), |wanted| wanted.to_string()),
            report.running.to_string(),
            report.starting.to_string(),
            report.busy.to_string(),
            report.failing.to_string(),
        ]);
    }
    screen.table(&hosts)?;
    for told in plan.iter().flat_map(|plan| &plan.decisions) {
        screen.line(&format!("{}  {}", told.at, told.decision))?;
    }
    Ok(found(!reports.is_empty()))
}

fn found(any: bool) -> ExitCode {
    if any { ExitCode::SUCCESS } else { ExitCode::from(super::super::failure::NOTHING) }
}

//! `bellwether session`: the ordered groups of a queue.

mod list;
mod show;

use std::io::Write;

use bellwether::core::outcome::{Holder, SessionInfo};
use clap::Subcommand;
use serde_json::{Value, json};

use super::failure::Ended;
use super::form;

/// Look at the sessions of a queue.
#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    List(list::List),
    Show(show::Show),
}

impl Session {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::List(list) => list.run(out),
            Self::Show(show) => show.run(out),
        }
    }
}

fn to_json(info: &SessionInfo, state: Option<&[u8]>) -> Value {
    let holder = |holder: Holder| {
        json!({
            "member": holder.member.map(|id| id.to_string()),
            "remaining_ms": holder.remaining_ms,
        })
    };
    let text = state.and_then(|state| std::str::from_utf8(state).ok());
    json!({
        "session": info.id.as_str(),
        "messages": info.messages,
        "held_by": info.hold.map(holder),
        "waits_for": info.waits_for.map(|number| number.0),
        "state": text,
        "state_base64": state.map(form::base64),
    })
}

//! `bellwether request`: work that is asked for, and what became of it.

mod send;
mod show;

use std::io::Write;

use bellwether::{Message, RequestResult, ResultState};
use clap::Subcommand;
use serde_json::{Value, json};

use super::failure::Ended;
use super::form;
use super::human::Wall;
use super::screen::Screen;
use super::table::pairs;

/// Ask for work, and look at what became of it.
#[derive(Debug, Subcommand)]
pub(crate) enum Request {
    Send(send::Send),
    Show(show::Show),
}

impl Request {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match self {
            Self::Send(send) => send.run(out),
            Self::Show(show) => show.run(out),
        }
    }
}

fn state_name(state: ResultState) -> &'static str {
    match state {
        ResultState::Pending => "pending",
        ResultState::Running { .. } => "running",
        ResultState::Succeeded => "succeeded",
        ResultState::Failed => "failed",
        ResultState::Gone => "gone",
    }
}

fn percent(state: ResultState) -> Option<u32> {
    match state {
        ResultState::Running { percent } => percent,
        _ => None,
    }
}

/// How it stands, for people or for programs.
fn tell(screen: &mut Screen<'_>, id: &str, result: &RequestResult) -> std::io::Result<()> {
    if screen.is_json() {
        return screen.json(&to_json(id, result));
    }
    let state = match percent(result.state) {
        Some(percent) => format!("{}, {percent} %", state_name(result.state)),
        None => state_name(result.state).into(),
    };
    let mut lines = vec![
        ("request", id.to_owned()),
        ("state", state),
        ("asked", Wall(result.created_at).to_string()),
        ("updated", Wall(result.updated_at).to_string()),
        ("kept until", Wall(result.expires_at).to_string()),
    ];
    let text = |message: &Message| String::from_utf8_lossy(message.body()).into_owned();
    lines.extend(result.message.as_ref().map(|message| ("answer", text(message))));
    pairs(&lines).iter().try_for_each(|line| screen.line(line))
}

fn to_json(id: &str, result: &RequestResult) -> Value {
    let message = result.message.as_ref();
    json!({
        "request": id,
        "state": state_name(result.state),
        "percent": percent(result.state),
        "created_at": form::time(result.created_at),
        "updated_at": form::time(result.updated_at),
        "expires_at": form::time(result.expires_at),
        "content_type": message.and_then(|message| message.content_type.as_deref()),
        "answer": message.and_then(Message::text),
        "answer_base64": message.map(|message| form::base64(message.body())),
    })
}

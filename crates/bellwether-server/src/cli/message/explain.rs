//! `bellwether message explain`.

use std::io::Write;
use std::process::ExitCode;

use bellwether::core::name::Part;
use bellwether::core::outcome::{Cause, Explanation, Holder, MemberInfo};
use bellwether::core::time::WallTime;
use bellwether::{Error, Refusal, SequenceNumber};
use clap::Args;
use serde_json::{Value, json};

use super::super::failure::Ended;
use super::super::form;
use super::super::human::{Span, Wall, count};
use super::super::pages::find;
use super::super::reach::{Reach, now};
use super::show::not_there;

const EXAMPLES: &str = "\
Examples:
  bellwether message explain orders 17
  bellwether message explain orders 17 --output json | jq -r '.causes[].cause'";

/// Why is a message not being delivered?
///
/// Says what keeps it, the nearest first: it waits for its time, a receiver has it, the queue is
/// paused, its session is held, it expired, it is a dead letter, others are before it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    /// Which queue.
    queue: String,
    /// Which message, by its number.
    number: u64,
    #[command(flatten)]
    reach: Reach,
}

/// What the sentences are made of, besides the causes.
struct Told {
    now: WallTime,
    members: Vec<MemberInfo>,
    /// What the receiver that made it a dead letter said.
    said: Option<(String, Option<String>)>,
}

impl Explain {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        self.reach.look(out, async |store, screen| {
            let queue = store.queue(&self.queue)?;
            let sequence = SequenceNumber(self.number);
            let explanation = match queue.explain(sequence).await {
                Err(Error::Refused(Refusal::MessageNotFound(_))) => {
                    return Err(not_there(&queue, sequence));
                }
                explanation => explanation?,
            };
            let said = match explanation.part {
                Part::Main => None,
                Part::Dead => find(&queue.dead_letters(), sequence).await?,
            };
            let said = said.and_then(|letter| {
                let description = letter.dead_letter_description().map(str::to_owned);
                Some((letter.dead_letter_reason()?.to_owned(), description))
            });
            let told = Told { now: now(), members: store.members().await?, said };
            let sentence = told.sentence(self.number, &explanation);
            let causes = explanation.causes.iter().map(|cause| told.json(cause));
            let value = json!({
                "queue": queue.name().as_str(),
                "sequence": self.number,
                "dead_letter": explanation.part == Part::Dead,
                "deliverable": explanation.causes.is_empty(),
                "sentence": sentence,
                "causes": causes.collect::<Vec<Value>>(),
            });
            screen.say(&sentence, &value)?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

impl Told {
    fn sentence(&self, number: u64, explanation: &Explanation) -> String {
        let words: Vec<String> = explanation.causes.iter().map(|cause| self.words(cause)).collect();
        match &words[..] {
            [] => format!("message {number} is ready: the next receive gets it"),
            [one] => format!("message {number} {one}"),
            [first, rest @ ..] => {
                format!("message {number} {first}; also, it {}", rest.join("; it "))
            }
        }
    }

    /// The rest of a sentence that begins with the message.
    fn words(&self, cause: &Cause) -> String {
        match cause {
            Cause::DeadLetter { reason } => {
                let (reason, description) = match &self.said {
                    Some((reason, description)) => (reason.as_str(), description.as_deref()),
                    None => (reason.as_str().unwrap_or(""), None),
                };
                let said = description.map_or(String::new(), |said| format!(" ({said})"));
                format!(
                    "is a dead letter, because of {reason:?}{said}; only `receive --dead-letters` \
                     or `dead-letter redrive` gets it out"
                )
            }
            Cause::Expired { at } => format!("expired at {} and is about to go", Wall(*at)),
            Cause::Scheduled { due } => {
                format!("is scheduled for {}, in {}", Wall(*due), self.until(*due))
            }
            Cause::Delayed { due } => format!(
                "was given back with a delay and comes again at {}, in {}",
                Wall(*due),
                self.until(*due)
            ),
            Cause::Locked(holder) => format!("is locked by {}", self.holder(holder)),
            Cause::Deferred => {
                "was deferred by a receiver: it is only received by its number".into()
            }
            Cause::Paused => "is in a paused queue; `bellwether queue resume` lets it go on".into(),
            Cause::Outage { try_in_ms: 0 } => {
                "is in a queue that is in an outage and tries one message at a time".into()
            }
            Cause::Outage { try_in_ms } => format!(
                "is in a queue that is in an outage and tries the next message in {}; `bellwether \
                 queue resume` ends it",
                Span(*try_in_ms)
            ),
            Cause::Suspect { crashes } => format!(
                "is suspected of {}, and waits for a receiver that has nothing else",
                if *crashes == 1 { "a crash".into() } else { format!("{crashes} crashes") }
            ),
            Cause::SessionHeld(holder) => {
                format!("belongs to a session that is held by {}", self.holder(holder))
            }
            Cause::SessionWaits { sequence } => format!(
                "waits behind message {sequence} of the same session, which was given back with a \
                 delay"
            ),
            Cause::Behind { messages } => {
                format!("is ready, with {} before it", count(*messages, "message"))
            }
        }
    }

    fn until(&self, due: WallTime) -> Span {
        Span(due.0.saturating_sub(self.now.0))
    }

    fn holder(&self, holder: &Holder) -> String {
        let who = match holder.member {
            None => "a member that has left".into(),
            Some(id) => match self.members.iter().find(|member| member.id == id) {
                Some(member) => format!("member {id} ({})", member.metadata),
                None => format!("member {id}, which has left"),
            },
        };
        let until = self.now.plus_ms(holder.remaining_ms);
        format!("{who} until {}, for {} more", Wall(until), Span(holder.remaining_ms))
    }

    fn json(&self, cause: &Cause) -> Value {
        let held = |name: &str, holder: &Holder| {
            json!({
                "cause": name,
                "member": holder.member.map(|id| id.to_string()),
                "remaining_ms": holder.remaining_ms,
                "until": form::time(self.now.plus_ms(holder.remaining_ms)),
            })
        };
        match cause {
            Cause::DeadLetter { reason } => {
                let said = self.said.as_ref();
                json!({
                    "cause": "dead-letter",
                    "reason": said.map_or(reason.as_str().unwrap_or(""), |(reason, _)| reason),
                    "description": said.and_then(|(_, description)| description.as_deref()),
                })
            }
            Cause::Expired { at } => json!({ "cause": "expired", "at": form::time(*at) }),
            Cause::Scheduled { due } => json!({ "cause": "scheduled", "due": form::time(*due) }),
            Cause::Delayed { due } => json!({ "cause": "delayed", "due": form::time(*due) }),
            Cause::Locked(holder) => held("locked", holder),
            Cause::Deferred => json!({ "cause": "deferred" }),
            Cause::Paused => json!({ "cause": "paused" }),
            Cause::Outage { try_in_ms } => json!({ "cause": "outage", "try_in_ms": try_in_ms }),
            Cause::Suspect { crashes } => json!({ "cause": "suspect", "crashes": crashes }),
            Cause::SessionHeld(holder) => held("session-held", holder),
            Cause::SessionWaits { sequence } => {
                json!({ "cause": "session-waits", "sequence": sequence.0 })
            }
            Cause::Behind { messages } => json!({ "cause": "behind", "messages": messages }),
        }
    }
}

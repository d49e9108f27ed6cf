//! What must be equal in two answers.

use bellwether_core::content::{ContentId, Place};
use bellwether_core::error::{Refusal, StepRefusal};
use bellwether_core::job::{ItemInfo, ItemState};
use bellwether_core::message::MessageView;
use bellwether_core::note::{Claimed, ResultInfo};
use bellwether_core::outcome::{Outcome, Sequences};

use super::naive::Answer;

/// An answer without what only one side can know: numbers and places of contents, and words
/// meant for people.
pub fn plain(answer: &Answer) -> Answer {
    match answer {
        Ok(outcome) => Ok(plain_outcome(outcome)),
        Err(refusal) => Err(plain_refusal(refusal)),
    }
}

pub fn plain_outcome(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Received(views) => Outcome::Received(views.iter().map(plain_view).collect()),
        Outcome::Peeked(views) => Outcome::Peeked(views.iter().map(plain_view).collect()),
        Outcome::Sent(numbers) => Outcome::Sent(Sequences::List(numbers.iter().collect())),
        Outcome::SessionState(id, _) => {
            Outcome::SessionState(ContentId(id.0.min(1)), Place::default())
        }
        Outcome::Settled { refused } => {
            let refused = refused.iter().map(|(i, refusal)| (*i, plain_refusal(refusal)));
            Outcome::Settled { refused: refused.collect() }
        }
        Outcome::Items(items) => Outcome::Items(items.iter().map(plain_item).collect()),
        Outcome::Transacted(sends) => {
            let plain = |numbers: &Sequences| Sequences::List(numbers.iter().collect());
            Outcome::Transacted(sends.iter().map(plain).collect())
        }
        Outcome::Result(Some(info)) => {
            let (content, place) = (ContentId(info.content.0.min(1)), Place::default());
            Outcome::Result(Some(Box::new(ResultInfo { content, place, ..(**info).clone() })))
        }
        Outcome::Claimed(Claimed::Done { at, content, .. }) => {
            let (content, place) = (ContentId(content.0.min(1)), Place::default());
            Outcome::Claimed(Claimed::Done { at: *at, content, place })
        }
        other => other.clone(),
    }
}

fn plain_item(item: &ItemInfo) -> ItemInfo {
    let plain = |id: ContentId| ContentId(id.0.min(1));
    let state = match item.state {
        ItemState::Pending { content } => ItemState::Pending { content: plain(content) },
        ItemState::Done { result } => ItemState::Done { result: plain(result) },
        ItemState::Failed { content, why } => ItemState::Failed { content: plain(content), why },
    };
    ItemInfo { state, place: Place::default(), ..item.clone() }
}

fn plain_refusal(refusal: &Refusal) -> Refusal {
    match refusal {
        Refusal::InvalidValue { what, .. } => Refusal::InvalidValue { what, why: String::new() },
        // How fast messages left lately is not worked out a second time.
        Refusal::QueueBusy { queue, messages_max, .. } => {
            let (queue, messages_max) = (queue.clone(), *messages_max);
            Refusal::QueueBusy { queue, messages_max, retry_after_ms: 0 }
        }
        Refusal::Step(StepRefusal { step, why }) => {
            let why = Box::new(plain_refusal(why));
            Refusal::Step(StepRefusal { step: *step, why })
        }
        other => other.clone(),
    }
}

pub fn plain_view(view: &MessageView) -> MessageView {
    let mut view = view.clone();
    view.places = [Place::default(); 2];
    view.message.content = ContentId(view.message.content.0.min(1));
    let overlay = &mut view.message.standing.overlay;
    *overlay = ContentId(overlay.0.min(1));
    view
}

//! One of the fleet: it works, and leads when it is its turn.

use std::time::Duration;

use bellwether::pump::Failure;
use bellwether::{Bellwether, Error, Leadership, Message, Open, Queue, Refusal, Work};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::ITEMS_PER_PLAN;

pub(crate) const ELECTION: &str = "coordinator";
/// How long it is waited for the next plan or note before looking around.
const LOOK: Duration = Duration::from_secs(1);

pub(crate) async fn run(address: &str, name: &str) -> Result<(), Failure> {
    let bw = Open::new(address).metadata(name).open().await?;
    let shutdown = CancellationToken::new();
    let mut told = signal(SignalKind::terminate())?;
    let stop = shutdown.clone();
    tokio::spawn(async move {
        told.recv().await;
        stop.cancel();
    });

    // Everybody works, with a leader or without one.
    let results = bw.queue("results")?;
    let who = name.to_owned();
    let work = move |work: Work| do_item(work, results.clone(), who.clone());
    let pump = bw.queue("items")?.pump().concurrency(4).run(work, shutdown.clone());

    // One leads.
    let election = bw.election(ELECTION)?.ttl(Duration::from_secs(2)).metadata(name);
    let store = bw.clone();
    let elector = election.lead(move |leadership| coordinate(store.clone(), leadership));
    let leading = elector.run(shutdown.clone().cancelled_owned());

    let listening = listen(bw.queue("notes")?, name, shutdown.clone());
    let (pumped, led, listened) = tokio::join!(pump, leading, listening);
    bw.close().await;
    Ok(pumped.and(led).and(listened)?)
}

/// The result goes by the item's own id: whoever does an item again adds nothing.
async fn do_item(work: Work, results: Queue, who: String) -> Result<(), Failure> {
    let item = work.id.clone().ok_or("an item without an id")?;
    results.send(Message::new(who).id(item)).await?;
    Ok(())
}

/// What only the leader does: makes items of plans, until it leads no more.
async fn coordinate(bw: Bellwether, leadership: Leadership) -> Result<(), Failure> {
    greet(&bw, &leadership).await?;
    // The store itself refuses what is asked under a term that is over.
    let fenced = bw.with_fence(leadership.fence());
    let (plans, items) = (fenced.queue("plans")?, fenced.queue("items")?);
    loop {
        let plan = tokio::select! {
            _ = leadership.cancelled() => return Ok(()),
            plan = plans.receive().wait(LOOK).one() => plan?,
        };
        let Some(plan) = plan else { continue };
        let number = plan.text().ok_or("a plan without a number")?.to_owned();
        // If this leader dies before the last line, the next one does all of it again: the ids
        // are the same, so each item is there once.
        let parts = (0..ITEMS_PER_PLAN).map(|part| {
            let id = format!("item-{number}-{part}");
            Message::new(id.clone()).id(id)
        });
        items.send_batch(parts).await?;
        plan.complete().await?;
    }
}

/// Tells every member who leads: each has a session of its own, under its name.
async fn greet(bw: &Bellwether, leadership: &Leadership) -> Result<(), Failure> {
    let notes = bw.queue("notes")?.with_fence(leadership.fence());
    let mut names: Vec<String> = bw.members().await?.into_iter().map(|m| m.metadata).collect();
    names.sort();
    names.dedup();
    for name in names.into_iter().filter(|name| name.starts_with("instance")) {
        let note = format!("term {} has begun", leadership.term());
        notes.send(Message::new(note).session(name)).await?;
    }
    Ok(())
}

/// Hears what is said to this instance alone.
async fn listen(notes: Queue, name: &str, shutdown: CancellationToken) -> Result<(), Error> {
    while !shutdown.is_cancelled() {
        let session = match notes.accept_session().wait(LOOK).named(name).await {
            Err(Error::Refused(Refusal::SessionLocked(_))) => continue,
            session => session?,
        };
        let note = tokio::select! {
            () = shutdown.cancelled() => None,
            note = session.receive().wait(LOOK).one() => note?,
        };
        if let Some(note) = note {
            println!("{name} hears: {}", note.text().unwrap_or_default());
            note.complete().await?;
        }
        session.close().await?;
    }
    Ok(())
}

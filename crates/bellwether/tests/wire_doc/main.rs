//! `docs/wire.md` says what the code does: its tables are those of the codec, its bytes are those
//! that are sent.
//!
//! Whoever adds a variant adds a sample in `samples.rs` or `answers.rs` (it does not compile without) and a line on
//! the page (the tests fail without).

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod answers;
mod conversation;
mod page;
mod samples;
mod walk;

use std::collections::BTreeMap;

use bellwether::core::backup::BackupStep;
use bellwether::core::codec::{
    Reader, encode_command, encode_outcome, encode_refusal, encode_request, put_number,
};
use bellwether::core::command::{Command, ReleaseReason, Request, Resting};
use bellwether::core::content::ContentId;
use bellwether::core::error::Refusal;
use bellwether::core::job::{EndJob, ItemState, JobSettings, OnFailure, Which};
use bellwether::core::message::State;
use bellwether::core::name::{LeaseName, MemberSlot, Part, RequestNumber, Term};
use bellwether::core::outcome::{EndedBy, Explanation, LeftAs, Outcome};
use bellwether::core::time::{BootTime, WallTime};
use bellwether::core::transaction::Step;
use bellwether::engine::Reply;
use bellwether::message::{self, BodyKind, Message, Overlay, Value};
use bellwether::wire::call::{put_answer, put_withdrawn};
use bellwether::wire::{Goodbye, Hello, Kind, Welcome, Why};
use bellwether::{Error, core};

use page::{Page, hex};
use samples::every;
use walk::Walk;

fn bytes<T>(value: &T, put: impl Fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

fn outcome_bytes(outcome: &Outcome) -> Vec<u8> {
    bytes(outcome, |outcome, out| encode_outcome(outcome, BootTime(0), out))
}

/// The lines of a table are exactly these tags, under these names.
fn assert_tags(page: &Page, table: &str, written: impl IntoIterator<Item = (&'static str, u8)>) {
    let mut lines: BTreeMap<u8, &str> = BTreeMap::new();
    for (tag, name) in page.table(table).tags() {
        assert_eq!(lines.insert(tag, name), None, "tag {tag} of `{table}` has two lines");
    }
    for (name, tag) in written {
        assert_eq!(lines.remove(&tag), Some(name), "the line of tag {tag} of `{table}`");
    }
    assert!(lines.is_empty(), "`{table}` has lines that nothing writes: {lines:?}");
}

/// The page's own tables lead through these bytes, to their end and to the same values.
fn assert_reads(page: &Page, kind: &str, bytes: &[u8], written: &impl std::fmt::Debug) {
    let mut walk = Walk::new(page, bytes);
    walk.over(kind);
    walk.finish(&format!("{written:?}"));
}

#[test]
fn every_tag_on_the_page_is_the_one_that_is_written() {
    let page = Page::read();
    let tag = |(name, bytes): (&'static str, Vec<u8>)| (name, bytes[0]);
    let commands = samples::commands();
    let commands = commands.iter().map(|(name, c)| (*name, bytes(c, encode_command)));
    // What stands before a command takes the place of one.
    let fenced = ("Fenced", bytes(&samples::fenced(Command::Leave), encode_request)[3..].to_vec());
    assert_tags(&page, "Command", commands.chain([fenced]).map(tag));
    let outcomes = answers::outcomes();
    let outcomes = outcomes.iter().map(|(name, outcome)| (*name, outcome_bytes(outcome)));
    assert_tags(&page, "Outcome", outcomes.map(tag));
    let refusals = answers::refusals();
    let refusals = refusals.iter().map(|(name, r)| (*name, bytes(r, encode_refusal)));
    assert_tags(&page, "Refusal", refusals.map(tag));
    let of_leases = answers::lease_refusals().into_iter().map(|(name, refusal)| {
        let refusal = bytes(&Refusal::Lease(refusal), encode_refusal);
        (name, refusal[1])
    });
    assert_tags(&page, "LeaseRefusal", of_leases);
    let of_kind = |kind: Kind| kind as u8;
    let kinds = every!(Kind {
        Hello => Kind::Hello, Welcome => Kind::Welcome, Ask => Kind::Ask, AskPart => Kind::AskPart,
        Answer => Kind::Answer, AnswerPart => Kind::AnswerPart, Withdraw => Kind::Withdraw,
        Ping => Kind::Ping, Pong => Kind::Pong, Goodbye => Kind::Goodbye,
    });
    assert_tags(&page, "Frame", kinds.into_iter().map(|(name, kind)| (name, of_kind(kind))));
    let reasons = every!(Why {
        Done => Why::Done, Closing => Why::Closing, Version => Why::Version,
        Credential => Why::Credential, Protocol => Why::Protocol, Limit => Why::Limit,
        Other => Why::Other(0),
    });
    let reasons = reasons
        .into_iter()
        .filter(|(name, _)| *name != "Other")
        .map(|(name, why)| (name, bytes(&Goodbye { why, text: String::new() }, Goodbye::put)[0]));
    assert_tags(&page, "Why", reasons);
    let answer = |answer| bytes(&answer, |answer, out| put_answer(answer, BootTime(0), out))[0];
    let done = Reply { outcome: Outcome::Done, contents: <_>::default() };
    let answers = [
        ("Done", answer(Ok(done))),
        ("Refused", answer(Err(Refusal::MemberGone.into()))),
        ("Unknown", answer(Err(Error::Unknown(String::new())))),
        ("Failed", answer(Err(Error::Closed))),
        ("Withdrawn", bytes(&(), |(), out| put_withdrawn(out))[0]),
    ];
    assert_tags(&page, "Answer", answers);
    let values = answers::values();
    assert_tags(&page, "Value", values.iter().map(|(name, value)| (*name, value_bytes(value)[0])));
}

/// A value alone: what stands behind the name of a message's only property, up to the body.
fn value_bytes(value: &Value) -> Vec<u8> {
    let content = message::encode(&Message::new("").property("p", value.clone()));
    let (head, rest) = content.split_at(5);
    assert_eq!(head, [1, 8, 1, 1, b'p']);
    rest[..rest.len() - 1].to_vec()
}

#[test]
fn the_page_alone_leads_through_everything_that_travels() {
    let page = Page::read();
    let commands = samples::commands().into_iter().map(|(_, command)| command);
    for command in commands.chain(samples::more_commands()) {
        assert_reads(&page, "Command", &bytes(&command, encode_command), &command);
        let request = Request {
            member: MemberSlot(801),
            number: RequestNumber(802),
            answered_below: RequestNumber(803),
            command,
            fence: None,
        };
        assert_reads(&page, "Request", &bytes(&request, encode_request), &request);
        let fenced = samples::fenced(request.command);
        assert_reads(&page, "Request", &bytes(&fenced, encode_request), &fenced);
    }
    let outcomes = answers::outcomes().into_iter().map(|(_, outcome)| outcome);
    for outcome in outcomes.chain(answers::more_outcomes()) {
        assert_reads(&page, "Outcome", &outcome_bytes(&outcome), &outcome);
    }
    let of_leases = answers::lease_refusals().into_iter().map(|(_, r)| Refusal::Lease(r));
    for refusal in answers::refusals().into_iter().map(|(_, r)| r).chain(of_leases) {
        assert_reads(&page, "Refusal", &bytes(&refusal, encode_refusal), &refusal);
    }
    for (name, state) in answers::states() {
        let outcome = Outcome::Peeked(vec![answers::bare_view(state)]);
        let written = outcome_bytes(&outcome);
        // A lock says behind the outcome how long it lasts.
        let (whole, rest) = written.split_at(written.len() - usize::from(name == "Locked"));
        assert_reads(&page, "Outcome", whole, &outcome);
        assert!(rest.iter().all(|byte| *byte == 0), "locked as long as its session is held");
    }
    for (_, value) in answers::values() {
        let written = value_bytes(&value);
        let mut walk = Walk::new(&page, &written);
        walk.over("Value");
        // Bytes of a UUID are printed as a list.
        if !matches!(value, Value::Uuid(_)) {
            walk.finish(&format!("{value:?}"));
        }
    }
    let (name, credential, process) = ("n".into(), "c".into(), "p".into());
    let hello = Hello { versions: (1, 2), name, credential, process };
    assert_reads(&page, "Hello", &bytes(&hello, Hello::put), &hello);
    let welcome = Welcome {
        version: 811,
        name: "n".into(),
        asks_max: 812,
        bytes_max: 813,
        silence_ms_max: 814,
    };
    assert_reads(&page, "Welcome", &bytes(&welcome, Welcome::put), &welcome);
    let goodbye = Goodbye { why: Why::Limit, text: "t".into() };
    assert_reads(&page, "Goodbye", &bytes(&goodbye, Goodbye::put), &goodbye);
}

/// A choice that has no samples of its own is covered by those of others, or it is not covered.
/// The choices that only jobs have.
fn assert_job_tags(page: &Page) {
    let from_end = |command: &Command, place: usize| {
        let written = bytes(command, encode_command);
        written[written.len() - place]
    };
    let ends = every!(EndJob {
        Cancel => EndJob::Cancel, AcceptGaps => EndJob::AcceptGaps, Forget => EndJob::Forget,
    });
    let end = |how| from_end(&Command::EndJob { job: samples::job(), how }, 1);
    assert_tags(page, "EndJob", ends.into_iter().map(|(name, how)| (name, end(how))));
    let which = every!(Which {
        All => Which::All, Pending => Which::Pending, Done => Which::Done, Failed => Which::Failed,
    });
    let list =
        |which| from_end(&Command::ListItems { job: samples::job(), from: 0, max: 1, which }, 1);
    assert_tags(page, "Which", which.into_iter().map(|(name, which)| (name, list(which))));
    let policies = every!(OnFailure {
        Wait => OnFailure::Wait, Fail => OnFailure::Fail, Gaps => OnFailure::Gaps,
    });
    let create = |on_failure| {
        let settings = JobSettings { on_failure, ..samples::job_settings() };
        let settings = Box::new(JobSettings { deadline_ms: None, retention_ms: 0, ..settings });
        let (job, items, gather) = (samples::job(), None, None);
        from_end(&Command::CreateJob { job, settings, items, gather }, 5)
    };
    assert_tags(page, "OnFailure", policies.into_iter().map(|(name, on)| (name, create(on))));
    let ending = |how| {
        let written = outcome_bytes(&Outcome::Job(answers::job_info(Some(how)).into()));
        written[written.len() - 4]
    };
    let endings = answers::job_ends().into_iter().map(|(name, how)| (name, ending(how)));
    assert_tags(page, "Ending", endings);
    let item = |state| outcome_bytes(&Outcome::Items(vec![answers::item_info(state)]));
    let states = answers::item_states().into_iter();
    assert_tags(page, "ItemState", states.map(|(name, state)| (name, item(state)[4])));
    let failed = |why| item(ItemState::Failed { content: ContentId(0), why })[6];
    let failures = answers::failures().into_iter();
    assert_tags(page, "Failure", failures.map(|(name, why)| (name, failed(why))));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list with one entry a choice")]
fn every_line_of_every_choice_is_written_by_some_sample() {
    let page = Page::read();
    let short = [
        "Part",
        "Status",
        "Durability",
        "Overflow",
        "ReceiveMode",
        "LeaseKind",
        "Loss",
        "Operation",
        "Right",
    ];
    let sampled = ["Command", "Outcome", "Refusal", "LeaseRefusal", "Frame", "Why", "Answer"];
    let by_samples = [
        "Value",
        "State",
        "Reason",
        "LeaseState",
        "Disposition",
        "HeldSet",
        "Sequences",
        "Resting",
        "Cause",
        "BackupStep",
        "LeftAs",
        "EndedBy",
        "ReleaseReason",
        "Step",
        "ResultReport",
        "NoteState",
        "Claimed",
        "OnFailure",
        "EndJob",
        "Which",
        "Ending",
        "ItemState",
        "Failure",
    ];
    for (name, table) in page.tables().filter(|(_, table)| table.columns[0] == "tag") {
        let is_known = [&short[..], &sampled, &by_samples].iter().any(|list| list.contains(name));
        assert!(is_known, "nothing writes the lines of `{name}`");
        assert!(table.rows.len() > 1, "`{name}`");
    }
    assert_job_tags(&page);
    let state = |state| outcome_bytes(&Outcome::Peeked(vec![answers::bare_view(state)]))[9];
    let states = answers::states().into_iter().map(|(name, s)| (name, state(s)));
    assert_tags(&page, "State", states);
    let plain = answers::full_view(State::Ready, core::message::Reason::None);
    let plain = outcome_bytes(&Outcome::Peeked(vec![plain]));
    let reasons = answers::reasons().into_iter().map(|(name, reason)| {
        let view = answers::full_view(State::Ready, reason);
        let written = outcome_bytes(&Outcome::Peeked(vec![view]));
        let other = written.iter().zip(&plain).find(|(a, b)| a != b);
        (name, other.map_or(1, |(tag, _)| *tag))
    });
    assert_tags(&page, "Reason", reasons);
    let steps = every!(BackupStep {
        State => BackupStep::State { frame: 1, bytes: 1 },
        Frames => BackupStep::Frames { numbers: vec![] },
        End => BackupStep::End { frame: 1 },
    });
    let steps = steps.into_iter().map(|(name, s)| (name, outcome_bytes(&Outcome::Backup(s))[1]));
    assert_tags(&page, "BackupStep", steps);
    let left = every!(LeftAs {
        Held => LeftAs::Held, Released => LeftAs::Released, Broken => LeftAs::Broken,
        Ended => LeftAs::Ended { at: WallTime(1), by: EndedBy::RanOut },
    });
    let left = left.into_iter().map(|(name, left_as)| {
        let term = outcome_bytes(&Outcome::Terms(vec![answers::term_info(left_as)]));
        // Behind the tag of an end stand its time and what ended it, a byte each.
        let behind = if name == "Ended" { 2 } else { 0 };
        (name, term[term.len() - 1 - behind])
    });
    assert_tags(&page, "LeftAs", left);
    let ended = answers::endings().into_iter().map(|(name, by)| {
        let term = outcome_bytes(&Outcome::Terms(vec![answers::ended(by)]));
        let behind = if name == "Released" { 2 } else { 0 };
        (name, term[term.len() - 1 - behind])
    });
    assert_tags(&page, "EndedBy", ended);
    let reasons = every!(ReleaseReason {
        Asked => ReleaseReason::Asked,
        Shutdown => ReleaseReason::Shutdown,
        Finished => ReleaseReason::Finished,
        Failed => ReleaseReason::Failed,
        Stalled => ReleaseReason::Stalled,
        HandedOver => ReleaseReason::HandedOver,
        FailedWith => ReleaseReason::FailedWith { code: 1 },
        Died => ReleaseReason::Died,
    });
    let reasons = reasons.into_iter().map(|(name, reason)| {
        let term = answers::ended(EndedBy::Released { reason: Some(reason) });
        let bytes = outcome_bytes(&Outcome::Terms(vec![term]));
        let behind = usize::from(name == "FailedWith");
        (name, bytes[bytes.len() - 1 - behind])
    });
    assert_tags(&page, "ReleaseReason", reasons);
    let import = |state| bytes(&samples::import([state]), encode_command);
    let ready = import(Resting::Ready);
    let restings = samples::restings().into_iter().map(|(name, state)| {
        let other = import(state).into_iter().zip(&ready).find(|(a, b)| a != *b);
        (name, other.map_or(1, |(tag, _)| tag))
    });
    assert_tags(&page, "Resting", restings);
    let cause = |cause| {
        let explanation = Explanation { part: Part::Main, causes: vec![cause] };
        // Behind the outcome's own tag, the part, and how many.
        outcome_bytes(&Outcome::Explained(explanation))[3]
    };
    assert_tags(&page, "Cause", answers::causes().into_iter().map(|(name, c)| (name, cause(c))));
    assert_effects(&page);
    conversation::assert_short_choices(&page);
}

/// Steps, results and claims.
fn assert_effects(page: &Page) {
    let step = |step| bytes(&Command::Transact { steps: vec![step] }, encode_command)[2];
    assert_tags(page, "Step", samples::steps().into_iter().map(|(name, s)| (name, step(s))));
    let claimed = answers::claims().into_iter();
    let claimed = claimed.map(|(name, c)| (name, outcome_bytes(&Outcome::Claimed(c))[1]));
    assert_tags(page, "Claimed", claimed);
    let states = answers::result_states().into_iter();
    let states = states.map(|(name, s)| (name, outcome_bytes(&answers::result_outcome(s))[2]));
    assert_tags(page, "NoteState", states);
    let (queue, key) = (samples::queue("q"), core::name::NoteKey::new("k").unwrap());
    let reports = samples::reports().into_iter().map(|(name, report)| {
        let (queue, key) = (queue.clone(), key.clone());
        let step = Step::Report { queue, key, report, content: None, ttl_ms: None };
        // Behind the command, how many, the step, and two texts of one letter.
        (name, bytes(&Command::Transact { steps: vec![step] }, encode_command)[7])
    });
    assert_tags(page, "ResultReport", reports);
}

#[test]
fn the_page_says_which_commands_need_no_number() {
    let page = Page::read();
    let table = page.table("Command");
    for (name, command) in samples::commands() {
        let row = table.rows.iter().find(|row| table.cell(row, "name") == name).unwrap();
        // Joining is done by nobody, who has no numbers; what the server sees itself is never sent.
        let is_never_numbered =
            matches!(command, Command::Join { .. } | Command::Tick | Command::Lost { .. });
        let needs_none = command.writes_nothing() || is_never_numbered;
        assert_eq!(table.cell(row, "number") == "no", needs_none, "{name}");
    }
}

#[test]
fn numbers_are_written_as_the_page_shows() {
    let page = Page::read();
    for line in page.lines("numbers") {
        let number: u64 = line.says.parse().unwrap();
        assert_eq!(hex(&bytes(&number, |n, out| put_number(*n, out))), hex(&line.bytes));
    }
    for line in page.lines("signed") {
        let written = value_bytes(&Value::Int(line.says.parse().unwrap()));
        assert_eq!(hex(&written[1..]), hex(&line.bytes));
    }
    // What is not in the shortest form, or too wide, is refused as the page says.
    for wrong in [&[0x80, 0x00][..], &[0xff; 10], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]] {
        assert!(Reader::new(wrong).number().is_err(), "{wrong:?}");
    }
}

pub(crate) fn coffees() -> Message {
    let message = Message::new("two coffees").id("order-17").subject("new");
    message.property("urgent", true).property("tries", 3)
}

#[test]
fn contents_are_written_as_the_page_shows() {
    let page = Page::read();
    assert_eq!(hex(&message::encode(&coffees())), hex(&page.bytes("content")));
    let overlay =
        Overlay::default().reason("bad address").property("tries", 4).remove("urgent").encode();
    assert_eq!(hex(&overlay), hex(&page.bytes("overlay")));
    let all = Message::new("b")
        .id("1")
        .subject("2")
        .correlation_id("3")
        .to("4")
        .reply_to("5")
        .reply_to_session("6")
        .content_type("7");
    let tags: Vec<u8> = (1..8).flat_map(|tag| [tag, 1, b'0' + tag]).collect();
    assert_eq!(message::encode(&all), [&[1][..], &tags, &[0xf0, b'b']].concat());
    let kinds = every!(BodyKind {
        Data => (BodyKind::Data, 0xf0),
        Value => (BodyKind::Value, 0xf1),
        Sequence => (BodyKind::Sequence, 0xf2),
    });
    for (_, (kind, tag)) in kinds {
        assert_eq!(message::encode(&Message::new("").body_kind(kind)), [1, tag][..]);
    }
}

/// That queues use this key is proven by the client in Python: its duplicates are known.
#[test]
fn ids_and_sets_are_hashed_as_the_page_shows() {
    let page = Page::read();
    let key = (0x6265_6c6c_7765_7468, 0x6572_2d69_642d_3031);
    for line in page.lines("id-hash") {
        let hash = message::id_hash(key, line.says);
        assert_eq!(hex(&hash.to_le_bytes()), hex(&line.bytes), "{}", line.says);
    }
    let held = [("chores", 7), ("billing", 9)].map(|(n, t)| (LeaseName::new(n).unwrap(), Term(t)));
    let digest = core::member::digest(held.iter().map(|(name, term)| (name, *term)));
    assert_eq!(hex(&digest.to_le_bytes()), hex(&page.bytes("digest")));
}

#[test]
fn a_request_under_a_fence_is_written_as_the_page_shows() {
    let fenced = samples::fenced(Command::Leave);
    assert_eq!(hex(&bytes(&fenced, encode_request)), hex(&Page::read().bytes("fenced")));
}

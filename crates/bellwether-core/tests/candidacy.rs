//! Stories of one candidacy. Each cites the sentence it proves. ttl 10 s: trust lasts 8 s from
//! the ask, renewals start 3.333 s apart.

use bellwether_core::candidacy::{
    Action, Attempt, BACK_OFF_MS_MAX, BACK_OFF_MS_MIN, Candidacy, Config, Event, LossReason, View,
    WorkEnd,
};
use bellwether_core::name::{LeaseId, MemberId, Term};
use bellwether_core::time::BootTime;

const TERM: Term = Term(7);

fn config() -> Config {
    Config {
        member: MemberId(0x77),
        ttl_ms: 10_000,
        wait_ms: 0,
        retry_ms: 5_000,
        stop_ms: 3_000,
        renew_ms: 0,
        stall_ms: 0,
        once: false,
    }
}

struct Story {
    candidacy: Candidacy,
    /// The id of the newest ask.
    id: LeaseId,
    /// The number of the newest ask or renewal.
    attempt: Attempt,
}

impl Story {
    fn new(config: Config) -> Self {
        assert_eq!(config.check(), Ok(()));
        let candidacy = Candidacy::new(config, 42);
        Self { candidacy, id: LeaseId(0), attempt: Attempt(0) }
    }

    /// Asked at 0, granted at 100, the first renewal (from 100) answered at 200.
    fn leading() -> Self {
        let mut story = Self::new(config());
        story.at(0, Event::Start);
        story.at(100, Event::Acquired { attempt: story.attempt, term: TERM });
        story.at(200, Event::Renewed { attempt: story.attempt });
        story
    }

    fn at(&mut self, ms: u64, event: Event) -> Vec<Action> {
        let actions = self.candidacy.step(BootTime(ms), event);
        for action in &actions {
            if let Action::Acquire { attempt, id, .. } = action {
                (self.attempt, self.id) = (*attempt, *id);
            } else if let Action::Renew { attempt, .. } = action {
                self.attempt = *attempt;
            }
        }
        actions
    }

    /// Sleeps until the candidacy wants to be woken.
    fn wake(&mut self) -> (u64, Vec<Action>) {
        let at = self.candidacy.next_wake().expect("a wish to be woken").0;
        (at, self.at(at, Event::Wake))
    }

    fn trusted(&self, ms: u64) -> bool {
        self.candidacy.is_trusted(BootTime(ms))
    }

    fn renew(&self, deadline: u64) -> Action {
        Action::Renew { attempt: self.attempt, id: self.id, deadline: BootTime(deadline) }
    }

    fn release(&self, reason: LossReason) -> Action {
        Action::Release { id: self.id, successor: None, reason }
    }

    fn acquire(&self) -> Action {
        Action::Acquire { attempt: self.attempt, id: self.id, wait_ms: 0 }
    }
}

fn stopping(reason: LossReason) -> Vec<Action> {
    let view = View::Stopping { term: TERM, reason };
    vec![Action::CancelWork { reason }, Action::Announce(view)]
}

fn following(after: LossReason) -> Action {
    Action::Announce(View::Following { after })
}

/// The winner starts the work and renews at once; it does not know how old the
/// grant already is.
#[test]
fn the_winner_works_and_renews_at_once() {
    let mut story = Story::new(config());
    assert_eq!(story.candidacy.next_wake(), None);
    let asked = story.at(0, Event::Start);
    assert_eq!(asked, [story.acquire()]);
    let won = story.at(100, Event::Acquired { attempt: story.attempt, term: TERM });
    let leading = Action::Announce(View::Leading { term: TERM });
    assert_eq!(won, [leading, Action::StartWork { term: TERM }, story.renew(4_050)]);
    assert_eq!(story.candidacy.term(), Some(TERM));
}

/// Renewals are spaced from the start of the previous one; the latency counts.
#[test]
fn renewals_are_spaced_from_start_to_start() {
    let mut story = Story::leading();
    let (at, renewal) = story.wake();
    assert_eq!((at, renewal), (100 + 3_333, vec![story.renew(3_433 + (8_100 - 3_433) / 2)]));
    assert_eq!(story.at(5_000, Event::Wake), [], "one in flight is not doubled");
    // Its answer takes longer than the interval: the next one follows without a pause.
    let next = story.at(3_433 + 3_500, Event::Renewed { attempt: story.attempt });
    assert_eq!(next.len(), 1);
    assert!(matches!(next[0], Action::Renew { .. }));
}

/// Trust counts from when the ask was sent, whenever its answer came.
#[test]
fn trust_counts_from_before_the_ask() {
    let mut story = Story::new(config());
    story.at(1_000, Event::Start);
    story.at(3_000, Event::Acquired { attempt: story.attempt, term: TERM });
    assert_eq!(story.candidacy.trusted_until(), Some(BootTime(9_000)));
    story.at(5_500, Event::Renewed { attempt: story.attempt });
    assert_eq!(story.candidacy.trusted_until(), Some(BootTime(11_000)));
    assert!(story.trusted(10_999));
    assert!(!story.trusted(11_000));
}

/// A heartbeat that was sent for another lease counts from when it was sent, be that before this one
/// was due or after; the next is due a third of the ttl later, so that both go on in step.
#[test]
fn a_heartbeat_for_others_counts_from_when_it_was_sent() {
    for sent_at in [2_000, 3_600] {
        let mut story = Story::leading();
        story.wake();
        let sent_at = BootTime(sent_at);
        let attempt = story.attempt;
        assert_eq!(story.at(3_700, Event::RenewedSince { attempt, sent_at }), []);
        assert_eq!(story.candidacy.trusted_until(), Some(sent_at.plus_ms(8_000)));
        assert_eq!(story.candidacy.next_wake(), Some(sent_at.plus_ms(3_333)));
    }
    // One that is older than what is known already takes nothing away.
    let mut story = Story::leading();
    let trusted_until = story.candidacy.trusted_until();
    story.wake();
    story.at(3_700, Event::RenewedSince { attempt: story.attempt, sent_at: BootTime(10) });
    assert_eq!(story.candidacy.trusted_until(), trusted_until);
}

/// A renewal hangs; the holder steps down by itself, and its late success does not
/// bring the term back.
#[test]
fn a_hanging_renewal_ends_the_term_in_time() {
    let mut story = Story::leading();
    story.wake();
    let renewal = story.attempt;
    let (at, stop) = story.wake();
    assert_eq!((at, stop), (8_100, stopping(LossReason::TrustOver)));
    let late = story.at(8_200, Event::Renewed { attempt: renewal });
    assert!(!story.trusted(8_200));
    assert_eq!(late, [story.renew(8_200 + 3_333)], "to keep others away until the work has ended");
    let ended = story.at(8_300, Event::WorkEnded(WorkEnd::Finished));
    assert_eq!(ended, [following(LossReason::TrustOver), story.release(LossReason::TrustOver)]);
}

/// The machine was suspended; a renewal that waited in the socket comes too late.
#[test]
fn after_a_suspend_the_time_is_looked_at_first() {
    let mut story = Story::leading();
    story.wake();
    let stop = story.at(60_000, Event::Renewed { attempt: story.attempt });
    assert_eq!(stop[..2], stopping(LossReason::TrustOver));
    assert!(!story.trusted(60_000));
}

/// No answer is no loss; the renewal is tried again soon, until trust ends.
#[test]
fn an_unknown_renewal_is_tried_again_soon() {
    let mut story = Story::leading();
    story.wake();
    for _ in 0..3 {
        let now = 4_000;
        assert_eq!(story.at(now, Event::RenewUnknown { attempt: story.attempt }), []);
        let soon = story.candidacy.next_wake().expect("a retry").0;
        assert!((now + 500..=now + 1_000).contains(&soon), "{soon}");
        let again = story.at(soon, Event::Wake);
        assert!(matches!(again[..], [Action::Renew { .. }]));
    }
    story.at(5_200, Event::Renewed { attempt: story.attempt });
    assert!(story.trusted(12_000), "one failure in the middle changes nothing");
}

/// A renewal gives up while there is time for another one, and never after trust ends.
#[test]
fn a_renewal_must_be_answered_before_trust_ends() {
    let mut story = Story::leading();
    let mut tries = 0;
    let (_, mut actions) = story.wake();
    while let [Action::Renew { deadline, attempt, .. }] = actions[..] {
        assert!(deadline <= BootTime(8_100));
        actions = story.at(deadline.0, Event::RenewUnknown { attempt });
        if actions.is_empty() {
            (_, actions) = story.wake();
        }
        tries += 1;
    }
    assert!(tries >= 2, "{tries}");
    assert_eq!(actions, stopping(LossReason::TrustOver));
}

/// Definitely lost: stop now; there is nothing to give back.
#[test]
fn a_definite_loss_stops_the_work_and_releases_nothing() {
    let mut story = Story::leading();
    story.wake();
    let stop = story.at(3_500, Event::RenewRefused { attempt: story.attempt });
    assert_eq!(stop, stopping(LossReason::Refused));
    assert!(!story.trusted(3_500));
    let ended = story.at(3_600, Event::WorkEnded(WorkEnd::Failed));
    assert_eq!(ended, [following(LossReason::Refused)]);
    let old = story.id;
    let (at, ask) = story.wake();
    assert!((3_600 + 2_500..=3_600 + 5_000).contains(&at), "{at}");
    assert_eq!(ask, [story.acquire()]);
    assert_ne!(story.id, old, "a new tenure, a new id");
}

/// Stop, wait until the work has ended, release; renewals go on until then, so that the
/// successor starts after the work has ended.
#[test]
fn the_lease_is_released_after_the_work_has_ended() {
    let mut story = Story::leading();
    let stale = story.at(1_000, Event::StepDownAsked { term: Term(6), successor: None });
    assert_eq!(stale, [], "a word for an earlier term");
    let stop = story.at(2_000, Event::StepDownAsked { term: TERM, successor: None });
    assert_eq!(stop, stopping(LossReason::StepDownAsked));
    let (at, renewal) = story.wake();
    assert_eq!((at, renewal.len()), (3_433, 1));
    assert!(matches!(renewal[0], Action::Renew { .. }));
    story.at(3_500, Event::Renewed { attempt: story.attempt });
    assert!(story.trusted(4_900), "the work may clean up");
    let ended = story.at(4_900, Event::WorkEnded(WorkEnd::Finished));
    assert_eq!(
        ended,
        [following(LossReason::StepDownAsked), story.release(LossReason::StepDownAsked)]
    );
    assert!(!story.trusted(4_900));
    story.at(5_000, Event::Released);
    let next = story.candidacy.next_wake().expect("another ask").0;
    assert!(next >= 5_000 + 5_000, "whoever polls asks before us: {next}");
    assert_eq!(story.at(5_001, Event::WatchChanged), [], "not even a hint makes us faster");
    assert_eq!(story.candidacy.next_wake(), Some(BootTime(next)));
}

/// Work that does not stop is aborted; the lease is not renewed any more and not given
/// back early; only the end of the work frees it.
#[test]
fn work_that_does_not_stop_is_aborted_and_nothing_released_early() {
    let mut story = Story::leading();
    story.at(2_000, Event::StepDownAsked { term: TERM, successor: None });
    story.wake();
    story.at(3_500, Event::Renewed { attempt: story.attempt });
    assert_eq!(story.wake(), (5_000, vec![Action::AbortWork]));
    assert_eq!(story.candidacy.next_wake(), None, "no renewal any more");
    assert_eq!(story.at(50_000, Event::Wake), []);
    assert!(!story.trusted(50_000));
    let ended = story.at(60_000, Event::WorkEnded(WorkEnd::Failed));
    assert_eq!(
        ended,
        [following(LossReason::StepDownAsked), story.release(LossReason::StepDownAsked)]
    );
}

/// Cut off, the work has until shortly before somebody else could lead, however long its grace is;
/// so also if the store is lost while it stops.
#[test]
fn work_is_aborted_before_anybody_else_could_lead() {
    let mut story = Story::leading();
    story.wake();
    story.at(8_100, Event::Wake);
    assert_eq!(
        story.wake(),
        (9_600, vec![Action::AbortWork]),
        "sent at 100, granted anew at 10,600"
    );

    let mut story = Story::leading();
    story.at(7_000, Event::StepDownAsked { term: TERM, successor: None });
    story.at(7_000, Event::RenewUnknown { attempt: story.attempt });
    let aborted = loop {
        let (at, actions) = story.wake();
        match actions[..] {
            [Action::Renew { attempt, .. }] => story.at(at, Event::RenewUnknown { attempt }),
            _ => break (at, actions),
        };
    };
    assert_eq!(aborted, (9_600, vec![Action::AbortWork]), "not at 10,000, when its grace is over");
}

/// Whoever renews for a work that hangs keeps nobody in office.
#[test]
fn work_that_shows_no_progress_is_stopped_on_purpose() {
    let mut story = Story::new(Config { stall_ms: 2_000, ..config() });
    story.at(0, Event::Start);
    story.at(100, Event::Acquired { attempt: story.attempt, term: TERM });
    story.at(200, Event::Renewed { attempt: story.attempt });
    story.candidacy.progressed(BootTime(1_500));
    assert_eq!(story.at(2_100, Event::Wake), [], "it got somewhere");
    story.candidacy.progressed(BootTime(1_400));
    assert_eq!(story.wake().0, 3_433, "a renewal");
    story.candidacy.progressed(BootTime(1_500));
    let stop = story.at(3_500, Event::Renewed { attempt: story.attempt });
    assert_eq!(stop, stopping(LossReason::Stalled));
    assert!(story.trusted(3_500), "it may clean up");
    let ended = story.at(3_600, Event::WorkEnded(WorkEnd::Finished));
    assert_eq!(ended, [following(LossReason::Stalled), story.release(LossReason::Stalled)]);
    story.at(3_700, Event::Released);
    let next = story.candidacy.next_wake().expect("another ask").0;
    assert!(next > 3_700, "others go first");
}

/// A successor that was named is named to the engine.
#[test]
fn a_hand_over_names_the_successor_once_the_work_has_ended() {
    let mut story = Story::leading();
    let successor = Some(MemberId(0x99));
    let stop = story.at(2_000, Event::StepDownAsked { term: TERM, successor });
    assert_eq!(stop, stopping(LossReason::HandedOver));
    let ended = story.at(2_500, Event::WorkEnded(WorkEnd::Finished));
    let release = Action::Release { id: story.id, successor, reason: LossReason::HandedOver };
    assert_eq!(ended, [following(LossReason::HandedOver), release]);
}

/// Whoever wants one term has one, and leaves.
#[test]
fn one_term_is_one_term() {
    let mut story = Story::new(Config { once: true, ..config() });
    story.at(0, Event::Start);
    let refused = Event::AcquireRefused { attempt: story.attempt, retry_after_ms: Some(0) };
    assert_eq!(story.at(10, refused), [story.acquire()], "none yet");
    story.at(100, Event::Acquired { attempt: story.attempt, term: TERM });
    let ended = story.at(2_500, Event::WorkEnded(WorkEnd::Finished));
    assert_eq!(ended[1..], [story.release(LossReason::WorkFinished)]);
    assert_eq!(story.at(2_600, Event::Released), [Action::Closed]);
}

/// A shutdown is bounded even if the work survives being aborted.
#[test]
fn a_shutdown_ends_even_if_the_work_does_not() {
    let mut story = Story::leading();
    assert_eq!(story.at(500, Event::Shutdown), stopping(LossReason::Shutdown));
    story.wake();
    assert_eq!(story.wake(), (3_500, vec![Action::AbortWork]));
    assert_eq!(story.wake(), (6_500, vec![Action::Closed]), "the lease runs out by itself");
}

/// Shutdown: stop, wait, release, close; a failed release is ignored.
#[test]
fn a_shutdown_gives_the_lease_back() {
    for answer in [Event::Released, Event::ReleaseUnknown, Event::Wake] {
        let mut story = Story::leading();
        assert_eq!(story.at(500, Event::Shutdown), stopping(LossReason::Shutdown));
        let ended = story.at(900, Event::WorkEnded(WorkEnd::Finished));
        assert_eq!(ended, [following(LossReason::Shutdown), story.release(LossReason::Shutdown)]);
        assert_eq!(story.at(10_900, answer), [Action::Closed]);
        assert_eq!(story.at(11_000, Event::Start), [], "closed is closed");
        assert_eq!(story.candidacy.next_wake(), None);
    }
}

/// Shutdown while waiting returns at once; with an ask that may be granted behind
/// our back, after giving that back.
#[test]
fn a_shutdown_without_a_lease_is_prompt() {
    let mut story = Story::new(config());
    assert_eq!(story.at(0, Event::Shutdown), [Action::Closed]);

    let mut story = Story::new(config());
    story.at(0, Event::Start);
    let attempt = story.attempt;
    assert_eq!(story.at(10, Event::Shutdown), [story.release(LossReason::Shutdown)]);
    assert_eq!(story.at(20, Event::Acquired { attempt, term: TERM }), [], "never started");
    assert_eq!(story.at(30, Event::Released), [Action::Closed]);

    let mut story = Story::new(config());
    story.at(0, Event::Start);
    story.at(10, Event::AcquireRefused { attempt: story.attempt, retry_after_ms: None });
    assert_eq!(story.at(20, Event::Shutdown), [Action::Closed]);

    let mut story = Story::new(config());
    story.at(0, Event::Start);
    story.at(10, Event::AcquireUnknown { attempt: story.attempt });
    assert_eq!(story.at(20, Event::Shutdown), [story.release(LossReason::Shutdown)]);
}

/// "held by another" is normal: ask again after a pause, sooner if told or hinted.
#[test]
fn a_refused_ask_is_repeated_after_a_pause() {
    let mut story = Story::new(config());
    story.at(0, Event::Start);
    let refused = |story: &mut Story, hint| {
        let event = Event::AcquireRefused { attempt: story.attempt, retry_after_ms: hint };
        let actions = story.at(100, event);
        (story.candidacy.next_wake().expect("another ask").0, actions)
    };
    let (at, actions) = refused(&mut story, None);
    assert!((2_600..=5_100).contains(&at) && actions.is_empty(), "{at}");
    assert_eq!(story.at(200, Event::WatchChanged), []);
    let (hinted, ask) = story.wake();
    assert!(hinted < 200 + 1_000, "{hinted}");
    assert_eq!(ask, [story.acquire()]);
    let (at, _) = refused(&mut story, Some(20_000));
    assert!((20_100..=24_100).contains(&at), "{at}");
    story.wake();
    let (_, actions) = refused(&mut story, Some(0));
    assert_eq!(actions, [story.acquire()], "in line again at once");
}

/// The answer is lost: the ask is repeated under the same id, which the engine knows; an
/// answer to the first one counts no more.
#[test]
fn a_lost_answer_is_asked_for_again_under_the_same_id() {
    let mut story = Story::new(config());
    story.at(0, Event::Start);
    let (first, id) = (story.attempt, story.id);
    assert_eq!(story.at(2_000, Event::AcquireUnknown { attempt: first }), []);
    let (at, ask) = story.wake();
    assert!(at <= 2_000 + 3_333);
    assert_eq!(ask, [story.acquire()]);
    assert_eq!(story.id, id);
    assert_eq!(story.at(at + 1, Event::Acquired { attempt: first, term: TERM }), []);
    let won = story.at(at + 2, Event::Acquired { attempt: story.attempt, term: TERM });
    assert_eq!(won[1], Action::StartWork { term: TERM });
    assert_eq!(story.candidacy.trusted_until(), Some(BootTime(at + 8_000)));
}

/// A grant that waited in line has no trust left; it is confirmed before the work
/// starts. If even that answer is too old, others may try.
#[test]
fn a_grant_from_the_line_is_confirmed_first() {
    let waiting = || {
        let mut story = Story::new(Config { wait_ms: 60_000, ..config() });
        story.at(0, Event::Start);
        let id = story.id;
        let asked = story.at(30_000, Event::Acquired { attempt: story.attempt, term: TERM });
        assert_eq!(asked, [story.acquire()]);
        assert_eq!(story.id, id);
        assert!(!story.trusted(30_000));
        story
    };
    let mut story = waiting();
    let won = story.at(30_100, Event::Acquired { attempt: story.attempt, term: TERM });
    assert_eq!(won[1], Action::StartWork { term: TERM });
    assert!(story.trusted(37_999) && !story.trusted(38_000));
    let mut story = waiting();
    let late = story.at(36_000, Event::Acquired { attempt: story.attempt, term: TERM });
    assert_eq!(late, [story.release(LossReason::TrustOver)]);
}

/// Work that ends at once leads back to the election, ever more slowly: 1 s doubling
/// to 60 s. A term that lasted starts the count anew.
#[test]
fn work_that_ends_by_itself_backs_off() {
    let mut story = Story::new(config());
    let mut now = 0;
    story.at(now, Event::Start);
    for wanted in [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, BACK_OFF_MS_MIN] {
        story.at(now, Event::Acquired { attempt: story.attempt, term: TERM });
        let lasted = wanted == BACK_OFF_MS_MIN && now > 0;
        for _ in 0..if lasted { BACK_OFF_MS_MAX / 1_000 + 1 } else { 0 } {
            now += 1_000;
            story.at(now, Event::Renewed { attempt: story.attempt });
        }
        let ended = story.at(now, Event::WorkEnded(WorkEnd::Failed));
        assert_eq!(
            ended,
            [following(LossReason::WorkFailed), story.release(LossReason::WorkFailed)]
        );
        story.at(now, Event::Released);
        let (at, ask) = story.wake();
        assert_eq!(ask, [story.acquire()]);
        assert!((wanted / 2..=wanted).contains(&(at - now)), "{wanted}: {}", at - now);
        now = at;
    }
}

/// What cannot work is refused before it starts.
#[test]
fn a_config_that_cannot_work_is_refused() {
    for bad in [
        Config { ttl_ms: 0, ..config() },
        Config { ttl_ms: u64::MAX, ..config() },
        Config { retry_ms: 0, ..config() },
        Config { stop_ms: u64::MAX, ..config() },
        Config { renew_ms: config().ttl_ms * 2 / 5 + 1, ..config() },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
    let latest = Config { renew_ms: config().ttl_ms * 2 / 5, ..config() };
    assert!(latest.check().is_ok(), "one renewal may fail");
}

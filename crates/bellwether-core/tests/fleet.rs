//! Election without a store: each strategy as a machine of its own, and the rules around them. F3
//! and the like are sentences of `docs/fleet.md`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::VecDeque;

use bellwether_core::bully::Bully;
use bellwether_core::chance::Chance;
use bellwether_core::fleet::{
    Action, Claim, Config, Event, Fleet, FleetId, Input, Obstacle, Output, Scene, Strategy, View,
    Word,
};
use bellwether_core::lowest::Lowest;
use bellwether_core::ring::Ring;
use bellwether_core::time::BootTime;

const SILENCE_MS: u64 = 2_000;
const ANSWER_MS: u64 = SILENCE_MS / 4;
const HOLD_MS: u64 = 5_000;

fn id(id: u64) -> FleetId {
    FleetId(id)
}

/// Member `me` of a fleet with the ids 1 to `count`, all present, at time zero, without a leader.
fn scene(me: u64, count: u64) -> Scene {
    let others: Vec<FleetId> = (1..=count).filter(|other| *other != me).map(FleetId).collect();
    Scene {
        now: BootTime(0),
        me: id(me),
        known: others.clone(),
        present: others,
        leader: None,
        claim: Claim::None,
        may_stand: true,
        answer_ms: ANSWER_MS,
        silence_ms: SILENCE_MS,
        hold_ms: HOLD_MS,
    }
}

fn send(to: u64, word: Word) -> Output {
    Output::Send { to: id(to), word }
}

fn heard(from: u64, word: Word) -> Input {
    Input::Heard { from: id(from), word }
}

mod lowest {
    use super::*;

    #[test]
    fn the_lowest_stands_and_nobody_else_does() {
        assert_eq!(Lowest.step(&scene(1, 3), Input::Wake), [Output::Stand]);
        assert_eq!(Lowest.step(&scene(2, 3), Input::Wake), []);
        let leading = Scene { claim: Claim::Leading(1), ..scene(1, 3) };
        assert_eq!(Lowest.step(&leading, Input::Wake), [], "once is enough");
    }

    /// F5.
    #[test]
    fn one_that_returns_follows_for_a_while_first() {
        let mut returned = Scene { leader: Some((id(2), BootTime(0))), ..scene(1, 3) };
        returned.now = BootTime(HOLD_MS - 1);
        assert_eq!(Lowest.step(&returned, Input::Wake), []);
        returned.now = BootTime(HOLD_MS);
        assert_eq!(Lowest.step(&returned, Input::Wake), [Output::Stand]);
    }
}

mod bully {
    use super::*;

    #[test]
    fn the_highest_stands_at_once() {
        assert_eq!(Bully::default().step(&scene(3, 3), Input::Wake), [Output::Stand]);
    }

    #[test]
    fn the_others_ask_higher_ids_and_stand_if_nobody_answers() {
        let (mut bully, mut now) = (Bully::default(), scene(1, 3));
        let asks = [send(2, Word::Election), send(3, Word::Election)];
        assert_eq!(bully.step(&now, Input::Wake), asks);
        assert_eq!(bully.step(&now, Input::Wake), [], "and do not ask again");
        now.now = bully.next_wake().unwrap();
        assert_eq!(now.now, BootTime(ANSWER_MS));
        assert_eq!(bully.step(&now, Input::Wake), [Output::Stand]);
    }

    #[test]
    fn an_answer_is_waited_on_and_then_it_asks_again() {
        let (mut bully, mut now) = (Bully::default(), scene(2, 3));
        assert_eq!(bully.step(&now, Input::Wake), [send(3, Word::Election)]);
        assert_eq!(bully.step(&now, heard(3, Word::Answer)), []);
        now.now = BootTime(ANSWER_MS);
        assert_eq!(bully.step(&now, Input::Wake), [], "somebody higher is there");
        now.now = bully.next_wake().unwrap();
        let again = bully.step(&now, Input::Wake);
        assert_eq!(again, [send(3, Word::Election)], "it died between answer and victory");
    }

    #[test]
    fn asked_by_a_lower_id_it_answers_and_asks_in_turn() {
        let said = Bully::default().step(&scene(2, 3), heard(1, Word::Election));
        assert_eq!(said, [send(1, Word::Answer), send(3, Word::Election)]);
        let leading = Scene { claim: Claim::Leading(7), ..scene(3, 3) };
        let said = Bully::default().step(&leading, heard(1, Word::Election));
        assert_eq!(said, [send(1, Word::Coordinator { reign: 7 })], "a leader says that it leads");
        let listening = Scene { may_stand: false, ..scene(3, 3) };
        let said = Bully::default().step(&listening, heard(1, Word::Election));
        assert_eq!(said, [], "who cannot lead keeps nobody from leading");
    }

    /// F5.
    #[test]
    fn a_lower_leader_is_deposed_after_a_while_only() {
        let mut bully = Bully::default();
        let mut returned = Scene { leader: Some((id(2), BootTime(0))), ..scene(3, 3) };
        returned.now = BootTime(HOLD_MS - 1);
        assert_eq!(bully.step(&returned, Input::Wake), []);
        returned.now = BootTime(HOLD_MS);
        assert_eq!(bully.step(&returned, Input::Wake), [Output::Stand]);
    }

    /// F3.
    #[test]
    fn an_election_takes_at_most_n_squared_words() {
        for count in 1..=12 {
            let mut bullies: Vec<Bully> = (0..count).map(|_| Bully::default()).collect();
            let mut scenes: Vec<Scene> = (1..=count).map(|me| scene(me, count)).collect();
            let mut inbox = VecDeque::from([(1, Input::Wake)]);
            let mut words = 0;
            while let Some((me, input)) = inbox.pop_front() {
                let at = me as usize - 1;
                for output in bullies[at].step(&scenes[at], input) {
                    match output {
                        Output::Send { to, word } => {
                            words += 1;
                            if let Word::Coordinator { .. } = word {
                                scenes[to.0 as usize - 1].leader = Some((id(me), BootTime(0)));
                            }
                            inbox.push_back((to.0, heard(me, word)));
                        }
                        Output::Stand => {
                            assert_eq!(me, count, "the highest stands");
                            scenes[at].claim = Claim::Leading(1);
                            inbox.push_back((me, Input::Leads { reign: 1 }));
                        }
                    }
                }
            }
            let led = scenes.iter().filter(|scene| scene.leader.is_some()).count() as u64;
            assert_eq!(led, count - 1, "everybody else knows who leads");
            assert_eq!(words, count * count - 1, "{count} members");
        }
    }
}

mod ring {
    use super::*;

    fn ring(seed: u64) -> Ring {
        Ring::new(Chance::new(seed))
    }

    /// Wakes it until it says something.
    fn first_words(ring: &mut Ring, scene: &mut Scene) -> Vec<Output> {
        loop {
            let said = ring.step(scene, Input::Wake);
            if !said.is_empty() {
                return said;
            }
            scene.now = ring.next_wake().unwrap();
        }
    }

    fn token(output: Output) -> (FleetId, FleetId, u64) {
        match output {
            Output::Send { to, word: Word::Token { candidate, number, .. } } => {
                (to, candidate, number)
            }
            other => panic!("{other:?} is no token"),
        }
    }

    fn is_ack(output: Output) -> bool {
        matches!(output, Output::Send { word: Word::Received { .. }, .. })
    }

    const fn passed(candidate: u64) -> Word {
        Word::Token { number: 9, candidate: FleetId(candidate), hops: 0 }
    }

    /// F4.
    #[test]
    fn one_starter_takes_at_most_3n_minus_1_words() {
        for count in 2..=12 {
            for starter in 1..=count {
                let words = words_of_one_starter(count, starter);
                assert!(words < 3 * count, "{count} members, started by {starter}: {words}");
                assert!(starter != 1 || words == 3 * count - 1, "the lowest is the worst starter");
            }
        }
    }

    fn words_of_one_starter(count: u64, starter: u64) -> u64 {
        let mut rings: Vec<Ring> = (1..=count).map(ring).collect();
        let mut scenes: Vec<Scene> = (1..=count).map(|me| scene(me, count)).collect();
        let at = starter as usize - 1;
        let first = first_words(&mut rings[at], &mut scenes[at]);
        let mut inbox: VecDeque<(u64, Output)> = first.into_iter().map(|o| (starter, o)).collect();
        let mut words = 0;
        while let Some((from, output)) = inbox.pop_front() {
            let (at, input) = match output {
                Output::Send { to, word } => (to.0 as usize - 1, heard(from, word)),
                Output::Stand => {
                    assert_eq!(from, count, "the highest stands");
                    scenes[from as usize - 1].claim = Claim::Leading(1);
                    (from as usize - 1, Input::Leads { reign: 1 })
                }
            };
            words += u64::from(matches!(input, Input::Heard { .. }) && !is_ack(output));
            if let Input::Heard { word: Word::Elected { leader, .. }, .. } = input {
                scenes[at].leader = Some((leader, BootTime(0)));
            }
            let said = rings[at].step(&scenes[at], input);
            inbox.extend(said.into_iter().map(|output| (at as u64 + 1, output)));
        }
        assert!(scenes.iter().all(|scene| scene.leader == Some((id(count), BootTime(0)))));
        words
    }

    #[test]
    fn a_higher_id_is_passed_on_and_a_lower_one_replaced_once() {
        let mut ring = ring(1);
        let said = ring.step(&scene(2, 3), heard(1, passed(1)));
        assert!(is_ack(said[0]));
        assert_eq!((said.len(), token(said[1]).0, token(said[1]).1), (2, id(3), id(2)));
        let said = ring.step(&scene(2, 3), heard(1, passed(1)));
        assert!(said.len() == 1 && is_ack(said[0]), "it takes part already: {said:?}");
        let said = ring.step(&scene(2, 3), heard(1, passed(3)));
        assert_eq!((said.len(), token(said[1]).0, token(said[1]).1), (2, id(3), id(3)));
        let said = ring.step(&scene(2, 3), heard(1, passed(2)));
        assert_eq!(said[1..], [Output::Stand], "its own came round");
    }

    /// F4.
    #[test]
    fn a_dead_neighbour_is_skipped_after_two_tries() {
        let (mut ring, mut scene) = (ring(1), scene(1, 3));
        let first = token(first_words(&mut ring, &mut scene)[0]);
        assert_eq!((first.0, first.1), (id(2), id(1)));
        scene.now = scene.now.plus_ms(ANSWER_MS);
        assert_eq!(token(ring.step(&scene, Input::Wake)[0]), first, "once more");
        scene.now = scene.now.plus_ms(ANSWER_MS);
        let next = token(ring.step(&scene, Input::Wake)[0]);
        assert_eq!((next.0, next.1), (id(3), id(1)), "then to the one after it");
        let received = Word::Received { number: next.2 };
        assert_eq!(ring.step(&scene, heard(3, received)), []);
        scene.now = scene.now.plus_ms(ANSWER_MS);
        assert_eq!(ring.step(&scene, Input::Wake), [], "it arrived");
    }

    #[test]
    fn alone_it_stands() {
        let (mut alone, mut only) = (ring(1), scene(1, 1));
        assert_eq!(first_words(&mut alone, &mut only), [Output::Stand]);
        // The same if those who seem to be here do not answer.
        let (mut deserted, mut seen) = (ring(1), scene(2, 2));
        assert_eq!(token(first_words(&mut deserted, &mut seen)[0]).0, id(1));
        seen.now = seen.now.plus_ms(ANSWER_MS);
        assert_eq!(deserted.step(&seen, Input::Wake).len(), 1);
        seen.now = seen.now.plus_ms(ANSWER_MS);
        assert_eq!(deserted.step(&seen, Input::Wake), [Output::Stand]);
    }

    /// F4.
    #[test]
    fn the_token_of_a_dead_member_does_not_go_round_for_ever() {
        let mut ring = ring(1);
        let word = Word::Token { number: 9, candidate: id(99), hops: 100 };
        let said = ring.step(&scene(2, 3), heard(1, word));
        assert!(said.len() == 1 && is_ack(said[0]), "acknowledged and dropped: {said:?}");
        let word = Word::Elected { number: 9, leader: id(99), reign: 1, hops: u32::MAX };
        assert_eq!(ring.step(&scene(2, 3), heard(1, word)).len(), 1);
    }

    /// F5.
    #[test]
    fn a_leader_is_not_deposed_by_a_token() {
        let leading = Scene { claim: Claim::Leading(4), ..scene(2, 3) };
        let said = ring(1).step(&leading, heard(1, passed(3)));
        assert!(matches!(
            said[..],
            [_, Output::Send { word: Word::Elected { leader: FleetId(2), reign: 4, .. }, .. }]
        ));
    }
}

mod rules {
    use super::*;

    const ME: u64 = 3;
    const LIFE: u64 = 70;
    const PROMISE_MS: u64 = SILENCE_MS * 105 / 100;
    const TRUST_MS: u64 = SILENCE_MS * 80 / 100;

    /// Member 3 of a fleet under the lowest-id rule; times are its own.
    fn fleet(majority_of: Option<u32>) -> Fleet {
        let config = Config {
            me: id(ME),
            life: LIFE,
            strategy: Strategy::LowestId,
            majority_of,
            beat_ms: 500,
            silence_ms: SILENCE_MS,
            hold_ms: HOLD_MS,
        };
        config.check().unwrap();
        let mut fleet = Fleet::new(config, 1);
        fleet.step(BootTime(0), Event::Start);
        fleet
    }

    fn beat(from: u64, claim: Claim) -> Event {
        let word = Word::Beat { count: 5, claim, seen: 0 };
        Event::Heard { from: id(from), life: 1, word }
    }

    fn asked(actions: &[Action]) -> Option<u64> {
        actions.iter().rev().find_map(|action| match action {
            Action::SendAll(Word::Beat { count, claim, .. }) if *claim != Claim::None => {
                Some(*count)
            }
            _ => None,
        })
    }

    fn supported(actions: &[Action], to: u64) -> bool {
        let word = Word::Support { life: 1, count: 5, seen: 0 };
        actions.contains(&Action::Send { to: id(to), word })
    }

    fn support(from: u64, count: u64) -> Event {
        Event::Heard { from: id(from), life: 1, word: Word::Support { life: LIFE, count, seen: 8 } }
    }

    /// F6.
    #[test]
    fn a_member_listens_before_it_leads_or_supports() {
        let mut alone = fleet(None);
        let before = BootTime(PROMISE_MS - 1);
        assert_eq!(alone.next_wake(), Some(BootTime(500)));
        alone.step(before, Event::Wake);
        let view = View { leader: None, obstacle: Some(Obstacle::Listening) };
        assert_eq!(alone.view(), view);
        alone.step(BootTime(PROMISE_MS), Event::Wake);
        assert_eq!(alone.view(), View { leader: Some((id(ME), 1)), obstacle: None });
        assert!(alone.is_trusted(BootTime(PROMISE_MS)));

        let mut ruled = fleet(Some(3));
        assert!(!supported(&ruled.step(before, beat(1, Claim::Asking)), 1), "it may have promised");
        assert!(supported(&ruled.step(BootTime(PROMISE_MS), beat(1, Claim::Asking)), 1));
    }

    /// F9.
    #[test]
    fn support_goes_to_one_at_a_time() {
        let mut fleet = fleet(Some(5));
        let start = BootTime(PROMISE_MS);
        assert!(supported(&fleet.step(start, beat(2, Claim::Asking)), 2));
        let last = start.plus_ms(PROMISE_MS - 1);
        assert!(!supported(&fleet.step(last, beat(1, Claim::Asking)), 1), "though it outranks 2");
        assert!(supported(&fleet.step(start.plus_ms(PROMISE_MS), beat(1, Claim::Asking)), 1));
        // By its own word, and only of the life that was supported, it is given back early.
        let later = start.plus_ms(PROMISE_MS + 1);
        fleet.step(later, Event::Heard { from: id(1), life: 2, word: Word::Farewell });
        assert!(!supported(&fleet.step(later, beat(2, Claim::Asking)), 2));
        fleet.step(later, Event::Heard { from: id(1), life: 1, word: Word::Farewell });
        assert!(supported(&fleet.step(later, beat(2, Claim::Asking)), 2));
    }

    /// A leader of three with the support of member 4, asked for at `PROMISE_MS`.
    fn leader() -> Fleet {
        let mut fleet = fleet(Some(3));
        let start = BootTime(PROMISE_MS);
        fleet.step(start, Event::Wake);
        assert_eq!(fleet.view().obstacle, Some(Obstacle::NoMajority), "it hears nobody");
        let count = asked(&fleet.step(start, beat(4, Claim::None))).unwrap();
        assert_eq!(fleet.view().leader, None, "nobody has answered");
        let answered = start.plus_ms(300);
        fleet.step(
            answered,
            Event::Heard {
                from: id(4),
                life: 1,
                word: Word::Support { life: LIFE - 1, count, seen: 0 },
            },
        );
        assert_eq!(fleet.view().leader, None, "an answer to an earlier life counts for nothing");
        fleet.step(answered, support(4, count));
        assert_eq!(fleet.view().leader, Some((id(ME), 9)), "above what the supporter has seen");
        assert_eq!(fleet.trusted_until(), start.plus_ms(TRUST_MS), "counted from before it asked");
        fleet
    }

    /// F10.
    #[test]
    fn a_leader_without_its_majority_steps_down() {
        let mut fleet = leader();
        let end = fleet.trusted_until();
        fleet.step(BootTime(end.0 - 1), Event::Wake);
        assert_eq!(fleet.view().leader, Some((id(ME), 9)));
        assert!(fleet.next_wake().unwrap() <= end);
        // An answer that comes too late does not bring the reign back.
        fleet.step(end, support(4, 1));
        assert_eq!(fleet.view().leader, None);
        assert!(!fleet.is_trusted(end));
    }

    /// F11.
    #[test]
    fn a_deposed_leader_may_finish_while_nobody_else_can_lead() {
        let mut fleet = leader();
        let now = BootTime(PROMISE_MS + 400);
        let said = fleet.step(now, beat(1, Claim::Asking));
        assert!(!supported(&said, 1), "it still has its own promise");
        assert_eq!(fleet.view().leader, None);
        assert!(fleet.is_trusted(now), "for what is left of the time it counted on");
        assert!(!fleet.is_trusted(BootTime(PROMISE_MS + TRUST_MS)));
    }

    /// F7.
    #[test]
    fn of_two_leaders_the_outranked_one_gives_up() {
        let mut fleet = fleet(None);
        let start = BootTime(PROMISE_MS);
        fleet.step(start, Event::Wake);
        fleet.step(start, beat(4, Claim::Leading(6)));
        assert_eq!(fleet.view().leader, Some((id(ME), 1)));
        fleet.step(start, beat(2, Claim::Leading(2)));
        assert_eq!(fleet.view().leader, Some((id(2), 2)));
        assert!(!fleet.is_trusted(start));
        fleet.step(start.plus_ms(SILENCE_MS), Event::Wake);
        assert_eq!(fleet.view().leader, Some((id(ME), 7)), "2 has fallen silent");
    }

    /// F8.
    #[test]
    fn an_id_that_is_used_twice_does_not_lead() {
        let mut fleet = fleet(None);
        let start = BootTime(PROMISE_MS);
        fleet.step(start, Event::Wake);
        let own = |life| Event::Heard { from: id(ME), life, word: Word::Answer };
        fleet.step(start, own(LIFE));
        assert_eq!(fleet.view().obstacle, None, "its own words");
        fleet.step(start, own(LIFE + 1));
        let view = View { leader: None, obstacle: Some(Obstacle::DuplicateId) };
        assert_eq!(fleet.view(), view);
        fleet.step(start.plus_ms(SILENCE_MS), Event::Wake);
        assert_eq!(fleet.view().leader, Some((id(ME), 2)), "the other one has gone");
    }

    /// F12.
    #[test]
    fn more_ids_than_the_rule_was_told_of_elect_nobody() {
        let mut fleet = fleet(Some(2));
        let start = BootTime(PROMISE_MS);
        assert!(supported(&fleet.step(start, beat(1, Claim::Asking)), 1));
        fleet.step(start, beat(2, Claim::None));
        assert_eq!(fleet.view().obstacle, Some(Obstacle::TooManyMembers));
        assert!(!supported(&fleet.step(start, beat(1, Claim::Asking)), 1));
    }

    #[test]
    fn who_leaves_says_farewell_and_nothing_more() {
        let mut fleet = leader();
        let now = BootTime(PROMISE_MS + 400);
        let said = fleet.step(now, Event::Leave);
        let view = Action::Announce(View::default());
        assert_eq!(said, [Action::SendAll(Word::Farewell), view, Action::Closed]);
        assert!(!fleet.is_trusted(now));
        assert_eq!(fleet.step(now, beat(1, Claim::Asking)), []);
        assert_eq!(fleet.next_wake(), None);
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused() {
        let good = Config {
            me: id(1),
            life: 1,
            strategy: Strategy::Ring,
            majority_of: None,
            beat_ms: 500,
            silence_ms: 2_000,
            hold_ms: 0,
        };
        assert_eq!(good.check(), Ok(()));
        let bad = [
            Config { beat_ms: 0, ..good.clone() },
            Config { silence_ms: 1_999, ..good.clone() },
            Config { silence_ms: u64::MAX, ..good.clone() },
            Config { hold_ms: u64::MAX, ..good.clone() },
            Config { majority_of: Some(0), ..good.clone() },
            Config { majority_of: Some(1_000), ..good.clone() },
        ];
        assert!(bad.iter().all(|config| config.check().is_err()));
    }
}

//! Who may ask what of which name.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use bellwether_core::command::Command;
use bellwether_core::error::Refusal;
use bellwether_core::fence::Fence;
use bellwether_core::name::{LeaseName, Part, QueueName, QueuePath, SequenceNumber, Term};
use bellwether_core::right::{Grant, Grants, Need, Of, Realm, Right, Scope, needs};
use bellwether_core::settings::{QueueSettings, SettingsPatch};

fn grants(listed: &[(Realm, &str, &[Right])]) -> Grants {
    let grant = |(realm, scope, rights): &(Realm, &str, &[Right])| Grant {
        realm: *realm,
        scope: Scope::parse(*realm, scope).unwrap(),
        rights: rights.to_vec(),
    };
    Grants(listed.iter().map(grant).collect())
}

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn has(realm: Realm, scope: &str, name: &str) -> bool {
    let granted = grants(&[(realm, scope, &[Right::Listen])]);
    let (queue, lease) = (queue(name), LeaseName::new(name).unwrap());
    let of = match realm {
        Realm::Queues => Of::Queue(&queue, Part::Main),
        Realm::Elections => Of::Lease(&lease),
    };
    granted.covers(&Need { right: Right::Listen, of })
}

#[test]
fn a_prefix_ends_at_a_slash_and_a_name_is_that_name() {
    for realm in [Realm::Queues, Realm::Elections] {
        assert!(has(realm, "*", "orders"));
        assert!(has(realm, "orders", "orders"));
        for other in ["orders2", "order", "orders/eu", "orders/", "orders/../orders", "örders"] {
            assert!(!has(realm, "orders", other), "{other}");
        }
        for under in ["orders/eu", "orders/eu/late", "orders/*", "orders/$dead"] {
            assert!(has(realm, "orders/*", under), "{under}");
        }
        for other in ["orders", "orders2", "orders2/eu", "orders%2Feu", "/orders/eu"] {
            assert!(!has(realm, "orders/*", other), "{other}");
        }
    }
}

#[test]
fn case_counts_as_it_does_in_the_names() {
    assert!(has(Realm::Queues, "Orders", "oRDERS") && has(Realm::Queues, "ORDERS/*", "orders/eu"));
    assert!(!has(Realm::Elections, "Orders", "orders"));
    assert!(!has(Realm::Elections, "ORDERS/*", "orders/eu"));
    // Only ASCII: the names themselves are told apart so.
    assert!(!has(Realm::Queues, "Örders", "örders"));
}

#[test]
fn the_dead_letters_of_a_queue_can_be_granted_alone() {
    let granted = grants(&[(Realm::Queues, "orders/$dead", &[Right::Listen])]);
    let covers = |queue: &QueueName, part| {
        granted.covers(&Need { right: Right::Listen, of: Of::Queue(queue, part) })
    };
    assert!(covers(&queue("orders"), Part::Dead));
    assert!(!covers(&queue("orders"), Part::Main));
    assert!(!covers(&queue("orders2"), Part::Dead));
    let whole = grants(&[(Realm::Queues, "orders", &[Right::Listen])]);
    let dead = queue("orders");
    assert!(whole.covers(&Need { right: Right::Listen, of: Of::Queue(&dead, Part::Dead) }));
}

#[test]
fn a_scope_that_would_be_misread_is_none() {
    for realm in [Realm::Queues, Realm::Elections] {
        for text in ["", "/*", "**", "orders*", "*orders", "or*ders", "a/*/b", "a\nb", "*/*"] {
            let said = Scope::parse(realm, text);
            assert!(matches!(said, Err(Refusal::InvalidName { .. })), "{text:?}: {said:?}");
        }
        for text in ["*", "orders", "orders/*", "a/b/c"] {
            assert_eq!(Scope::parse(realm, text).unwrap().to_string(), text);
        }
    }
    assert_eq!(Scope::parse(Realm::Queues, "a/$dead").unwrap().to_string(), "a/$dead");
}

#[test]
fn manage_includes_the_others_and_these_include_nothing() {
    for has in Right::ALL {
        for needed in Right::ALL {
            assert_eq!(has.includes(needed), has == needed || has == Right::Manage);
        }
        assert_eq!(Right::of_word(has.word()), Some(has));
    }
    assert_eq!(Right::of_word("own"), None);
}

#[test]
fn queues_and_elections_are_granted_apart() {
    let queues = grants(&[(Realm::Queues, "*", &[Right::Manage])]);
    let lease = LeaseName::new("leader").unwrap();
    let refused = queues.check_command(&Command::DescribeLease { lease }).unwrap_err();
    assert!(refused.to_string().contains("election \"leader\""), "{refused}");
    assert!(!refused.retry());
}

#[test]
fn nobody_moves_by_the_server_what_he_may_not_move_himself() {
    let own = grants(&[(Realm::Queues, "mine", &[Right::Manage])]);
    let both = grants(&[
        (Realm::Queues, "mine", &[Right::Manage]),
        (Realm::Queues, "theirs", &[Right::Send]),
    ]);
    let (mine, theirs) = (queue("mine"), queue("theirs"));
    let forwarding = QueueSettings { forward_to: Some(theirs.clone()), ..QueueSettings::default() };
    let dead =
        QueueSettings { forward_dead_letters_to: Some(theirs.clone()), ..QueueSettings::default() };
    let patch =
        SettingsPatch { forward_to: Some(Some(theirs.clone())), ..SettingsPatch::default() };
    let elsewhere = [
        Command::CreateQueue { queue: mine.clone(), settings: forwarding.into() },
        Command::CreateQueue { queue: mine.clone(), settings: dead.into() },
        Command::UpdateQueue { queue: mine.clone(), patch: patch.into() },
        Command::Redrive {
            queue: mine.clone(),
            to: Some(theirs),
            sequences: vec![SequenceNumber(1)],
            max: 1,
        },
    ];
    for command in elsewhere {
        let refused = own.check_command(&command).unwrap_err();
        let missing = Refusal::Forbidden { right: Right::Send, on: "queue \"theirs\"".into() };
        assert_eq!(refused, missing, "{command:?}");
        assert_eq!(both.check_command(&command), Ok(()), "{command:?}");
    }
    let home = Command::Redrive { queue: mine.clone(), to: None, sequences: Vec::new(), max: 1 };
    assert_eq!(own.check_command(&home), Ok(()));
    let listener = grants(&[(Realm::Queues, "mine", &[Right::Listen])]);
    assert!(listener.check_command(&home).is_err(), "it sends");
    let purge = Command::Purge { from: QueuePath::main(mine), before: None, max: 1 };
    assert!(listener.check_command(&purge).is_err() && needs(&purge).is_manage());
}

#[test]
fn a_list_of_everything_needs_the_right_on_everything() {
    let under = grants(&[(Realm::Queues, "orders/*", &[Right::Manage])]);
    let all = grants(&[(Realm::Queues, "*", &[Right::Listen])]);
    let list = Command::ListQueues { after: None, max: 10 };
    assert!(under.check_command(&list).is_err());
    assert_eq!(all.check_command(&list), Ok(()));
    assert!(all.check_command(&Command::ListMembers).is_err());
    assert_eq!(Grants::all().check_command(&Command::ListMembers), Ok(()));
    assert!(Grants::default().check_command(&list).is_err(), "nothing is granted by itself");
}

#[test]
fn a_backup_is_for_those_who_manage_everything_in_both_realms() {
    let backup = Command::Backup { id: 7, step: 0 };
    let on = |realm, right| (realm, "*", right);
    let (listen, manage) = (&[Right::Listen, Right::Send][..], &[Right::Manage][..]);
    for short in [
        grants(&[on(Realm::Queues, manage)]),
        grants(&[on(Realm::Elections, manage)]),
        grants(&[on(Realm::Queues, manage), on(Realm::Elections, listen)]),
        grants(&[on(Realm::Queues, listen), on(Realm::Elections, manage)]),
    ] {
        assert!(short.check_command(&backup).is_err(), "{short:?}");
    }
    assert_eq!(Grants::all().check_command(&backup), Ok(()));
    assert!(needs(&backup).is_manage());
}

#[test]
fn a_history_is_for_those_who_may_observe_its_election() {
    let lease = LeaseName::new("nightly").unwrap();
    let history = Command::LeaseHistory { lease, max: 1 };
    let observer = |name| grants(&[(Realm::Elections, name, &[Right::Listen])]);
    assert_eq!(observer("nightly").check_command(&history), Ok(()));
    assert!(observer("hourly").check_command(&history).is_err());
}

#[test]
fn what_is_narrowed_is_never_more_than_before() {
    let names = ["orders", "ORDERS", "orders/eu", "orders/eu/late", "orders2", "mail", "mail/a"];
    let scopes = ["*", "orders", "orders/*", "orders/eu", "orders/eu/*", "mail", "Mail/*"];
    for realm in [Realm::Queues, Realm::Elections] {
        for scope in scopes {
            let whole = grants(&[(realm, scope, &[Right::Send])]);
            for to in ["orders", "orders/eu", "mail", "MAIL"] {
                let narrow = whole.narrowed(to);
                for name in names {
                    let (queue, lease) = (queue(name), LeaseName::new(name).unwrap());
                    let of = match realm {
                        Realm::Queues => Of::Queue(&queue, Part::Main),
                        Realm::Elections => Of::Lease(&lease),
                    };
                    let need = Need { right: Right::Send, of };
                    let fold = |text: &str| match realm {
                        Realm::Queues => text.to_ascii_lowercase(),
                        Realm::Elections => text.to_owned(),
                    };
                    let (name, to) = (fold(name), fold(to));
                    let is_within = name == to || name.starts_with(&format!("{to}/"));
                    let wanted = whole.covers(&need) && is_within;
                    assert_eq!(narrow.covers(&need), wanted, "{scope} to {to}: {name}");
                }
                assert!(!narrow.covers(&Need { right: Right::Send, of: Of::Every(realm) }));
            }
        }
    }
}

/// What is said of a term is for those who have to do with its election, in whatever way.
#[test]
fn a_fence_is_for_those_who_may_observe_lead_or_manage_its_election() {
    let election = LeaseName::new("nightly").unwrap();
    let fence = Fence { election, term: Term(7) };
    for right in Right::ALL {
        let may = grants(&[(Realm::Elections, "nightly", &[right])]);
        assert_eq!(may.check_fence(&fence), Ok(()), "{right}");
        let other =
            grants(&[(Realm::Elections, "other", &[right]), (Realm::Queues, "*", &[right])]);
        let on = "election \"nightly\"".to_owned();
        assert_eq!(other.check_fence(&fence), Err(Refusal::Forbidden { right: Right::Listen, on }));
    }
}

//! What only a connection can get wrong, said to it byte by byte.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use bellwether::core::command::{Command, Disposition, Receive, ReceiveMode, Request, Settlement};
use bellwether::core::few::Few;
use bellwether::core::name::{MemberId, MemberSlot, QueueName, QueuePath, RequestNumber};
use bellwether::core::outcome::Outcome;
use bellwether::core::time::BootTime;
use bellwether::engine::Call;
use bellwether::wire::accept::{Acceptor, Ended, Limits};
use bellwether::wire::call::{Answer, get_answer, put_call};
use bellwether::wire::frame::{put_frame, take_frame, take_magic};
use bellwether::wire::parts::{Parts, put_parts};
use bellwether::wire::{Frame, Goodbye, Hello, Kind, MAGIC, VERSION, Why};
use bellwether::{Bellwether, Error, Open};
use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const FOR_EVER: Duration = Duration::from_secs(60);

/// A client that says what it is told to.
struct Client {
    stream: DuplexStream,
    read: BytesMut,
    is_greeted: bool,
    served: JoinHandle<Ended>,
}

impl Client {
    fn connect(acceptor: &Acceptor) -> Self {
        let (stream, theirs) = tokio::io::duplex(1 << 20);
        let acceptor = acceptor.clone();
        let served =
            tokio::spawn(async move { acceptor.serve(theirs, CancellationToken::new()).await });
        Self { stream, read: BytesMut::new(), is_greeted: false, served }
    }

    async fn greeted(acceptor: &Acceptor) -> Self {
        let mut client = Self::connect(acceptor);
        client.say(&hello()).await;
        assert_eq!(client.hear().await.kind, Kind::Welcome);
        client
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next frame.
    async fn hear(&mut self) -> Frame {
        loop {
            if !self.is_greeted {
                self.is_greeted = take_magic(&mut self.read).unwrap();
            }
            if self.is_greeted
                && let Some(frame) = take_frame(&mut self.read).unwrap()
            {
                return frame;
            }
            let read = self.stream.read_buf(&mut self.read);
            let read =
                tokio::time::timeout(FOR_EVER, read).await.expect("the server says something");
            assert!(read.unwrap() > 0, "the connection ended without a word");
        }
    }

    async fn goodbye(&mut self) -> Why {
        let frame = self.hear().await;
        assert_eq!(frame.kind, Kind::Goodbye);
        Goodbye::get(&frame.body).unwrap().why
    }

    async fn ask(&mut self, number: u64, call: &Call) {
        let (mut whole, mut out) = (Vec::new(), Vec::new());
        put_call(call, &mut whole);
        put_parts(Kind::Ask, number, &whole, &mut out);
        self.say(&out).await;
    }

    async fn answer(&mut self) -> (u64, Answer) {
        let frame = self.hear().await;
        assert_eq!(frame.kind, Kind::Answer);
        let (number, whole) = Parts::new(0).take(frame).unwrap().expect("a short answer");
        (number, get_answer(&whole, BootTime(0)).unwrap())
    }

    async fn outcome(&mut self, number: u64, call: &Call) -> Outcome {
        self.ask(number, call).await;
        let (answered, answer) = self.answer().await;
        assert_eq!(answered, number);
        answer.expect("it was not withdrawn").expect("it was not refused").outcome
    }

    async fn join(&mut self, id: u128) -> MemberSlot {
        let (id, metadata) = (MemberId(id), String::new());
        let join = Command::Join { id, metadata, ttl_ms: 60_000 };
        match self.outcome(1, &call(MemberSlot(0), 0, join)).await {
            Outcome::Joined(slot) => slot,
            other => panic!("{other:?}"),
        }
    }
}

fn hello() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let (name, credential) = ("a test".into(), String::new());
    let hello = Hello { versions: (VERSION, VERSION), name, credential, process: String::new() };
    put_frame(Kind::Hello, &mut out, |out| hello.put(out));
    out
}

fn call(member: MemberSlot, number: u64, command: Command) -> Call {
    let (number, answered_below) = (RequestNumber(number), RequestNumber(0));
    let request = Request { member, number, answered_below, command, fence: None };
    Call { request, contents: Few::default() }
}

fn receive(member: MemberSlot, number: u64, wait_ms: u64) -> Call {
    let from = QueuePath::main(QueueName::new("orders").unwrap());
    let (session, max, mode, lock_ms) = (None, 1, ReceiveMode::PeekLock, None);
    call(member, number, Command::Receive(Receive { from, session, max, mode, wait_ms, lock_ms }))
}

fn withdraw(number: u8) -> Vec<u8> {
    let mut out = Vec::new();
    put_frame(Kind::Withdraw, &mut out, |out| out.extend_from_slice(&[number, 1]));
    out
}

async fn store(limits: Limits) -> (Bellwether, Acceptor) {
    let bw = Bellwether::open("memory:").await.unwrap();
    bw.create_queue("orders", bellwether::QueueSettings::default()).await.unwrap();
    let acceptor = Acceptor::new(&bw, limits).unwrap();
    (bw, acceptor)
}

#[tokio::test]
async fn who_does_not_speak_the_wire_is_told_so_and_sent_away() {
    let (_bw, acceptor) = store(Limits::default()).await;
    let magic = MAGIC.as_slice();
    let too_long = [magic, &[0xff; 4]].concat();
    let unknown = [magic, &[2, 0, 0, 0, 99, 0]].concat();
    let too_early = [magic, &[2, 0, 0, 0, Kind::Ask as u8, 1]].concat();
    let twice = [hello(), hello()[MAGIC.len()..].to_vec()].concat();
    for said in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), too_long, unknown, too_early, twice] {
        let mut client = Client::connect(&acceptor);
        client.say(&said).await;
        let frame = client.hear().await;
        let frame = if frame.kind == Kind::Welcome { client.hear().await } else { frame };
        assert_eq!(Goodbye::get(&frame.body).unwrap().why, Why::Protocol, "{said:?}");
        drop(client.stream);
        assert!(matches!(client.served.await.unwrap(), Ended::SentAway(_)));
    }
}

#[tokio::test]
async fn who_speaks_no_common_version_hears_which_are_spoken() {
    let (_bw, acceptor) = store(Limits::default()).await;
    let mut client = Client::connect(&acceptor);
    let mut said = MAGIC.to_vec();
    let versions = (VERSION + 1, VERSION + 1);
    let hello =
        Hello { versions, name: String::new(), credential: String::new(), process: String::new() };
    put_frame(Kind::Hello, &mut said, |out| hello.put(out));
    client.say(&said).await;
    assert_eq!(client.goodbye().await, Why::Version);
}

#[tokio::test]
async fn who_breaks_a_limit_is_sent_away_and_nobody_else() {
    let limits = Limits { asks_max: 2, ..Limits::default() };
    let (bw, acceptor) = store(limits).await;
    let mut calm = Client::greeted(&acceptor).await;
    let mut greedy = Client::greeted(&acceptor).await;
    let member = greedy.join(7).await;
    for number in 1..=3 {
        greedy.ask(number, &receive(member, 0, 60_000)).await;
    }
    assert_eq!(greedy.goodbye().await, Why::Limit);
    assert!(calm.join(8).await.0 > 0);
    // Its waits have gone with it.
    assert!(matches!(greedy.served.await.unwrap(), Ended::SentAway(_)));
    let orders = bw.queue("orders").unwrap();
    orders.send("a coffee").await.unwrap();
    assert!(orders.receive().one().await.unwrap().is_some());
}

#[tokio::test]
async fn time_and_numbers_in_use_are_not_the_clients_to_give() {
    let (_bw, acceptor) = store(Limits::default()).await;
    let mut client = Client::greeted(&acceptor).await;
    client.ask(1, &call(MemberSlot(0), 0, Command::Tick)).await;
    assert_eq!(client.goodbye().await, Why::Protocol);
    let mut client = Client::greeted(&acceptor).await;
    let member = client.join(7).await;
    client.ask(2, &receive(member, 0, 60_000)).await;
    client.ask(2, &receive(member, 0, 60_000)).await;
    assert_eq!(client.goodbye().await, Why::Protocol);
}

#[tokio::test]
async fn one_ask_that_cannot_be_understood_is_refused_alone() {
    let (_bw, acceptor) = store(Limits::default()).await;
    let mut client = Client::greeted(&acceptor).await;
    let mut out = Vec::new();
    put_parts(Kind::Ask, 5, &[1, 0, 0, 250, 1], &mut out);
    client.say(&out).await;
    let (number, answer) = client.answer().await;
    assert!(number == 5 && matches!(answer, Some(Err(Error::Refused(_)))), "{answer:?}");
    assert!(client.join(7).await.0 > 0);
}

#[tokio::test]
async fn nothing_follows_the_last_words() {
    let (bw, acceptor) = store(Limits::default()).await;
    let orders = bw.queue("orders").unwrap();
    orders.send("a coffee").await.unwrap();
    let mut client = Client::greeted(&acceptor).await;
    let member = client.join(7).await;
    // A receive and a frame that must not be, in one packet.
    let (mut whole, mut out) = (Vec::new(), Vec::new());
    put_call(&receive(member, 0, 0), &mut whole);
    put_parts(Kind::Ask, 2, &whole, &mut out);
    put_frame(Kind::Welcome, &mut out, |_| ());
    client.say(&out).await;
    assert_eq!(client.goodbye().await, Why::Protocol);
    client.served.await.unwrap();
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).await.unwrap();
    assert!(client.read.is_empty() && rest.is_empty());
    assert_eq!(orders.info().await.unwrap().counts.ready, 1, "it went back");
}

#[tokio::test]
async fn who_is_still_sending_after_the_last_words_is_let_finish() {
    let (_bw, acceptor) = store(Limits::default()).await;
    let mut client = Client::connect(&acceptor);
    client.say(&[&hello()[..], &[2, 0, 0, 0, 99, 0], &vec![1; 100_000]].concat()).await;
    assert_eq!(client.hear().await.kind, Kind::Welcome);
    assert_eq!(client.goodbye().await, Why::Protocol);
    client.say(&vec![1; 100_000]).await;
    client.stream.shutdown().await.unwrap();
    assert!(matches!(client.served.await.unwrap(), Ended::SentAway(_)));
}

#[tokio::test]
async fn a_withdrawn_wait_is_answered_and_takes_nothing() {
    let (bw, acceptor) = store(Limits::default()).await;
    let mut client = Client::greeted(&acceptor).await;
    let member = client.join(7).await;
    client.ask(2, &receive(member, 5, 60_000)).await;
    client.say(&withdraw(2)).await;
    let (number, answer) = client.answer().await;
    assert!(number == 2 && answer.is_none(), "{answer:?}");
    let orders = bw.queue("orders").unwrap();
    orders.send("a coffee").await.unwrap();
    assert!(orders.receive().one().await.unwrap().is_some());
}

#[tokio::test]
async fn what_was_not_heard_goes_back_unless_it_can_be_asked_for_again() {
    let (bw, acceptor) = store(Limits::default()).await;
    let orders = bw.queue("orders").unwrap();
    for (number, locked) in [(0, 0), (5, 1)] {
        orders.send("a coffee").await.unwrap();
        let mut client = Client::greeted(&acceptor).await;
        let member = client.join(100 + u128::from(number)).await;
        drop(client.stream);
        client.served.await.unwrap();
        let mut deaf = Client::connect(&acceptor);
        deaf.say(&hello()).await;
        deaf.ask(1, &receive(member, number, 0)).await;
        // It is gone before it could hear, however far the server has come.
        drop(deaf.stream);
        deaf.served.await.unwrap();
        let counts = bw.queue("orders").unwrap().info().await.unwrap().counts;
        assert!(counts.locked <= locked, "{counts:?} under the number {number}");
        assert_eq!(counts.ready + counts.locked, 1);
        let mut again = Client::greeted(&acceptor).await;
        let Outcome::Received(views) = again.outcome(1, &receive(member, number, 0)).await else {
            panic!("a receive was asked")
        };
        let token = views[0].token().unwrap();
        let settlements =
            Few::One(Settlement { token, disposition: Disposition::Complete, overlay: None });
        let from = QueuePath::main(orders.name().clone());
        let settle = call(member, 0, Command::Settle { from, settlements });
        assert_eq!(again.outcome(2, &settle).await, Outcome::Settled { refused: Vec::new() });
    }
}

#[tokio::test]
async fn a_member_that_has_come_back_is_not_spoken_for_by_its_old_connection() {
    let (_bw, acceptor) = store(Limits::default()).await;
    let mut old = Client::greeted(&acceptor).await;
    let member = old.join(7).await;
    let mut new = Client::greeted(&acceptor).await;
    assert_eq!(new.join(7).await, member);
    old.ask(2, &receive(member, 5, 0)).await;
    assert_eq!(old.goodbye().await, Why::Done);
    let Outcome::Received(none) = new.outcome(2, &receive(member, 5, 0)).await else {
        panic!("a receive was asked")
    };
    assert!(none.is_empty());
}

#[tokio::test]
async fn a_server_that_stops_answers_first() {
    let (_bw, acceptor) = store(Limits::default()).await;
    let (stream, theirs) = tokio::io::duplex(1 << 20);
    let stop = CancellationToken::new();
    let (serving, stopping) = (acceptor.clone(), stop.clone());
    let served = tokio::spawn(async move { serving.serve(theirs, stopping).await });
    let mut client = Client { stream, read: BytesMut::new(), is_greeted: false, served };
    client.say(&hello()).await;
    assert_eq!(client.hear().await.kind, Kind::Welcome);
    let member = client.join(7).await;
    client.ask(2, &receive(member, 5, 60_000)).await;
    // The wait is there when this is answered.
    client.ask(3, &call(member, 0, Command::ListMembers)).await;
    assert_eq!(client.answer().await.0, 3);
    stop.cancel();
    let (number, answer) = client.answer().await;
    assert!(number == 2 && answer.is_none(), "ask again somewhere else: {answer:?}");
    assert_eq!(client.goodbye().await, Why::Closing);
}

/// Whoever is started before its server stays, and takes part as soon as it is there.
#[tokio::test]
async fn a_server_that_comes_later_is_waited_for() {
    let folder = std::env::temp_dir().join(format!("bellwether-later-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let socket = folder.join("socket");
    let address = format!("bellwether+unix:{}", socket.display());
    let opening = tokio::spawn(Open::new(address).metadata("early bird").wait(FOR_EVER).open());
    // It has tried, in vain.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!opening.is_finished());
    let (store, acceptor) = store(Limits::default()).await;
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move { acceptor.serve(stream, CancellationToken::new()).await });
        }
    });
    let bw = opening.await.unwrap().unwrap();
    let guard = bw.election("leader").unwrap().contend().await.unwrap();
    let members = store.members().await.unwrap();
    let leader = members.iter().find(|member| member.id == guard.member()).unwrap();
    assert_eq!(leader.metadata, "early bird", "and says who it is");
    guard.release().await.unwrap();
    bw.close().await;
    std::fs::remove_dir_all(folder).unwrap();
}

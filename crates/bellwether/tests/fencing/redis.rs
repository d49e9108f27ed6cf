//! Redis.

use std::sync::Arc;

use bellwether::conformance::fencing::{self, FencedResource};
use bellwether::fencing::FenceError;
use bellwether::fencing::redis::{COMMAND_WORDS_MAX, eval, key, refusal};
use bellwether::{Fence, Term};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::servers::Redis;
use crate::{ELECTION, fence};

/// Sends one command over a connection of its own. Gives every simple value of the reply, in order.
async fn ask<W: AsRef<[u8]>>(port: u16, words: &[W]) -> Result<Vec<String>, String> {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend(word);
        request.extend(b"\r\n");
    }
    stream.write_all(&request).await.unwrap();
    let (mut values, mut expected) = (Vec::new(), 1);
    while expected > 0 {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        expected -= 1;
        match kind {
            "-" => return Err(rest.to_owned()),
            "*" => expected += rest.parse::<usize>().unwrap(),
            "$" if rest != "-1" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                stream.read_exact(&mut bytes).await.unwrap();
                bytes.truncate(bytes.len() - 2);
                values.push(String::from_utf8(bytes).unwrap());
            }
            _ => values.push(rest.to_owned()),
        }
    }
    Ok(values)
}

struct List(Mutex<Redis>);

impl List {
    async fn new() -> Self {
        Self(Mutex::new(Redis::start().await))
    }

    async fn port(&self) -> u16 {
        self.0.lock().await.port()
    }
}

impl FencedResource for List {
    type Fault = String;

    async fn append(&self, fence: &Fence, record: &str) -> Result<(), FenceError<String>> {
        let asked = ask(self.port().await, &eval(fence, &[&["RPUSH", "records", record]])).await;
        let no = |error: String| match refusal(fence, &error) {
            Some(fenced) => fenced.into(),
            None => FenceError::Fault(error),
        };
        asked.map(drop).map_err(no)
    }

    async fn records(&self) -> Vec<String> {
        ask(self.port().await, &["LRANGE", "records", "0", "-1"]).await.unwrap()
    }
}

#[tokio::test]
async fn a_late_write_is_refused() {
    let list = List::new().await;
    let restart = async || list.0.lock().await.restart().await;
    fencing::a_late_write_is_refused(&list, ELECTION, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_never_go_down() {
    fencing::terms_never_go_down(Arc::new(List::new().await), ELECTION).await;
}

#[tokio::test]
async fn many_commands_are_one_step_with_their_replies() {
    let redis = Redis::start().await;
    let port = redis.port();
    let commands: [&[&str]; 3] = [&["SET", "a", "1"], &["INCRBY", "a", "41"], &["GET", "none"]];
    assert_eq!(ask(port, &eval(&fence(u64::MAX), &commands)).await.unwrap(), ["OK", "42", "-1"]);
    let late = ask(port, &eval(&fence(u64::MAX - 1), &commands)).await.unwrap_err();
    assert_eq!(refusal(&fence(u64::MAX - 1), &late).unwrap().newest, Term(u64::MAX));
    let kept = ask(port, &["MGET", "a", &key(&fence(1).election)]).await.unwrap();
    assert_eq!(kept, ["42", &u64::MAX.to_string()]);
    // No commands: only shows the term.
    assert_eq!(ask(port, &eval::<&str>(&fence(u64::MAX), &[])).await.unwrap(), [""; 0]);

    let mut long = vec!["RPUSH", "long"];
    long.resize(COMMAND_WORDS_MAX, "x");
    let pushed = ask(port, &eval(&fence(u64::MAX), &[&long])).await.unwrap();
    assert_eq!(pushed, [(COMMAND_WORDS_MAX - 2).to_string()]);
}

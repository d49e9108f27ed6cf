//! The same work on SQLite: WAL, `synchronous=FULL`, one writer thread that commits groups, every
//! step committed before it is answered.

use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

enum Step {
    Send(Vec<u8>, oneshot::Sender<()>),
    Receive(oneshot::Sender<Option<(i64, Vec<u8>)>>),
    Complete(i64, oneshot::Sender<()>),
}

pub(crate) struct Sqlite {
    steps: Option<mpsc::Sender<Step>>,
    writer: Option<JoinHandle<()>>,
}

impl Sqlite {
    pub(crate) fn open(folder: &Path) -> Self {
        let path = folder.join("queue.sqlite");
        let (steps, inbox) = mpsc::channel();
        let writer = std::thread::spawn(move || {
            let connection = Connection::open(path).expect("a database");
            connection
                .execute_batch(
                    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
                     CREATE TABLE messages(id INTEGER PRIMARY KEY, locked INTEGER NOT NULL
                         DEFAULT 0, body BLOB NOT NULL);
                     CREATE INDEX ready ON messages(id) WHERE locked = 0;",
                )
                .expect("a schema");
            serve(&connection, &inbox);
        });
        Self { steps: Some(steps), writer: Some(writer) }
    }

    fn push(&self, step: Step) {
        self.steps.as_ref().expect("open").send(step).expect("a writer");
    }

    /// One full cycle: send, receive, complete, each after its commit.
    pub(crate) async fn cycle(&self, body: &[u8]) {
        let (done, sent) = oneshot::channel();
        self.push(Step::Send(body.to_vec(), done));
        sent.await.expect("sent");
        let (done, received) = oneshot::channel();
        self.push(Step::Receive(done));
        let (id, _body) = received.await.expect("received").expect("there is one for each sender");
        let (done, completed) = oneshot::channel();
        self.push(Step::Complete(id, done));
        completed.await.expect("completed");
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.steps = None;
        if let Some(writer) = self.writer.take() {
            writer.join().expect("the writer");
        }
    }
}

fn serve(connection: &Connection, inbox: &mpsc::Receiver<Step>) {
    let mut send = connection.prepare("INSERT INTO messages(body) VALUES (?1)").expect("sql");
    let mut receive = connection
        .prepare(
            "UPDATE messages SET locked = 1 WHERE id =
                 (SELECT id FROM messages WHERE locked = 0 ORDER BY id LIMIT 1)
             RETURNING id, body",
        )
        .expect("sql");
    let mut complete = connection.prepare("DELETE FROM messages WHERE id = ?1").expect("sql");
    while let Ok(first) = inbox.recv() {
        let mut answers: Vec<Box<dyn FnOnce()>> = Vec::new();
        connection.execute_batch("BEGIN IMMEDIATE").expect("begin");
        for step in std::iter::once(first).chain(std::iter::from_fn(|| inbox.try_recv().ok())) {
            match step {
                Step::Send(body, done) => {
                    send.execute(params![body]).expect("insert");
                    answers.push(Box::new(move || done.send(()).unwrap_or_default()));
                }
                Step::Receive(done) => {
                    let found = receive.query_row([], |r| Ok((r.get(0)?, r.get(1)?))).ok();
                    answers.push(Box::new(move || drop(done.send(found))));
                }
                Step::Complete(id, done) => {
                    complete.execute(params![id]).expect("delete");
                    answers.push(Box::new(move || done.send(()).unwrap_or_default()));
                }
            }
            if answers.len() >= 4096 {
                break;
            }
        }
        connection.execute_batch("COMMIT").expect("commit");
        answers.into_iter().for_each(|answer| answer());
    }
}

//! The bucket: a stream that keeps one entry a key, with a time to live of its own.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, HeaderMap, RequestErrorKind, Subscriber};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::address::Address;
use super::record::Record;
use crate::error::Error;

/// A call that takes longer is not worth waiting for: it is asked again.
const CALL_MAX: Duration = Duration::from_secs(3);
/// Two that stay out end a connection: so soon is it known that it leads nowhere.
const PING: Duration = Duration::from_secs(2);
/// Longest pause between two tries to connect.
const RECONNECT_MAX: Duration = Duration::from_secs(1);

// What JetStream calls its errors.
const WRONG_LAST_SEQUENCE: u64 = 10_071;
const NO_MESSAGE: u64 = 10_037;
const STREAM_NOT_FOUND: u64 = 10_059;
const STREAM_NAME_IN_USE: u64 = 10_058;

/// See the module.
#[derive(Debug)]
pub(super) struct Bucket {
    client: Client,
    address: String,
    stream: String,
    prefix: String,
    /// Counts the connections that were lost.
    lost: watch::Receiver<u64>,
}

/// The newest entry of a key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    /// `None` if it is not one of ours.
    pub(super) record: Option<Record>,
}

/// Why there is no answer, or not the one that was hoped for.
#[derive(Debug)]
pub(super) enum NatsFault {
    /// Nothing was asked.
    Unreachable(String),
    /// It may have been done or not.
    Unknown(String),
    /// Somebody wrote to the key since it was read.
    Changed,
    /// The server said no.
    Refused { code: u64, why: String },
}

impl Bucket {
    pub(super) async fn open(address: &Address, now_ms: u64) -> Result<Self, Error> {
        let servers = address.servers.join(",");
        // What lets us in is nobody's business.
        let shown = servers.rsplit('@').next().unwrap_or_default().to_owned();
        let pause = |attempts: usize| {
            let ms = u64::try_from(attempts).unwrap_or(u64::MAX).saturating_mul(50);
            Duration::from_millis(ms).min(RECONNECT_MAX)
        };
        let (losing, lost) = watch::channel(0);
        let options = ConnectOptions::new()
            .name("bellwether")
            .ping_interval(PING)
            .connection_timeout(CALL_MAX)
            .request_timeout(Some(CALL_MAX))
            .reconnect_delay_callback(pause)
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected) {
                    losing.send_modify(|lost| *lost += 1);
                }
                std::future::ready(())
            });
        let client = options.connect(address.servers.clone()).await;
        let client =
            client.map_err(|e| Error::Handshake { address: shown.clone(), why: e.to_string() })?;
        let bucket = Self {
            client,
            address: shown,
            stream: format!("KV_{}", address.bucket),
            prefix: format!("$KV.{}.", address.bucket),
            lost,
        };
        bucket.create(address.replicas, now_ms).await?;
        Ok(bucket)
    }

    pub(super) fn error(&self, fault: NatsFault) -> Error {
        let address = self.address.clone();
        match fault {
            NatsFault::Unreachable(why) => Error::Handshake { address, why },
            NatsFault::Unknown(why) => Error::Unknown(format!("{address}: {why}")),
            NatsFault::Changed => Error::Failed(format!("{address}: too many write to one key")),
            NatsFault::Refused { why, .. } => Error::Failed(format!("{address} says: {why}")),
        }
    }

    /// Makes the bucket, unless there is one. Its first sequence number is the time in milliseconds,
    /// so that terms grow even if it is deleted and made again.
    async fn create(&self, replicas: u64, now_ms: u64) -> Result<(), Error> {
        let info = format!("STREAM.INFO.{}", self.stream);
        let found = match self.api(&info, &json!({})).await {
            Err(NatsFault::Refused { code: STREAM_NOT_FOUND, .. }) => {
                let wanted = json!({
                    "name": self.stream,
                    "description": "elections of Bellwether",
                    "subjects": [format!("{}>", self.prefix)],
                    "max_msgs_per_subject": 1,
                    "discard": "new",
                    "storage": "file",
                    "num_replicas": replicas,
                    "deny_delete": true,
                    "allow_rollup_hdrs": true,
                    "allow_msg_ttl": true,
                    "first_seq": now_ms,
                });
                let made = self.api(&format!("STREAM.CREATE.{}", self.stream), &wanted).await;
                match made {
                    // Somebody was faster.
                    Err(NatsFault::Refused { code: STREAM_NAME_IN_USE, .. }) => {
                        self.api(&info, &json!({})).await
                    }
                    made => made,
                }
            }
            found => found,
        };
        let found = found.map_err(|fault| self.error(fault))?;
        if found["config"]["allow_msg_ttl"] == json!(true) {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "{}: the bucket {} cannot give a key a time to live (allow_msg_ttl); elections need \
             nats-server 2.11 or newer, and a bucket that they made themselves",
            self.address, self.stream
        )))
    }

    /// The newest entry, by the word of the stream's leader.
    pub(super) async fn read(&self, key: &str) -> Result<Option<Entry>, NatsFault> {
        let wanted = json!({ "last_by_subj": format!("{}{key}", self.prefix) });
        let answer = self.api(&format!("STREAM.MSG.GET.{}", self.stream), &wanted).await;
        let answer = match answer {
            Err(NatsFault::Refused { code: NO_MESSAGE, .. }) => return Ok(None),
            answer => answer?,
        };
        let message = &answer["message"];
        let unclear = || NatsFault::Unknown(format!("an answer nobody understands: {answer}"));
        let sequence = message["seq"].as_u64().ok_or_else(unclear)?;
        // An entry without data has no such field.
        let data = STANDARD.decode(message["data"].as_str().unwrap_or_default());
        let record = Record::read(&data.map_err(|_| unclear())?, sequence);
        Ok(Some(Entry { sequence, record }))
    }

    /// Writes an entry, if the newest one is `after`; zero for none. Held for so many seconds, or
    /// given back and for ever. Says the entry's sequence number.
    pub(super) async fn write(
        &self,
        key: &str,
        record: &Record,
        after: u64,
    ) -> Result<u64, NatsFault> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", after.to_string());
        if record.free {
            // So that other programs take the key for deleted.
            headers.insert("KV-Operation", "DEL");
        } else {
            headers.insert("Nats-TTL", format!("{}s", record.ttl_ms.div_ceil(1000)));
        }
        let subject = format!("{}{key}", self.prefix);
        let answer = self.ask(subject, headers, record.write()).await?;
        let unclear = || NatsFault::Unknown(format!("an answer nobody understands: {answer}"));
        answer["seq"].as_u64().ok_or_else(unclear)
    }

    /// Hears what is written to a key from here on. A hint: what runs out is not written.
    pub(super) async fn listen(&self, key: &str) -> Result<Subscriber, NatsFault> {
        let heard = self.client.subscribe(format!("{}{key}", self.prefix)).await;
        heard.map_err(|e| NatsFault::Unreachable(e.to_string()))
    }

    async fn api(&self, what: &str, ask: &Value) -> Result<Value, NatsFault> {
        self.ask(format!("$JS.API.{what}"), HeaderMap::new(), ask.to_string().into_bytes()).await
    }

    async fn ask(
        &self,
        subject: String,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Value, NatsFault> {
        // The client would keep it and send it later, when nobody wants it any more.
        if self.client.connection_state() != State::Connected {
            return Err(NatsFault::Unreachable("not connected; trying again".into()));
        }
        let mut lost = self.lost.clone();
        lost.mark_unchanged();
        let answer = tokio::select! {
            answer = self.client.request_with_headers(subject, headers, body.into()) => answer,
            // No answer comes over the next connection.
            Ok(()) = lost.changed() => {
                return Err(NatsFault::Unknown("the connection was lost".into()));
            }
        };
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => NatsFault::Unreachable(
                "JetStream does not answer; is it switched on there (nats-server -js)?".into(),
            ),
            _ => NatsFault::Unknown(error.to_string()),
        })?;
        let answer: Value = serde_json::from_slice(&answer.payload)
            .map_err(|e| NatsFault::Unknown(format!("an answer nobody understands: {e}")))?;
        let Some(error) = answer.get("error") else { return Ok(answer) };
        match error["err_code"].as_u64().unwrap_or_default() {
            WRONG_LAST_SEQUENCE => Err(NatsFault::Changed),
            code => {
                let why = error["description"].as_str().unwrap_or("no").to_owned();
                // Without a leader, or while it changes, it may have been done.
                let unknown = error["code"].as_u64().is_some_and(|status| status >= 500);
                Err(if unknown {
                    NatsFault::Unknown(why)
                } else {
                    NatsFault::Refused { code, why }
                })
            }
        }
    }
}

//! Answers of the gateway that go on for as long as they are read: a watch.

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, header};
use serde_json::Value;

use super::{EtcdFault, Gateway, innermost};

/// One event is as large as what it is about, which is small; a page of something else is not.
const PART_BYTES_MAX: usize = 4 << 20;

/// Parts, each a line of JSON.
#[derive(Debug)]
pub(crate) struct Stream {
    member: String,
    body: Incoming,
    read: BytesMut,
}

impl Gateway {
    /// Asks the first member that can be reached for something that goes on.
    pub(crate) async fn stream(&self, what: &str, body: &Value) -> Result<Stream, EtcdFault> {
        let body = Bytes::from(body.to_string());
        let mut last = None;
        for member in &self.members {
            let request = Request::post(format!("{member}/v3/{what}"))
                .header(header::CONTENT_TYPE, "application/json")
                .body(Full::new(body.clone()))
                .expect("the address was parsed before");
            match self.client.request(request).await {
                Ok(answer) if answer.status().is_success() => {
                    let (member, body) = (member.clone(), answer.into_body());
                    return Ok(Stream { member, body, read: BytesMut::new() });
                }
                Ok(answer) => {
                    let why = format!("HTTP status {}", answer.status());
                    last = Some(EtcdFault::Unknown { address: member.clone(), why });
                }
                Err(error) => {
                    let why = innermost(&error);
                    last = Some(EtcdFault::Unreachable { address: member.clone(), why });
                }
            }
        }
        Err(last.expect("`split` yields at least one member"))
    }
}

impl Stream {
    /// The next part, when it comes.
    pub(crate) async fn next(&mut self) -> Result<Value, EtcdFault> {
        let ended =
            |why: &str| EtcdFault::Unknown { address: self.member.clone(), why: why.into() };
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end + 1);
                let mut part: Value =
                    serde_json::from_slice(&line).map_err(|_| ended("that is no JSON"))?;
                return match part.get_mut("result") {
                    Some(result) => Ok(result.take()),
                    None => Err(ended(&part["error"].to_string())),
                };
            }
            if self.read.len() > PART_BYTES_MAX {
                return Err(ended("a part without an end"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(ended(&innermost(&error))),
                None => return Err(ended("it ended")),
            }
        }
    }
}

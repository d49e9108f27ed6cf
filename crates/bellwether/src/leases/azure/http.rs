//! HTTP to one host: connections are kept for the next request, one request at a time on each.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use super::super::dial::{self, Stream};
use crate::clock::Clock;
use crate::renewer;

/// Idle connections that are kept: more than that are wanted only in a burst.
const IDLE_MAX: usize = 8;

type Sender = SendRequest<Empty<Bytes>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Http {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: bool,
    idle: Mutex<Vec<Sender>>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum HttpFault {
    /// Nothing was asked.
    Unreachable(String),
    /// It may have been done or not.
    Unknown(String),
}

impl Http {
    pub(super) fn new(host: String, port: u16, tls: bool) -> Self {
        Self { host, port, tls, idle: Mutex::default() }
    }

    /// Sends a request without a body; the response's own is of no interest here, what matters is
    /// in its head. It is read all the same, so that the connection can be used again.
    ///
    /// A kept connection may have been closed at the other end just now. So whatever fails on one is
    /// asked a second time on a new one: ask only what may be asked twice.
    pub(super) async fn ask(
        &self,
        request: &Request<Empty<Bytes>>,
    ) -> Result<Response<()>, HttpFault> {
        while let Some(kept) = self.kept() {
            if let Ok(response) = self.ask_on(kept, request.clone()).await {
                return Ok(response);
            }
        }
        let sender = self.connect().await.map_err(|e| HttpFault::Unreachable(e.to_string()))?;
        self.ask_on(sender, request.clone()).await.map_err(|e| HttpFault::Unknown(e.to_string()))
    }

    async fn ask_on(
        &self,
        mut sender: Sender,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<()>, hyper::Error> {
        sender.ready().await?;
        let (head, body) = sender.send_request(request).await?.into_parts();
        body.collect().await?;
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
        Ok(Response::from_parts(head, ()))
    }

    async fn connect(&self) -> io::Result<Sender> {
        let stream = dial::plain(&self.host, self.port).await?;
        let stream: Box<dyn Stream> =
            if self.tls { dial::over_tls(&self.host, stream).await? } else { Box::new(stream) };
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // How it ends shows in the request that is on it.
        renewer::spawn(&Clock::System, async move {
            let _ = connection.await;
        });
        Ok(sender)
    }

    fn kept(&self) -> Option<Sender> {
        let mut idle = self.idle();
        idle.retain(|sender| !sender.is_closed());
        idle.pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        // No code between lock and unlock can leave the list half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

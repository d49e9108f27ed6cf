//! In the place of traces, for a program that is built without them.

use axum::Router;
use bellwether::message::TraceContext;

/// There are none.
#[derive(Clone, Debug)]
pub(crate) enum Traces {}

/// There are none.
#[derive(Clone, Debug)]
pub(crate) enum RequestSpan {}

/// There are none.
#[derive(Debug)]
pub(crate) enum OperationSpan {}

/// What is done to messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Send { is_origin: bool },
    Receive,
    Settle(&'static str),
}

impl Traces {
    pub(crate) fn start() -> Option<Self> {
        None
    }

    pub(crate) fn around(&self, _: Router) -> Router {
        match *self {}
    }

    pub(crate) fn stop(self) {
        match self {}
    }
}

impl RequestSpan {
    pub(crate) fn operation(&self, _: Operation, _: &str) -> OperationSpan {
        match *self {}
    }
}

impl OperationSpan {
    pub(crate) fn context(&self) -> TraceContext {
        match *self {}
    }

    pub(crate) fn link(&self, _: &TraceContext) {
        match *self {}
    }

    pub(crate) fn messages(&self, _: usize, _: Option<&str>) {
        match *self {}
    }

    pub(crate) fn failed(&self, _: &str) {
        match *self {}
    }
}

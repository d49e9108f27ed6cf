//! In the place of traces, for a program that is built without them.

use std::convert::Infallible;

use axum::Router;
use bellwether::message::TraceContext;

/// There are none.
#[derive(Clone, Debug)]
pub(crate) struct Traces(Infallible);

/// There are none.
#[derive(Clone, Debug)]
pub(crate) struct RequestSpan(Infallible);

/// There are none.
#[derive(Debug)]
pub(crate) struct OperationSpan(Infallible);

/// What is done to messages.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "there is no span to say it of")]
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
        match self.0 {}
    }

    pub(crate) fn stop(self) {
        match self.0 {}
    }
}

impl RequestSpan {
    pub(crate) fn operation(&self, _: Operation, _: &str) -> OperationSpan {
        match self.0 {}
    }
}

impl OperationSpan {
    pub(crate) fn context(&self) -> TraceContext {
        match self.0 {}
    }

    pub(crate) fn link(&self, _: &TraceContext) {
        match self.0 {}
    }

    pub(crate) fn messages(&self, _: usize, _: Option<&str>) {
        match self.0 {}
    }

    pub(crate) fn failed(&self, _: &str) {
        match self.0 {}
    }
}

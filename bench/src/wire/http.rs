//! Full cycles over HTTP, on connections that are kept alive.
//!
//! The load is one thread that writes requests made beforehand and looks for no more in an answer
//! than it needs: what it costs is taken from the server, which shares the cores with it. What it
//! costs is measured, too: the same requests, answered at once by somebody who does nothing else.

mod client;

use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::echo::Echo;
use super::{BODY_BYTES, FRAME_BYTES, Options};
use crate::raw::Raw;
use crate::report::{Report, median, p50_us, rate, spread};
use crate::server::Server;
use client::{Client, post};

const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_secs(2);
/// Requests of one cycle.
const REQUESTS: f64 = 3.0;
/// Our cycles to those of somebody who answers at once.
const TO_FLOOR_MIN: f64 = 0.2;
const RAW_FLUSHES: usize = 300;

/// What [`Echo`] answers: about as long as an answer of the server's, and read in the same way.
pub(super) const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 47\r\n\r\n\
      {\"lock_token\":\"0000000000000000-00000000000000\"}";

pub(super) fn run(options: &Options, report: &mut Report) {
    let (server, echo) = (options.server("http", &[]), Echo::start());
    let load = || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(pairs(options, &echo, &server))
    };
    // On a thread of its own: a runtime does not run within another.
    let measured = std::thread::scope(|scope| scope.spawn(load).join().expect("the load"));
    let Measured { mut flushes, mut ours, mut floors, mut ratios } = measured;
    report.figure("raw overwrite + fdatasync", spread(&mut flushes), p50_us(&mut flushes));
    let trips = median(&mut floors) * REQUESTS;
    let what = format!("loopback round trips, {CONNECTIONS} connections");
    report.figure(&what, rate(trips), trips);
    let cycles = median(&mut ours);
    let what = format!("full cycles over HTTP, {CONNECTIONS} connections");
    report.figure(&what, rate(cycles), cycles);
    let (ratio, target) = (median(&mut ratios), format!(">= {TO_FLOOR_MIN}"));
    let what = "full cycles over HTTP, to three round trips each";
    report.check(what, format!("{ratio:.2}"), ratio, &target, ratio >= TO_FLOOR_MIN);
}

#[derive(Default)]
struct Measured {
    flushes: Vec<Duration>,
    ours: Vec<f64>,
    floors: Vec<f64>,
    ratios: Vec<f64>,
}

async fn pairs(options: &Options, echo: &Echo, server: &Server) -> Measured {
    create(server.http()).await;
    let mut raw = Raw::new(&options.folder, BODY_BYTES + FRAME_BYTES);
    let mut measured = Measured::default();
    for _ in 0..options.pairs {
        raw.run(RAW_FLUSHES, &mut measured.flushes);
        let floor = round(echo.address()).await;
        let our = round(server.http()).await;
        measured.ratios.push(our / floor);
        measured.floors.push(floor);
        measured.ours.push(our);
    }
    measured
}

async fn create(address: &str) {
    let mut client = Client::connect(address).await;
    client.ask(&post("PUT", "/v1/queues/bench", "application/json", b"{}")).await;
}

/// All connections do cycles for a while; how many a second.
async fn round(address: &str) -> f64 {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Client::connect(address).await);
    }
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for client in clients {
        callers.spawn(cycles(client, begun + ROUND));
    }
    let done: u64 = callers.join_all().await.into_iter().sum();
    done as f64 / begun.elapsed().as_secs_f64()
}

async fn cycles(mut client: Client, until: Instant) -> u64 {
    const BYTES: &str = "application/octet-stream";
    const JSON: &str = "application/json";
    let send = post("POST", "/v1/queues/bench/messages", BYTES, &[0x42; BODY_BYTES]);
    let receive = post("POST", "/v1/queues/bench/receive", JSON, br#"{"wait_ms":10000}"#);
    let mut done = 0;
    while Instant::now() < until {
        client.ask(&send).await;
        let received = client.ask(&receive).await;
        let token = client::text_field(received, "lock_token");
        let settlement =
            format!(r#"{{"settlements":[{{"lock_token":"{token}","disposition":"complete"}}]}}"#);
        let complete = post("POST", "/v1/queues/bench/settle", JSON, settlement.as_bytes());
        client.ask(&complete).await;
        done += 1;
    }
    done
}

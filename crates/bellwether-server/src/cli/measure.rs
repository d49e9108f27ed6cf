//! Measuring a machine and a store: for `doctor` and `bench`.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use bellwether::{Bellwether, Clock, Error, Stopwatch};
use serde_json::{Value, json};

/// How often flush and round trip are measured.
const ROUNDS: usize = 100;
/// What a small batch of changes is.
const FLUSH_BYTES: usize = 4096;
/// How long the sleeper asks to sleep.
const NAP: Duration = Duration::from_millis(1);

/// Durations that were measured.
#[derive(Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn max(&self) -> Duration {
        self.0.iter().max().copied().unwrap_or_default()
    }

    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let nth = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(nth).copied().unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "samples": self.0.len(),
            "p50_us": micros(self.percentile(50)),
            "p99_us": micros(self.percentile(99)),
            "max_us": micros(self.max()),
        })
    }
}

/// Writes and flushes, as the journal does: into room that was made before.
pub(crate) fn flush(dir: &Path) -> io::Result<Samples> {
    let path = dir.join(format!("measure-{}.tmp", std::process::id()));
    let measured = flush_into(&path);
    let removed = fs::remove_file(&path);
    let samples = measured?;
    removed?;
    Ok(samples)
}

fn flush_into(path: &Path) -> io::Result<Samples> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(&vec![0; ROUNDS * FLUSH_BYTES])?;
    file.sync_all()?;
    io::Seek::rewind(&mut file)?;
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        let watch = Stopwatch::start();
        file.write_all(&[1; FLUSH_BYTES])?;
        file.sync_data()?;
        samples.push(watch.elapsed());
    }
    Ok(samples)
}

/// Asks the store for next to nothing, one time after the other.
pub(crate) async fn round_trip(store: &Bellwether) -> Result<Samples, Error> {
    let mut samples = Samples::default();
    for _ in 0..ROUNDS {
        let watch = Stopwatch::start();
        store.members().await?;
        samples.push(watch.elapsed());
    }
    Ok(samples)
}

/// How much later than asked for a thread wakes up.
pub(crate) fn stalls(during: Duration) -> Samples {
    let mut samples = Samples::default();
    let all = Stopwatch::start();
    while all.elapsed() < during {
        let watch = Stopwatch::start();
        std::thread::sleep(NAP);
        samples.push(watch.elapsed().saturating_sub(NAP));
    }
    samples
}

/// How far the two clocks are apart: it stays the same unless somebody sets the wall clock.
pub(crate) fn clocks_apart_ms() -> u64 {
    let now = Clock::System.now();
    now.wall.0.saturating_sub(now.boot.0)
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A duration as it was measured, for people.
pub(crate) fn shown(duration: Duration) -> String {
    match micros(duration) {
        us if us < 10_000 => format!("{us} µs"),
        us => format!("{} ms", us / 1000),
    }
}

//! `bellwether bench`: how much a store or a server does, as its users would ask for it.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bellwether::{Bellwether, Error, Queue, QueueSettings, Stopwatch};
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::failure::{Ended, Failure};
use super::human::{Size, parse_size};
use super::measure::{self, Samples, shown};
use super::reach::Reach;
use super::screen::Screen;
use super::stop::Stop;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  bellwether bench
  bellwether bench --callers 64 --batch 10 --size 4KiB --seconds 10
  bellwether bench --data ./store --output json";

/// So much is left in the queue at most by those who only send.
const SENT_BYTES_MAX: u64 = 256 << 20;
/// How long a caller waits for the message that it, or another, has just sent.
const WAIT: Duration = Duration::from_secs(5);

/// Measure a store or a server: flush, round trip, sends, and full cycles, with so many callers.
///
/// Works in a queue of its own with a random name, which is deleted in the end, also after Ctrl-C;
/// other queues are not touched, but whoever uses the store meanwhile is slowed down. A cycle is: send,
/// receive, complete; every answer is waited for, so it counts what is durable. The flush is that of
/// this machine's disk in --dir.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    /// How many ask at the same time, over one connection.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    callers: u32,
    /// How many messages each sends, and receives, at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    batch: u32,
    /// How large a body is, up to 1 MiB.
    #[arg(long, value_name = "SIZE", default_value = "256", value_parser = parse_body)]
    size: u64,
    /// How long sends and cycles are measured, each.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Where to measure the flush [default: the folder of --data; else it is not measured].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    reach: Reach,
}

/// What was measured of one thing: how long each took, and how many messages passed in what time.
struct Row {
    what: &'static str,
    samples: Samples,
    rate: Option<f64>,
}

impl Bench {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let mut rows = Vec::new();
        if let Some(dir) = self.dir.as_deref().or(self.reach.folder()) {
            let samples = measure::flush(dir)
                .map_err(|error| Failure::Input { what: dir.display().to_string(), error })?;
            rows.push(Row { what: "flush", samples, rate: None });
        }
        self.reach.look(out, async |store, screen| {
            let mut stop = Stop::listen()?;
            let name = format!("bench-{:016x}", store.member().0 as u64);
            let queue = store.create_queue(&name, QueueSettings::default()).await?;
            let measured = tokio::select! {
                measured = self.measure(store, &queue) => measured.map_err(Failure::from),
                () = stop.asked() => {
                    Err(Failure::Stopped("stopped before everything was measured".into()))
                }
            };
            // However it ended: nothing of it is left.
            queue.delete().await?;
            rows.extend(measured?);
            self.tell(screen, &rows)
        })
    }

    async fn measure(&self, store: &Bellwether, queue: &Queue) -> Result<Vec<Row>, Error> {
        let samples = measure::round_trip(store).await?;
        let mut rows = vec![Row { what: "round trip", samples, rate: None }];
        rows.push(self.by_all("send", queue, send).await?);
        queue.purge(None).await?;
        rows.push(self.by_all("cycle", queue, cycle).await?);
        Ok(rows)
    }

    /// All callers do it again and again, until the time is over.
    async fn by_all<F>(
        &self,
        what: &'static str,
        queue: &Queue,
        once: fn(Queue, Vec<Bytes>) -> F,
    ) -> Result<Row, Error>
    where
        F: Future<Output = Result<u64, Error>> + Send + 'static,
    {
        let during = Duration::from_secs(self.seconds);
        let bodies = vec![Bytes::from(vec![b'x'; self.size as usize]); self.batch as usize];
        let each_max = SENT_BYTES_MAX / u64::from(self.callers) / self.size.max(64);
        let all = Stopwatch::start();
        let mut callers = JoinSet::new();
        for _ in 0..self.callers {
            let (queue, bodies) = (queue.clone(), bodies.clone());
            callers.spawn(async move {
                let mut samples = Samples::default();
                let mut passed = 0;
                let begun = Stopwatch::start();
                while begun.elapsed() < during && passed < each_max {
                    let watch = Stopwatch::start();
                    passed += once(queue.clone(), bodies.clone()).await?;
                    samples.push(watch.elapsed());
                }
                Ok::<_, Error>((samples, passed))
            });
        }
        let (mut samples, mut passed) = (Samples::default(), 0);
        while let Some(ended) = callers.join_next().await {
            let (more, count) = ended.map_err(|panic| Error::Failed(panic.to_string()))??;
            samples.append(more);
            passed += count;
        }
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let rate = passed as f64 / all.elapsed().as_secs_f64();
        Ok(Row { what, samples, rate: Some(rate) })
    }

    fn tell(&self, screen: &mut Screen<'_>, rows: &[Row]) -> Ended {
        if screen.is_json() {
            let measured = rows.iter().map(|row| {
                let mut value = row.samples.json();
                value["messages_per_second"] = json!(row.rate.map(f64::round));
                (row.what.replace(' ', "_"), value)
            });
            screen.json(&json!({
                "callers": self.callers,
                "batch": self.batch,
                "size_bytes": self.size,
                "measured": measured.collect::<serde_json::Map<String, Value>>(),
            }))?;
            return Ok(ExitCode::SUCCESS);
        }
        let heading = ["WHAT", ">MESSAGES/S", ">MEDIAN", ">99 %", ">WORST"];
        let mut table = Table::new(&heading);
        for Row { what, samples, rate } in rows {
            let of = |percent| shown(samples.percentile(percent));
            let rate = rate.map_or(String::new(), |rate| format!("{rate:.0}"));
            table.row([(*what).into(), rate, of(50), of(99), shown(samples.max())]);
        }
        screen.table(&table)?;
        screen.line(&format!(
            "{} callers, {} at a time, {} each; a cycle is: send, receive, complete",
            self.callers,
            self.batch,
            Size(self.size)
        ))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn parse_body(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    if size > 1 << 20 { Err("a body has at most 1 MiB here".into()) } else { Ok(size) }
}

async fn send(queue: Queue, bodies: Vec<Bytes>) -> Result<u64, Error> {
    Ok(queue.send_batch(bodies).await?.len() as u64)
}

/// What one receives another may have sent: together they receive as much as they send.
async fn cycle(queue: Queue, bodies: Vec<Bytes>) -> Result<u64, Error> {
    let wanted = queue.send_batch(bodies).await?.len();
    let mut completed = 0;
    while completed < wanted {
        let max = (wanted - completed) as u32;
        let deliveries = queue.receive().max(max).wait(WAIT).many().await?;
        if deliveries.is_empty() {
            break;
        }
        completed += deliveries.len();
        let settled = deliveries.into_iter().map(bellwether::Delivery::complete);
        futures_util::future::try_join_all(settled).await?;
    }
    Ok(completed as u64)
}

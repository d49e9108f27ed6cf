//! `bellwether top`.

mod terminal;

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use bellwether::core::outcome::QueueInfo;
use bellwether::{Bellwether, Stopwatch};
use clap::Args;

use super::failure::{Ended, Failure};
use super::human::{Size, Wall, count, parse_duration};
use super::reach::{Reach, now};
use super::screen::Screen;
use super::stats::Sight;
use super::table::Table;
use terminal::Terminal;

const EXAMPLES: &str = "\
Examples:
  bellwether top
  bellwether top --every 500ms
  bellwether top --once";

/// Watch the store: queues by what waits in them, and what moves. Ends with q or Ctrl-C.
///
/// Where there is no terminal, or with --once, it is written down once.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    /// How often to look.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "1s")]
    every: Duration,
    /// Write it down once and end.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    reach: Reach,
}

impl Top {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        let live = !self.once && io::stdout().is_terminal() && io::stdin().is_terminal();
        self.reach.look(out, async |store, screen| {
            if !live {
                for line in frame(&Sight::of(store).await?, None) {
                    screen.line(&line)?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            self.live(store, screen).await?;
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn live(&self, store: &Bellwether, screen: &mut Screen<'_>) -> Result<(), Failure> {
        let every = self.every.max(Duration::from_millis(100));
        let mut terminal = Terminal::take(screen)?;
        let mut earlier: Option<(Sight, Stopwatch)> = None;
        loop {
            let sight = Sight::of(store).await?;
            let watch = Stopwatch::start();
            let since = earlier.as_ref().map(|(sight, since)| (sight, since.elapsed()));
            let lines = frame(&sight, since);
            screen.bytes(Terminal::drawing(&lines).as_bytes())?;
            screen.flush()?;
            earlier = Some((sight, watch));
            if terminal.wait(every).await {
                break;
            }
        }
        screen.bytes(terminal.give_back().as_bytes())?;
        screen.flush()?;
        Ok(())
    }
}

/// Everything, busiest queues first.
fn frame(sight: &Sight, earlier: Option<(&Sight, Duration)>) -> Vec<String> {
    let mut lines = vec![format!(
        "bellwether  {}  {}  {} ready  {} locked  {} dead  {}  {} held  {}",
        Wall(now()),
        count(sight.queues.len() as u64, "queue"),
        sight.count(|c| c.ready),
        sight.count(|c| c.locked),
        sight.count(|c| c.dead_letters),
        Size(sight.count(|c| c.size_bytes)),
        count(sight.held() as u64, "lease"),
        count(sight.members as u64, "member")
    )];
    lines.push(String::new());
    let mut table = Table::new(&[
        "QUEUE",
        ">READY",
        ">LOCKED",
        ">SCHEDULED",
        ">DEFERRED",
        ">DEAD",
        ">SENT/S",
        ">DONE/S",
        ">SIZE",
    ]);
    let mut queues: Vec<&QueueInfo> = sight.queues.iter().collect();
    queues.sort_by_key(|info| std::cmp::Reverse(info.counts.ready + info.counts.locked));
    for info in queues {
        let counts = &info.counts;
        let before = earlier.and_then(|(sight, took)| {
            Some((sight.queues.iter().find(|known| known.name == info.name)?.totals, took))
        });
        let rate = |now: u64, then: Option<(u64, Duration)>| match then {
            None => "-".to_owned(),
            Some((then, took)) => per_second(now.saturating_sub(then), took),
        };
        table.row([
            info.name.to_string(),
            counts.ready.to_string(),
            counts.locked.to_string(),
            counts.scheduled.to_string(),
            counts.deferred.to_string(),
            counts.dead_letters.to_string(),
            rate(info.totals.sent, before.map(|(totals, took)| (totals.sent, took))),
            rate(info.totals.completed, before.map(|(totals, took)| (totals.completed, took))),
            Size(counts.size_bytes).to_string(),
        ]);
    }
    lines.extend(table.lines());
    lines
}

fn per_second(count: u64, took: Duration) -> String {
    (u128::from(count) * 1_000_000 / took.as_micros().max(1)).to_string()
}

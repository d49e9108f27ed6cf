//! The workers of this host.
//!
//! A place is a worker that should be here. What runs in it and ends by itself is started again, later
//! each time that it did not last.

use std::collections::{BTreeMap, BTreeSet};

use bellwether::core::candidacy::{BACK_OFF_MS_MAX, BACK_OFF_MS_MIN};
use bellwether::core::time::BootTime;
use bellwether::scaler::{Candidate, choose_victims};
use tokio::sync::mpsc;

use super::plan::HostReport;
use super::worker::{Order, Task};

/// A worker that lasted so long had begun its work.
const LASTED_MS: u64 = 10_000;
/// From here on it counts as failing.
const FAILURES: u32 = 3;

/// What is known of workers by what they say of themselves to the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// They have opened it.
    pub(super) here: BTreeSet<String>,
    /// They have messages.
    pub(super) busy: BTreeSet<String>,
    /// They lead an election.
    pub(super) lead: BTreeSet<String>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Crew {
    instance: String,
    task: Task,
    /// A worker that has not opened the store is starting for so long.
    start_ms: u64,
    places: Vec<Place>,
    /// Those that were told to stop.
    leaving: BTreeMap<String, mpsc::UnboundedSender<Order>>,
    number: u64,
    ended: mpsc::UnboundedSender<(String, u8)>,
}

#[derive(Debug)]
struct Place {
    runs: Runs,
    /// How often in a row it did not last.
    failures: u32,
}

#[derive(Debug)]
enum Runs {
    Worker { name: String, since: BootTime, orders: mpsc::UnboundedSender<Order> },
    Nothing { until: BootTime },
}

/// What happened to a worker, for whoever tells it.
#[derive(Debug)]
pub(super) enum News {
    Started(String),
    Stopping(String),
    /// As it was told.
    Stopped(String, u8),
    /// By itself; it is started again after so long.
    Ended {
        worker: String,
        code: u8,
        pause_ms: u64,
        failures: u32,
    },
    CannotStart(String),
}

impl Crew {
    pub(super) fn new(
        instance: String,
        task: Task,
        start_ms: u64,
        ended: mpsc::UnboundedSender<(String, u8)>,
    ) -> Self {
        let (places, leaving) = (Vec::new(), BTreeMap::new());
        Self { instance, task, start_ms, places, leaving, number: 0, ended }
    }

    /// As many places as that, and a worker in each whose time has come.
    pub(super) fn be(&mut self, now: BootTime, share: u32, known: &Known) -> Vec<News> {
        let mut news = Vec::new();
        let share = share as usize;
        if self.places.len() > share {
            self.shrink(self.places.len() - share, known, &mut news);
        }
        while self.places.len() < share {
            let runs = Runs::Nothing { until: now };
            self.places.push(Place { runs, failures: 0 });
        }
        for place in &mut self.places {
            if !matches!(place.runs, Runs::Nothing { until } if until <= now) {
                continue;
            }
            self.number += 1;
            let name = format!("{}.{}", self.instance, self.number);
            place.runs = match self.task.start(name.clone(), self.ended.clone()) {
                Ok(orders) => {
                    news.push(News::Started(name.clone()));
                    Runs::Worker { name, since: now, orders }
                }
                Err(error) => {
                    place.failures += 1;
                    news.push(News::CannotStart(error.to_string()));
                    Runs::Nothing { until: now.plus_ms(pause_ms(place.failures)) }
                }
            };
        }
        news
    }

    fn shrink(&mut self, count: usize, known: &Known, news: &mut Vec<News>) {
        let candidates: Vec<Candidate> = self
            .places
            .iter()
            .map(|place| match &place.runs {
                Runs::Worker { name, since, .. } => Candidate {
                    is_busy: known.here.contains(name).then(|| known.busy.contains(name)),
                    leads: known.lead.contains(name),
                    started_at: *since,
                },
                Runs::Nothing { .. } => {
                    Candidate { is_busy: Some(false), leads: false, started_at: BootTime::NEVER }
                }
            })
            .collect();
        let mut victims = choose_victims(&candidates, count);
        victims.sort_unstable();
        for victim in victims.into_iter().rev() {
            if let Runs::Worker { name, orders, .. } = self.places.remove(victim).runs {
                // One that has just ended hears nothing, and needs not.
                let _ = orders.send(Order::Stop);
                news.push(News::Stopping(name.clone()));
                self.leaving.insert(name, orders);
            }
        }
    }

    /// Nothing is left of a worker.
    pub(super) fn ended(&mut self, now: BootTime, worker: String, code: u8) -> News {
        if self.leaving.remove(&worker).is_some() {
            return News::Stopped(worker, code);
        }
        let of_worker = |place: &&mut Place| matches!(&place.runs, Runs::Worker { name, .. } if *name == worker);
        let Some(place) = self.places.iter_mut().find(of_worker) else {
            return News::Stopped(worker, code);
        };
        let lasted =
            matches!(place.runs, Runs::Worker { since, .. } if since.plus_ms(LASTED_MS) <= now);
        place.failures = if lasted { 1 } else { place.failures + 1 };
        let pause = pause_ms(place.failures);
        place.runs = Runs::Nothing { until: now.plus_ms(pause) };
        News::Ended { worker, code, pause_ms: pause, failures: place.failures }
    }

    /// When a place waits for its worker: the first of them.
    pub(super) fn next_start(&self) -> Option<BootTime> {
        let times = self.places.iter().filter_map(|place| match place.runs {
            Runs::Nothing { until } => Some(until),
            Runs::Worker { .. } => None,
        });
        times.min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty() && self.leaving.is_empty()
    }

    pub(super) fn kill(&self) {
        for orders in self.leaving.values() {
            let _ = orders.send(Order::Kill);
        }
    }

    /// What this host tells of its workers.
    pub(super) fn report(&self, now: BootTime, known: &Known) -> HostReport {
        let mut report = HostReport { instance: self.instance.clone(), ..HostReport::default() };
        for place in &self.places {
            report.failing += u32::from(place.failures >= FAILURES);
            let Runs::Worker { name, since, .. } = &place.runs else {
                // Its place is taken; that it does nothing is known.
                report.running += 1;
                report.idle += 1;
                continue;
            };
            let is_here = known.here.contains(name);
            if !is_here && since.plus_ms(self.start_ms) > now {
                report.starting += 1;
                continue;
            }
            report.running += 1;
            let is_busy = known.busy.contains(name);
            report.busy += u32::from(is_busy);
            report.idle += u32::from(is_here && !is_busy);
        }
        report
    }
}

fn pause_ms(failures: u32) -> u64 {
    (BACK_OFF_MS_MIN << (failures - 1).min(16)).min(BACK_OFF_MS_MAX)
}

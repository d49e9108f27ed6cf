//! The only file that reads a clock.
//!
//! Locks and leases are measured on `CLOCK_BOOTTIME`, which counts suspend: a laptop that slept
//! for an hour must not believe that it still leads. A [`VirtualClock`] stands in for both clocks
//! in users' tests; everything that waits through [`Clock`] then waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bellwether_core::time::{BootTime, Now, WallTime};
use rustix::time::ClockId;
use tokio::sync::watch;

/// Where time comes from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clocks.
    #[default]
    System,
    /// A clock that a test moves.
    Virtual(VirtualClock),
}

impl Clock {
    /// Reads both clocks.
    pub fn now(&self) -> Now {
        match self {
            Self::System => system_now(),
            Self::Virtual(clock) => clock.now(),
        }
    }

    /// Reads the boot clock alone.
    pub(crate) fn boot(&self) -> BootTime {
        match self {
            Self::System => system_boot(),
            Self::Virtual(clock) => clock.now().boot,
        }
    }

    /// Waits until the boot clock shows `until`.
    pub(crate) async fn sleep_until(&self, until: BootTime) {
        match self {
            Self::System => loop {
                let ms = self.boot().ms_until(until);
                if ms == 0 {
                    return;
                }
                // Tokio's clock stops during suspend: look again at least once a minute.
                tokio::time::sleep(Duration::from_millis(ms.min(60_000))).await;
            },
            Self::Virtual(clock) => {
                let mut moved = clock.shared.moved.subscribe();
                while clock.now().boot < until {
                    if moved.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

fn system_now() -> Now {
    Now { wall: WallTime(system_ms(ClockId::Realtime)), boot: system_boot() }
}

fn system_boot() -> BootTime {
    BootTime(system_ms(BOOT))
}

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
// Elsewhere the monotonic clock is the nearest there is.
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

fn system_ms(id: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(id);
    time.tv_sec.cast_unsigned() * 1000 + time.tv_nsec.cast_unsigned() / 1_000_000
}

fn system_ns(id: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(id);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Nanoseconds of the boot clock, for what several processes of a machine write down and somebody
/// puts in order later. No rule is measured with it.
pub fn boot_ns() -> u64 {
    system_ns(BOOT)
}

/// Measures how long something took, on the boot clock, finer than a [`BootTime`], and in real time
/// also where time is virtual: for whoever looks at the machine. No rule is measured with it.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started_ns: u64,
}

impl Stopwatch {
    /// Starts it.
    pub fn start() -> Self {
        Self { started_ns: system_ns(BOOT) }
    }

    /// How long ago that was.
    pub fn elapsed(self) -> Duration {
        Duration::from_nanos(system_ns(BOOT).saturating_sub(self.started_ns))
    }
}

/// A clock that stands still until it is moved.
///
/// ```
/// # use std::time::Duration;
/// let clock = bellwether::VirtualClock::new();
/// let before = clock.now().boot;
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(before.ms_until(clock.now().boot), 3_600_000);
/// ```
#[derive(Clone, Debug)]
pub struct VirtualClock {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    boot_ms: AtomicU64,
    wall_ms: AtomicU64,
    moved: watch::Sender<u64>,
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl VirtualClock {
    /// A clock that shows the first hour of 2020.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                boot_ms: AtomicU64::new(3_600_000),
                wall_ms: AtomicU64::new(1_577_840_400_000),
                moved: watch::Sender::new(0),
            }),
        }
    }

    /// Both times.
    pub fn now(&self) -> Now {
        Now {
            wall: WallTime(self.shared.wall_ms.load(Ordering::SeqCst)),
            boot: BootTime(self.shared.boot_ms.load(Ordering::SeqCst)),
        }
    }

    /// Moves both times on and wakes everything that waits for them.
    pub fn advance(&self, by: Duration) {
        let ms = by.as_millis() as u64;
        self.shared.wall_ms.fetch_add(ms, Ordering::SeqCst);
        self.shared.boot_ms.fetch_add(ms, Ordering::SeqCst);
        self.shared.moved.send_modify(|count| *count += 1);
    }

    /// Calls `wake` whenever the clock was moved, until it returns false.
    pub(crate) fn on_move(&self, wake: impl Fn() -> bool + Send + 'static) {
        let mut moved = self.shared.moved.subscribe();
        std::thread::Builder::new()
            .name("bellwether-clock".into())
            .spawn(move || {
                let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
                    return;
                };
                runtime.block_on(async {
                    while moved.changed().await.is_ok() {
                        if !wake() {
                            return;
                        }
                    }
                });
            })
            .expect("a thread for the virtual clock");
    }
}

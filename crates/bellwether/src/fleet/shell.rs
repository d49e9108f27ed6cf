//! The loop around one fleet's machine: take an event, step, say what it says, sleep until it
//! wants to be woken. Every rule is in `bellwether_core::fleet`; here is who is called where.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::fleet::{Action, Event, Fleet as Machine, FleetId, View, Word};
use bellwether_core::limits;
use bellwether_core::time::BootTime;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::frame::Frame;
use super::link::{self, News, Voice};
use super::{FleetMember, FleetView, Trust};
use crate::clock::Clock;

/// Frames that wait for one connection; what is beyond is lost, as in any network.
const FRAMES_MAX: usize = 64;
/// News that wait for the shell; connections wait beyond it.
const NEWS_MAX: usize = 1024;
/// Members are named to each other once in so many beats.
const BEATS_PER_LIST: u64 = 10;
/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// An address and the connection to it.
struct Link {
    frames: mpsc::Sender<Frame>,
    task: AbortHandle,
    id: Option<FleetId>,
    trouble: Option<String>,
    /// Named in the options: called for ever.
    is_configured: bool,
    /// It answered last, or was learned of.
    good_at: BootTime,
}

/// See the module.
pub(super) struct Shell {
    machine: Machine,
    clock: Clock,
    voice: Arc<Voice>,
    discover: bool,
    /// Our own addresses, as far as we have met ourselves there.
    own: Vec<String>,
    links: BTreeMap<String, Link>,
    calls: JoinSet<()>,
    news: mpsc::Sender<News>,
    heard: mpsc::Receiver<News>,
    beats: u64,
    view: watch::Sender<FleetView>,
    trust: Arc<Trust>,
    leave: CancellationToken,
}

impl Shell {
    pub(super) fn new(
        machine: Machine,
        voice: Arc<Voice>,
        discover: bool,
        view: watch::Sender<FleetView>,
        trust: Arc<Trust>,
        leave: CancellationToken,
    ) -> Self {
        let (news, heard) = mpsc::channel(NEWS_MAX);
        let own = vec![voice.hello.address.clone()];
        Self {
            machine,
            clock: Clock::System,
            voice,
            discover,
            own,
            links: BTreeMap::new(),
            calls: JoinSet::new(),
            news,
            heard,
            beats: 0,
            view,
            trust,
            leave,
        }
    }

    /// Runs until the fleet is left.
    pub(super) async fn run(mut self, listener: TcpListener, members: Vec<String>) {
        for address in members {
            self.call(address, true);
        }
        let accept = link::accept(Arc::clone(&self.voice), listener, self.news.clone());
        let accepting = self.calls.spawn(accept);
        let mut event = Event::Start;
        'fleet: loop {
            let actions = self.machine.step(self.clock.boot(), event);
            // Before anybody is told: whoever looks at the clock must not be behind who watches.
            self.trust.set(self.machine.view(), self.voice.hello.config.me, &self.machine);
            for action in actions {
                if action == Action::Closed {
                    break 'fleet;
                }
                self.perform(action);
            }
            event = self.next().await;
        }
        accepting.abort();
        self.voice.closing.cancel();
        // What is still to be said, the farewell, is said; then the connections end by themselves.
        self.links.clear();
        let _ = timeout(FAREWELL, async { while self.calls.join_next().await.is_some() {} }).await;
    }

    async fn next(&mut self) -> Event {
        loop {
            let wake = self.machine.next_wake().unwrap_or(BootTime::NEVER);
            tokio::select! {
                biased;
                () = self.leave.cancelled() => return Event::Leave,
                Some(news) = self.heard.recv() => {
                    if let Some(event) = self.take(news) {
                        return event;
                    }
                }
                () = self.clock.sleep_until(wake) => return Event::Wake,
            }
        }
    }

    fn take(&mut self, news: News) -> Option<Event> {
        match news {
            News::Word { from, life, word } => return Some(Event::Heard { from, life, word }),
            News::Members(addresses) => {
                for address in addresses {
                    self.learn(address);
                }
            }
            News::Linked { address, is_us: true, .. } => {
                self.links.remove(&address);
                self.own.push(address);
            }
            News::Linked { address, id, .. } => {
                let list = self.list();
                if let Some(link) = self.links.get_mut(&address) {
                    (link.id, link.trouble) = (Some(id), None);
                    // A full line is a line that is being read, and hears the next list.
                    let _ = link.frames.try_send(list);
                }
            }
            News::Unlinked { address, why } => {
                let now = self.clock.boot();
                if let Some(link) = self.links.get_mut(&address) {
                    if link.trouble.is_none() {
                        link.good_at = now;
                    }
                    link.trouble = Some(why);
                }
            }
        }
        self.show();
        None
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Send { to, word } => {
                let links = self.links.values().filter(|link| link.id == Some(to));
                for link in links {
                    // Lost words are what the machine is made for.
                    let _ = link.frames.try_send(Frame::Word(word));
                }
            }
            Action::SendAll(word) => {
                self.say_all(&Frame::Word(word));
                if let Word::Beat { .. } = word {
                    self.beats += 1;
                    if self.beats.is_multiple_of(BEATS_PER_LIST) {
                        self.forget();
                        self.say_all(&self.list());
                    }
                    self.show();
                }
            }
            Action::Announce(view) => {
                let me = self.voice.hello.config.me;
                self.view.send_replace(shown(view, me));
            }
            // The loop ends before it comes here.
            Action::Closed => {}
        }
    }

    fn say_all(&self, frame: &Frame) {
        for link in self.links.values().filter(|link| link.id.is_some()) {
            let _ = link.frames.try_send(frame.clone());
        }
    }

    /// Those who can be reached, and where we are.
    fn list(&self) -> Frame {
        let reached = self.links.iter().filter(|(_, link)| link.trouble.is_none());
        let reached = reached.filter(|(_, link)| link.id.is_some()).map(|(address, _)| address);
        let own = self.own.first().filter(|own| !own.is_empty());
        let most = limits::FLEET_MEMBERS_MAX;
        Frame::Members(own.into_iter().chain(reached).take(most).cloned().collect())
    }

    /// Another member named an address.
    fn learn(&mut self, address: String) {
        let is_known = self.links.contains_key(&address) || self.own.contains(&address);
        if !self.discover || is_known || address.is_empty() {
            return;
        }
        // A name would have to be looked up to know whether it is on this machine.
        let is_fit = !self.voice.secret.is_empty()
            || address.parse().is_ok_and(|socket| self.voice.may_call(socket));
        if is_fit && self.links.len() < limits::FLEET_MEMBERS_MAX {
            self.call(address, false);
        }
    }

    fn call(&mut self, address: String, is_configured: bool) {
        if self.links.contains_key(&address) || self.own.contains(&address) {
            return;
        }
        let (frames, said) = mpsc::channel(FRAMES_MAX);
        let call = link::call(Arc::clone(&self.voice), address.clone(), said, self.news.clone());
        let task = self.calls.spawn(call);
        let good_at = self.clock.boot();
        let link = Link { frames, task, id: None, trouble: None, is_configured, good_at };
        self.links.insert(address, link);
    }

    /// Whoever was only learned of and has not been reached for long is not called any more.
    fn forget(&mut self) {
        let now = self.clock.boot();
        self.links.retain(|_, link| {
            let is_old = now >= link.good_at.plus_ms(limits::MEMBER_MEMORY_MS);
            let is_gone = !link.is_configured && link.trouble.is_some() && is_old;
            if is_gone {
                link.task.abort();
            }
            !is_gone
        });
        while self.calls.try_join_next().is_some() {}
    }

    fn show(&self) {
        let present = self.machine.present(self.clock.boot());
        let members = self.links.iter().map(|(address, link)| FleetMember {
            address: address.clone(),
            id: link.id,
            is_present: link.id.is_some_and(|id| present.contains(&id)),
            trouble: link.trouble.clone(),
        });
        self.trust.show(members.collect());
    }
}

pub(super) fn shown(view: View, me: FleetId) -> FleetView {
    FleetView {
        leader: view.leader.map(|(id, _)| id),
        reign: view.leader.map_or(0, |(_, reign)| reign),
        is_us: view.leader.is_some_and(|(id, _)| id == me),
        obstacle: view.obstacle,
    }
}

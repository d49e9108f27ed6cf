//! One seed's world: a loop over events, and the faults among them.

use std::rc::Rc;

use bellwether::journal::file;

use crate::bodies::Bodies;
use crate::boundary::Boundary;
use crate::bus::{Bus, Event, Fault};
use crate::history::{Seen, Stands, What};
use crate::member::Member;
use crate::plan::Plan;
use crate::resource::Resource;
use crate::server::Server;
use bellwether_core::name::Part;

/// A world of which more happens than this does not come to an end: fifty times the usual.
const EVENTS_MAX: u64 = 2_000_000;
/// How long the world may take to get well again.
const HEAL_MS_MAX: u64 = 240_000;
/// Nobody is sent a probe before pauses after failures are over.
const PROBE_AFTER_MS: u64 = 25_000;
/// A message for somebody who waits must reach him within this time, which is well below the time
/// after which those who wait would ask again.
const PROBE_MS: u64 = 8_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct World {
    /// Everything that is shared.
    pub bus: Bus,
    server: Server,
    members: Vec<Member>,
    resources: Vec<Resource>,
    processes: u32,
    trusting: Vec<Vec<(usize, u64)>>,
    healed_at_ms: u64,
    probes_until_ms: Option<u64>,
}

impl World {
    /// The world of a plan, before anything happens.
    pub(crate) fn new(plan: Plan, verbose: bool) -> Self {
        let plan = Rc::new(plan);
        let mut bus = Bus::new(Rc::clone(&plan), verbose);
        let bodies = Bodies { usual_bytes: plan.body_bytes };
        let server = Server::new(&bus, Boundary::new(bodies));
        let members = (0..plan.members.len()).map(|i| Member::new(&mut bus, i)).collect();
        let resources = plan.elections.iter().map(|_| Resource::default()).collect();
        let trusting = vec![Vec::new(); plan.elections.len()];
        let healed_at_ms = plan.fault_ms;
        Self {
            bus,
            server,
            members,
            resources,
            processes: 0,
            trusting,
            healed_at_ms,
            probes_until_ms: None,
        }
    }

    /// Lets everything happen, until the end or until an invariant breaks.
    pub(crate) fn run(&mut self) {
        self.begin();
        while self.bus.history.violation.is_none() {
            let Some(event) = self.bus.next() else { break };
            self.happen(event);
            assert!(self.bus.stats.events < EVENTS_MAX, "the world does not come to an end");
            if self.bus.healed && self.is_over() {
                break;
            }
        }
        self.bus.stats.simulated_ms = self.bus.now_ms();
    }

    fn begin(&mut self) {
        self.bus.after(0, Event::ServerStarts);
        for member in 0..self.members.len() {
            let us = self.bus.dice.below(1_000_000);
            self.bus.after(us, Event::MemberStarts(member));
        }
        let every = [
            Fault::Kill,
            Fault::Power,
            Fault::ServerPause,
            Fault::Disk,
            Fault::Wall,
            Fault::MemberKill,
            Fault::MemberPause,
            Fault::Partition,
            Fault::StepDown,
        ];
        for fault in every {
            self.arrange(fault);
        }
        self.bus.after(500_000, Event::Audit { regular: true });
        let heal_us = self.bus.plan.fault_ms * 1000;
        self.bus.at(heal_us, Event::Heal);
    }

    /// Arranges the next fault of a kind.
    fn arrange(&mut self, fault: Fault) {
        let plan = self.bus.plan.faults;
        let usual_ms = match fault {
            Fault::Kill => plan.kill_ms,
            Fault::Power => plan.power_ms,
            Fault::ServerPause => plan.server_pause_ms,
            Fault::Disk => plan.disk_ms,
            Fault::Wall => plan.wall_ms,
            Fault::MemberKill => plan.member_kill_ms,
            Fault::MemberPause => plan.member_pause_ms,
            Fault::Partition => plan.partition_ms,
            Fault::StepDown => plan.step_down_ms,
        };
        if let Some(ms) = usual_ms {
            let us = self.bus.dice.between(ms * 200, ms * 1800);
            self.bus.after(us, Event::Fault(fault));
        }
    }

    fn happen(&mut self, event: Event) {
        let bus = &mut self.bus;
        match event {
            Event::ToServer(packet) => self.server.receive(bus, packet),
            Event::ToMember(member, answer) => {
                self.members[member].receive(bus, answer);
                self.look_at_trust(member);
            }
            Event::ToResource(write) => {
                self.resources[usize::from(write.election)].write(bus, write);
            }
            Event::Server(life, event) => self.server.happen(bus, life, event),
            Event::ServerStarts => self.server.start(bus),
            Event::MemberWakes(member) => {
                self.members[member].wake(bus);
                self.look_at_trust(member);
            }
            Event::MemberStarts(member) => {
                self.processes += 1;
                self.members[member].start(bus, self.processes);
            }
            Event::Fault(fault) => {
                if !bus.healed {
                    self.go_wrong(fault);
                    self.arrange(fault);
                }
            }
            Event::Relapse { power } => {
                if !bus.healed {
                    self.go_wrong(if power { Fault::Power } else { Fault::Kill });
                }
            }
            Event::Audit { regular } => {
                self.server.audit(bus);
                if regular {
                    let us = bus.dice.between(500_000, 2_500_000);
                    bus.after(us, Event::Audit { regular });
                }
            }
            Event::Heal => self.heal(),
        }
    }

    fn some_member(&mut self) -> usize {
        self.bus.dice.below(self.members.len() as u64) as usize
    }

    fn go_wrong(&mut self, fault: Fault) {
        match fault {
            Fault::Kill => {
                self.bus.stats.kills += 1;
                self.server.kill(&mut self.bus);
                let us = self.bus.dice.around(300_000);
                self.bus.after(us, Event::ServerStarts);
            }
            Fault::Power => {
                self.bus.stats.power_cuts += 1;
                self.server.cut_power(&mut self.bus);
                let us = self.bus.dice.around(800_000);
                self.bus.after(us, Event::ServerStarts);
            }
            Fault::ServerPause => {
                self.bus.stats.server_pauses += 1;
                let us = self.bus.dice.around(800_000);
                self.bus.note(|| format!("the server stands still for {us} us"));
                self.server.pause(self.bus.now_us + us);
            }
            Fault::Disk => {
                self.bus.stats.disk_faults += 1;
                let k = self.bus.dice.below(60);
                let fault = self.bus.dice.pick(&[
                    file::Fault::Eio,
                    file::Fault::Eio,
                    file::Fault::ShortWrite,
                    file::Fault::Enospc,
                ]);
                self.server.fail_disk_call(&mut self.bus, k, fault);
            }
            Fault::Wall => {
                self.bus.stats.wall_jumps += 1;
                let ms = self.bus.dice.around(10_000);
                let ahead = self.bus.wall_ahead_ms;
                let forwards = self.bus.dice.percent(50);
                // Noted before and after, so that history knows what the clock showed.
                self.bus.note(|| format!("the wall clock jumps by {ms} ms"));
                self.bus.wall_ahead_ms = if forwards { ahead + ms } else { ahead - ms };
                self.bus.note(|| "it has jumped".into());
            }
            _ => self.go_wrong_elsewhere(fault),
        }
    }

    fn go_wrong_elsewhere(&mut self, fault: Fault) {
        let member = self.some_member();
        match fault {
            Fault::MemberKill => {
                self.bus.stats.member_kills += 1;
                self.members[member].kill(&mut self.bus);
                let us = self.bus.dice.around(1_500_000);
                self.bus.after(us, Event::MemberStarts(member));
            }
            Fault::MemberPause => {
                self.bus.stats.member_pauses += 1;
                let us = self.bus.dice.around(3_000_000);
                self.bus.note(|| format!("member {member} stands still for {us} us"));
                let until = self.bus.now_us + us;
                self.members[member].pause(&mut self.bus, until);
            }
            Fault::Partition => {
                self.bus.stats.partitions += 1;
                let us = self.bus.dice.around(3_000_000);
                let ways = self.bus.dice.below(3);
                let until = self.bus.now_us + us;
                self.bus.note(|| format!("member {member} is cut off, ways {ways}, for {us} us"));
                self.bus.network.cut(member, ways != 1, ways != 0, until);
            }
            _ => {
                let election = self.bus.dice.below(self.bus.plan.elections.len() as u64) as u8;
                self.server.ask_step_down(&self.bus, election);
            }
        }
    }

    /// From here on nothing goes wrong any more.
    fn heal(&mut self) {
        self.bus.healed = true;
        self.bus.record(What::Healed);
        // What is due by the latest time that was ever shown must become due before the end.
        let latest = self.bus.history.wall_ms_max - self.bus.now_ms();
        self.bus.wall_ahead_ms = self.bus.wall_ahead_ms.max(latest);
        self.bus.network.heal();
        self.server.heal(&mut self.bus);
        self.bus.after(0, Event::ServerStarts);
        for member in 0..self.members.len() {
            self.members[member].resume(&mut self.bus);
            self.bus.after(1_000, Event::MemberStarts(member));
        }
    }

    /// A member did something: does anybody trust a lease beside it?
    fn look_at_trust(&mut self, member: usize) {
        let plan = Rc::clone(&self.bus.plan);
        for election in &plan.members[member].elections {
            let all = self.members.iter().enumerate();
            let by: Vec<(usize, u64)> = all
                .filter_map(|(index, member)| Some((index, member.trusts(&self.bus, *election)?)))
                .collect();
            let before = &mut self.trusting[usize::from(*election)];
            if *before != by {
                before.clone_from(&by);
                self.bus.record(What::Trusting { election: *election, by });
            }
        }
    }

    /// Whether the world is well again, or has had its time.
    fn is_over(&mut self) -> bool {
        let since_heal_ms = self.bus.now_ms().saturating_sub(self.healed_at_ms);
        if let Some(until) = self.probes_until_ms {
            return self.probes_are_over(until);
        }
        let undrained: Vec<Seen> = match &self.server.boundary.last_audit {
            Some((at_ms, messages)) if *at_ms >= self.healed_at_ms + 1_000 => messages
                .iter()
                .filter(|seen| seen.spot.part == Part::Main && seen.stands != Stands::Deferred)
                .cloned()
                .collect(),
            _ => return false,
        };
        let leaderless: Vec<u8> = (0..self.bus.plan.elections.len() as u8)
            .filter(|election| !self.members.iter().any(|m| m.leads(&self.bus, *election)))
            .collect();
        let well = undrained.is_empty() && leaderless.is_empty();
        if since_heal_ms > HEAL_MS_MAX || (well && since_heal_ms > PROBE_AFTER_MS) {
            self.bus.record(What::Ended { undrained, leaderless });
            self.probes_until_ms = Some(self.bus.now_ms() + PROBE_MS);
            let plan = Rc::clone(&self.bus.plan);
            for (queue, plan) in (0..).zip(&plan.queues) {
                // What moves on may become a dead letter, if there is no room where it goes.
                if plan.settings.forward_to.is_none() {
                    self.server.probe(&mut self.bus, queue);
                }
            }
        }
        false
    }

    fn probes_are_over(&mut self, until_ms: u64) -> bool {
        if self.bus.probes.is_empty() {
            return true;
        }
        if self.bus.now_ms() < until_ms {
            return false;
        }
        for (id, (queue, _)) in std::mem::take(&mut self.bus.probes) {
            self.bus.record(What::Probe { queue, id });
        }
        true
    }
}

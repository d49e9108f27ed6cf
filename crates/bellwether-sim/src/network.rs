//! The network: every packet by itself is delayed, lost, doubled or held up; a member may be cut
//! off, one way or both.

use std::rc::Rc;

use crate::bus::{Answer, Bus, Event, Item, Packet, Withdrawal, Write};
use crate::plan::Plan;

/// Which members are cut off, and until when.
#[derive(Debug)]
pub(crate) struct Network {
    /// Towards the server.
    out_until_us: Vec<u64>,
    /// From the server.
    in_until_us: Vec<u64>,
}

impl Network {
    /// A network without cuts.
    pub(crate) fn new(plan: &Plan) -> Self {
        let count = plan.members.len();
        Self { out_until_us: vec![0; count], in_until_us: vec![0; count] }
    }

    /// Cuts a member off.
    pub(crate) fn cut(&mut self, member: usize, outwards: bool, inwards: bool, until_us: u64) {
        if outwards {
            self.out_until_us[member] = until_us;
        }
        if inwards {
            self.in_until_us[member] = until_us;
        }
    }

    /// Ends all cuts.
    pub(crate) fn heal(&mut self) {
        self.out_until_us.fill(0);
        self.in_until_us.fill(0);
    }
}

impl Bus {
    /// Sends a request on its way.
    pub(crate) fn send_request(&mut self, packet: &Rc<Packet>) {
        let cut = self.now_us < self.network.out_until_us[packet.member];
        self.travel(cut, |_| Event::ToServer(Item::Call(Rc::clone(packet))));
    }

    /// Says that an answer is no longer wanted.
    pub(crate) fn send_withdrawal(&mut self, withdrawal: Withdrawal) {
        let cut = self.now_us < self.network.out_until_us[withdrawal.member];
        self.travel(cut, |_| Event::ToServer(Item::Withdraw(withdrawal)));
    }

    /// Sends an answer on its way.
    pub(crate) fn send_answer(&mut self, member: usize, answer: Answer) {
        let cut = self.now_us < self.network.in_until_us[member];
        let answer = Rc::new(answer);
        self.travel(cut, |_| Event::ToMember(member, Rc::clone(&answer)));
    }

    /// Sends a write on its way. Resources are elsewhere: being cut off from the server does not
    /// keep a member from writing.
    pub(crate) fn send_write(&mut self, write: Write) {
        self.travel(false, |_| Event::ToResource(write));
    }

    fn travel(&mut self, cut: bool, event: impl Fn(u32) -> Event) {
        self.stats.packets += 1;
        let plan = self.plan.network;
        if self.healed {
            let delay = self.dice.around(plan.delay_us.min(2_000));
            self.after(delay, event(0));
            return;
        }
        if cut || self.dice.per_mille(plan.lost) {
            self.stats.packets_lost += 1;
            return;
        }
        let copies = 1 + u32::from(self.dice.per_mille(plan.doubled));
        self.stats.packets_doubled += u64::from(copies) - 1;
        for copy in 0..copies {
            let delay = if self.dice.per_mille(plan.held_up) {
                self.dice.between(plan.delay_us, plan.held_up_us)
            } else {
                self.dice.around(plan.delay_us)
            };
            self.after(delay, event(copy));
        }
    }
}

//! Names, numbers, times and proofs.

use super::wire::{Wire, put_text, wire_enum, wire_number, wire_struct};
use super::{BadBytes, Reader};
use crate::content::{ContentId, Place};
use crate::name::{
    At, DeliveryNumber, Incarnation, JobId, JobName, LeaseId, LeaseName, LockToken, MemberId,
    MemberSlot, Part, QueueId, QueueName, QueuePath, RequestNumber, ScheduleName, SequenceNumber,
    SessionId, SessionToken, Term,
};
use crate::time::WallTime;

macro_rules! wire_name {
    ($($name:ident, $expected:literal;)+) => {$(
        impl Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                put_text(self.as_str(), out);
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
                let offset = r.position();
                Self::new(r.text()?).map_err(|_| BadBytes { expected: $expected, offset })
            }
        }
    )+};
}
wire_name! {
    QueueName, "a queue name";
    JobName, "a job name";
    LeaseName, "a lease name";
    ScheduleName, "a schedule name";
    SessionId, "a session id";
}

wire_number! {
    ContentId, DeliveryNumber, Incarnation, JobId, LeaseId, MemberId, MemberSlot, QueueId, RequestNumber,
    SequenceNumber, Term, WallTime,
}

wire_struct!(Place { unit, offset, len });
wire_struct!(LockToken { sequence, number, incarnation });
wire_struct!(SessionToken { session, number, incarnation });
wire_struct!(At { queue, part, sequence });
wire_struct!(QueuePath { queue, part });

wire_enum!(Part, "a half of a queue", { 1 => Main, 2 => Dead });

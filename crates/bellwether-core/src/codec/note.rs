//! Results and claims.

use super::wire::{Wire, wire_enum, wire_struct};
use super::{BadBytes, Reader};
use crate::note::{
    ClaimHold, ClaimToken, Claimed, Note, NoteKind, NoteName, NoteState, Report, ResultInfo,
};

wire_struct!(NoteName { kind, of, key });
wire_enum!(NoteKind, "a kind of note", { 1 => Result, 2 => Claim });
wire_struct!(Note { state, content, message, hash, created_at, updated_at, ttl_ms });
wire_enum!(NoteState, "how a note stands", {
    1 => Pending,
    2 => Running { percent },
    3 => Succeeded,
    4 => Failed,
    5 => Gone,
    6 => Held(hold),
    7 => Done,
});
wire_struct!(ClaimToken { number, incarnation });
wire_enum!(Report, "what is said of work", {
    1 => Running { percent },
    2 => Succeeded,
    3 => Failed,
});
wire_struct!(ResultInfo { state, created_at, updated_at, expires_at, content, place });
wire_enum!(Claimed, "what became of a claim", {
    1 => Granted { token, taken_over },
    2 => InProgress { by, remaining_ms },
    3 => Done { at, content, place },
    4 => Conflict,
});

impl Wire for ClaimHold {
    fn put(&self, out: &mut Vec<u8>) {
        let Self { token, member, lock_ms, until: _ } = self;
        token.put(out);
        member.put(out);
        lock_ms.put(out);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, BadBytes> {
        let (token, member, lock_ms) = (Wire::get(r)?, Wire::get(r)?, u32::get(r)?);
        Ok(Self { token, member, lock_ms, until: r.now().plus_ms(lock_ms.into()) })
    }
}

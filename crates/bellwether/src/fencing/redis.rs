//! Keys of Redis that only the latest term may write, with whatever client you have.
//!
//! One script compares the term, raises it, and runs the commands; Redis runs nothing else
//! meanwhile. [`eval`] gives the words of one `EVAL`, which any client sends; [`refusal`] reads
//! its error. With the crate `redis`:
//!
//! ```text
//! let words = eval(&leadership.ensure()?, &[&["SET", "price:tea", "250"]]);
//! let asked: redis::RedisResult<Vec<redis::Value>> = redis::cmd("EVAL").arg(&words[1..]).query_async(&mut connection).await;
//! if let Err(error) = asked { … refusal(&fence, &error.to_string()) … }
//! ```
//!
//! **What Redis itself can lose.** Replication is asynchronous and the append-only file is flushed
//! once a second unless told otherwise. A fail-over or a power cut can take back the newest term
//! together with the newest writes, and then an old term is let in again. What must never be
//! written by an old leader belongs into PostgreSQL or etcd; with `appendfsync always` and one
//! server without fail-over, Redis holds it too.
//!
//! Redis does not roll back: if the second of two commands is wrong, the first has been done.

use bellwether_core::name::{LeaseName, Term};

use super::Fenced;
use crate::elector::Fence;

/// The script. `KEYS[1]` is the fence's key, `ARGV` the term and the commands.
pub const FENCED_LUA: &str = include_str!("redis.lua");

/// Redis' Lua takes so many arguments from a script in one call.
pub const COMMAND_WORDS_MAX: usize = 7_000;

/// Where the election's newest term is kept. In a cluster all keys of one script must be in one
/// slot: those that have `{ELECTION}` in their name are in this one's.
pub fn key(election: &LeaseName) -> String {
    format!("bellwether:fence:{{{election}}}")
}

/// The words of one `EVAL` that runs the commands under the fence, all or, if it is refused, none.
/// The reply is a list with the reply of each command. A command has at most
/// [`COMMAND_WORDS_MAX`] words.
pub fn eval<W: AsRef<[u8]>>(fence: &Fence, commands: &[&[W]]) -> Vec<Vec<u8>> {
    let mut words = ["EVAL", FENCED_LUA, "1"].map(|word| word.as_bytes().to_vec()).to_vec();
    words.push(key(&fence.election).into_bytes());
    words.push(fence.term.to_string().into_bytes());
    for command in commands {
        words.push(command.len().to_string().into_bytes());
        words.extend(command.iter().map(|word| word.as_ref().to_vec()));
    }
    words
}

/// The refusal in an error's text, if it is one. Clients show that text each in its own way.
pub fn refusal(fence: &Fence, error: &str) -> Option<Fenced> {
    let (_, said) = error.split_once("FENCED")?;
    // One client puts ": " after the code, another " - ".
    let said = said.trim_start_matches([':', '-', ' ']);
    let digits = said.find(|c: char| !c.is_ascii_digit()).unwrap_or(said.len());
    Some(Fenced::new(fence, Term(said[..digits].parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_read_as_different_clients_write_it() {
        let fence = Fence { election: LeaseName::new("a").unwrap(), term: Term(5) };
        for text in [
            "FENCED 7 is the newest term, and this is 5",
            "An error was signalled by the server - FENCED: 7 is the newest term, and this is 5",
            "\"FENCED\": 7 is the newest",
        ] {
            let read = refusal(&fence, text).or_else(|| refusal(&fence, &text.replace('"', "")));
            assert_eq!(read, Some(Fenced::new(&fence, Term(7))), "{text}");
        }
        assert_eq!(refusal(&fence, "WRONGTYPE Operation against a key"), None);
        assert_eq!(refusal(&fence, "FENCED in"), None);
    }
}

//! Every maximum, with its reason. Azure's narrower ones are a profile (`settings.rs`).

/// Azure allows paths of 260 characters; longer names only hurt logs and dashboards.
pub const NAME_BYTES_MAX: usize = 260;

/// One message, properties and body together. A unit of the file journal is 16 MiB and a message
/// must fit one frame of it with room for company.
pub const CONTENT_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// All contents of one atomic command, for the same reason.
pub const COMMAND_BYTES_MAX: u64 = 12 * 1024 * 1024;

/// Messages in one atomic command: bounds how long the writer is busy with one caller.
pub const BATCH_MESSAGES_MAX: usize = 10_000;

/// Messages handed out by one receive, for the same reason.
pub const RECEIVE_MESSAGES_MAX: u32 = 10_000;

/// Contents handed out or shown by one receive or peek, together; one message may always be. An
/// answer is put together in memory, and there may be as many answers as there are connections.
pub const RECEIVE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Deliveries that one member may have unsettled at a time, if nobody says otherwise: one that takes
/// and never settles must not take everything. Ten of the largest receives.
pub const UNSETTLED_PER_MEMBER_MAX: u32 = 100_000;

/// Properties of one message, names and values together: whoever receives it reads them all, wanted
/// or not. Azure allows as many bytes.
pub const PROPERTIES_BYTES_MAX: usize = 64 * 1024;
/// How many there may be, for the same reason.
pub const PROPERTIES_MAX: usize = 1024;

/// Sessions of one queue, if nobody says otherwise: each has a name in memory for as long as it has
/// messages, a hold or a state.
pub const SESSIONS_PER_QUEUE_MAX: u32 = 1_000_000;

/// Messages looked at to say how many stand before one: an answer of that kind is for people, and
/// "ten thousand and more" is all they need.
pub const EXPLAIN_MESSAGES_MAX: usize = 10_000;

/// Shortest lock: below this the network decides who holds what.
pub const LOCK_MS_MIN: u32 = 100;
/// Longest lock (Storage queues allow seven days).
pub const LOCK_MS_MAX: u32 = 7 * 24 * 3600 * 1000;

/// Shortest lease: heartbeats cost nothing, but a scheduler's hiccup is 10 to 50 ms.
pub const LEASE_MS_MIN: u64 = 100;
/// Longest finite lease; longer ones are infinite.
pub const LEASE_MS_MAX: u64 = 24 * 3600 * 1000;
/// A lease that never ends.
pub const LEASE_MS_INFINITE: u64 = u64::MAX;

/// Members of a fleet without a store: everybody speaks to everybody at every beat.
pub const FLEET_MEMBERS_MAX: usize = 128;
/// Shortest time between two beats of such a member: below this a scheduler's hiccup is a silence.
pub const FLEET_BEAT_MS_MIN: u64 = 10;
/// Longest silence that may be waited for.
pub const FLEET_SILENCE_MS_MAX: u64 = 3600 * 1000;

/// Longest wait of one call; a caller who wants longer asks again.
pub const WAIT_MS_MAX: u64 = 24 * 3600 * 1000;

/// A forwarded message moves through at most this many queues, so that a ring ends.
pub const FORWARD_HOPS_MAX: u8 = 4;

/// Outcomes kept for one member: what it may have in flight without hearing an answer.
pub const KEPT_OUTCOMES_MAX: usize = 65_536;

/// How long a silent member's outcomes and name are kept after its presence ended.
pub const MEMBER_MEMORY_MS: u64 = 10 * 60 * 1000;

/// Text that members and holders show of themselves.
pub const METADATA_BYTES_MAX: usize = 4096;

/// Queues in one shard.
pub const QUEUES_MAX: usize = 100_000;
/// Leases in one shard.
pub const LEASES_MAX: usize = 1_000_000;
/// Slots of one lease: so many may hold it at once.
pub const SLOTS_MAX: u32 = 1024;

/// Jobs in one shard, those that have ended and are still kept included.
pub const JOBS_MAX: usize = 100_000;
/// Items of one job: each has a record for as long as the job is kept.
pub const JOB_ITEMS_MAX: u32 = 1_000_000;
/// The result of one item: whoever gathers reads them all. What is larger belongs where the work
/// was done, and its address into the result.
pub const RESULT_BYTES_MAX: u32 = 64 * 1024;
/// How long a job is kept after its end, if nobody says otherwise: a day, for whoever was away.
pub const JOB_RETENTION_MS_DEFAULT: u64 = 24 * 3600 * 1000;
/// How long it may be kept: what is wanted for longer is not a queue's business.
pub const JOB_RETENTION_MS_MAX: u64 = 366 * 24 * 3600 * 1000;
/// What one job costs in memory: names, settings, counters.
pub const JOB_MEMORY_BYTES: u64 = 512;
/// What one item costs in memory beside its message, or its result once it is done: a record, and the
/// way from the message to it.
pub const ITEM_MEMORY_BYTES: u64 = 64;

/// Schedules in one shard: each is looked at when it is due, and all of them may be due at noon.
pub const SCHEDULES_MAX: usize = 10_000;
/// A rule, and a time zone's name: longer ones are no rules.
pub const RULE_BYTES_MAX: usize = 256;
/// Shortest time from one slot to the next; what comes more often is a loop and no schedule.
pub const EVERY_MS_MIN: u64 = 1_000;
/// Longest one.
pub const EVERY_MS_MAX: u64 = 366 * 24 * 3600 * 1000;
/// A slot that is later than this was missed: somebody was not there.
pub const SLOT_LATE_MS_MAX: u64 = 60_000;
/// Missed slots that are caught up with in one step.
pub const MISSED_SLOTS_MAX: u32 = 1_000;

/// What one waiting message costs in memory, for the budget: its record, its content's entry, its
/// place in a lane. Measured by `bench`, asserted there.
pub const MESSAGE_MEMORY_BYTES: u64 = 160;

/// What one remembered message id costs in memory: hash and time, in a map and in a row.
pub const SEEN_MEMORY_BYTES: u64 = 80;

/// What one step of time does at most, so that a million messages that expire together do not
/// stop the writer; the rest is due at once again.
pub const TICK_WORK_MAX: usize = 2048;

/// The ledger re-grants a lease only after 105 % of its ttl (holders trust 80 %).
pub const LEASE_GRACE_PERCENT: u64 = 105;
/// The holder trusts a grant for 80 % of its ttl, counted from before it asked.
pub const LEASE_TRUST_PERCENT: u64 = 80;

const _: () = assert!(CONTENT_BYTES_MAX as u64 <= COMMAND_BYTES_MAX);
const _: () = assert!(CONTENT_BYTES_MAX as u64 <= RECEIVE_BYTES_MAX);
const _: () = assert!(RECEIVE_MESSAGES_MAX <= UNSETTLED_PER_MEMBER_MAX);
const _: () = assert!(PROPERTIES_BYTES_MAX < CONTENT_BYTES_MAX as usize);
const _: () = assert!(RESULT_BYTES_MAX < CONTENT_BYTES_MAX);
const _: () = assert!(LEASE_TRUST_PERCENT < 100 && LEASE_GRACE_PERCENT > 100);

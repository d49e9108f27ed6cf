//! Stories of one pump, and a world that tries to confuse it.

#[path = "flow/ending.rs"]
mod ending;
#[path = "flow/failing.rs"]
mod failing;
#[path = "flow/locks.rs"]
mod locks;
#[path = "flow/session_world.rs"]
mod session_world;
#[path = "flow/sessions.rs"]
mod sessions;
#[path = "flow/story.rs"]
mod story;
#[path = "flow/taking.rs"]
mod taking;
#[path = "flow/world.rs"]
mod world;

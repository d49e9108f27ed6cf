//! The world.
fn main() {}

//! How many workers there should be, and which of them go. XM numbers are those of the requirements
//! on scaling, which `docs/scaling.md` repeats as sentences.

#[path = "scaler/choosing.rs"]
mod choosing;
#[path = "scaler/rules.rs"]
mod rules;
#[path = "scaler/world.rs"]
mod world;

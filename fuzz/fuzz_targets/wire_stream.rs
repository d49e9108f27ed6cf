#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (bellwether_fuzz::Target::named("wire_stream").run)(bytes));

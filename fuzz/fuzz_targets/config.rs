#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| p3o_fuzz::config(data));

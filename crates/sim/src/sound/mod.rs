//! Sound for all voice servers: a voice made of tones, and the detection of speech. Knows no protocol.

pub(crate) mod activity;
pub(crate) mod voice;

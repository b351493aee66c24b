//! Sound, which every server by voice makes and hears: a voice that is a tone, and speech that is told from silence. Knows no
//! protocol.

pub(crate) mod activity;
pub(crate) mod voice;

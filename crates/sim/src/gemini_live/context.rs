//! The context of an input: the time, the state shared by all connections, and the output. Knows no session.

use super::frames;
use super::memory::Sessions;
use crate::runner::{Output, Refusals};
use crate::script::{Exchange, Settings};
use std::sync::Arc;
use windlass_session::time::Timestamp;

/// The state that all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) sessions: Sessions,
    pub(crate) refusals: Refusals,
    pub(crate) exchanges: Option<Arc<[Exchange]>>,
    pub(crate) calls_minted: u64,
}

impl Shared {
    pub(crate) fn exchanges(&self) -> Arc<[Exchange]> {
        self.exchanges.clone().unwrap_or_default()
    }

    pub(crate) fn is_demo(&self) -> bool {
        self.exchanges.is_none()
    }

    /// `function-call-` and up to 20 digits, as recorded; distinct within the server, and the same in every run.
    pub(crate) fn mint_call_id(&mut self) -> String {
        self.calls_minted += 1;
        // One step of SplitMix64 (Steele, Lea and Flood, 2014), a bijection, so that no two numbers are alike.
        let mut mixed = self.calls_minted.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        format!("function-call-{}", mixed ^ (mixed >> 31))
    }
}

/// The context of one input.
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) shared: &'a mut Shared,
    pub(crate) out: &'a mut Vec<Output>,
}

impl Context<'_> {
    pub(crate) fn send(&mut self, frame: Vec<u8>) {
        debug_assert!(
            frames::fits(&frame),
            "a frame of the service is below 1 MiB"
        );
        self.out.push(Output::Send(frame));
    }
}

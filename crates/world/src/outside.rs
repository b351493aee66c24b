//! The service beyond the handlers, where effects take place: it does what it is asked, or fails, and remembers everything.
//! Knows the truth that the ledger can only guess.

use std::collections::BTreeMap;
use windlass_session::io::OutcomeState;
use windlass_tool::id::EffectId;

/// What an effect's last request amounts to, for those who cannot look into the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Never asked for, or the last request has certainly failed.
    #[default]
    NotDone,
    MayBeDone,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) standing: Standing,
    /// The truth.
    pub(crate) is_done: bool,
    pub(crate) requests: u32,
}

/// One intended change, as the driver reserved it.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) effect_id: EffectId,
    /// How much the user had said when the call was asked for.
    pub(crate) asked_at_input: u64,
}

#[derive(Default)]
pub(crate) struct Outside {
    effects: BTreeMap<EffectId, Known>,
    /// The latest wish of each conversation and fingerprint that was started.
    pub(crate) wishes: BTreeMap<(usize, [u8; 32]), Wish>,
}

impl Outside {
    pub(crate) fn known(&self, effect_id: &EffectId) -> Known {
        self.effects.get(effect_id).cloned().unwrap_or_default()
    }

    pub(crate) fn request(&mut self, effect_id: &EffectId, commits: bool) {
        let known = self.effects.entry(effect_id.clone()).or_default();
        known.requests += 1;
        known.standing = Standing::MayBeDone;
        known.is_done |= commits;
    }

    /// Somebody who may rely on it learns that the last request has not done anything.
    pub(crate) fn disclaim(&mut self, effect_id: &EffectId) {
        if let Some(known) = self.effects.get_mut(effect_id) {
            known.standing = Standing::NotDone;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&EffectId, &Known)> {
        self.effects.iter()
    }

    /// Whether what the ledger says is true.
    pub(crate) fn agrees(&self, effect_id: &EffectId, state: OutcomeState) -> bool {
        let known = self.known(effect_id);
        match state {
            OutcomeState::Succeeded => known.is_done,
            OutcomeState::Failed => !known.is_done,
            OutcomeState::Unknown => true,
        }
    }
}

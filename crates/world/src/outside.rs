//! The services beyond the handlers, where effects take place: each request lands at a time of its own, or never. Only this file knows
//! what has happened; neither ledger nor session is asked.

use crate::executor::{Attempt, AttemptRun};
use crate::tools::{Edition, Tool};
use std::collections::BTreeSet;
use windlass_contract::id::EffectId;
use windlass_store::{AttemptNumber, QuestionNumber};

/// The service for the effects of a version of the tools. It knows no key of the other's, and no effect of the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Service {
    Usual,
    /// The service of the version beside the current ones.
    Beside,
}

impl Service {
    pub(crate) fn of(tool: &Tool) -> Self {
        match Edition::of(tool) {
            Some(Edition::Beside) => Self::Beside,
            _ => Self::Usual,
        }
    }
}

/// One request of a handler's. Its index in [`Outside`] names it.
#[derive(Clone, Debug)]
pub(crate) struct OutsideRequest {
    pub(crate) effect_id: EffectId,
    pub(crate) attempt: AttemptNumber,
    pub(crate) conversation: usize,
    /// The process that sent it, and its ordinal in its place.
    pub(crate) process: (usize, u32),
    pub(crate) lease_end_unix_ms: u64,
    /// The number of requests that were sent before it.
    pub(crate) number: usize,
    pub(crate) tool: String,
    pub(crate) service: Service,
    /// When its attempt began.
    pub(crate) began_us: u64,
    /// The meaning of the request, and its written form.
    pub(crate) meaning: String,
    pub(crate) text: String,
    pub(crate) note: String,
    /// The approval that the attempt runs with.
    pub(crate) question: Option<QuestionNumber>,
    /// The attempt whose handler asked for it.
    pub(crate) parent: Option<AttemptRun>,
    /// The service takes each effect id once.
    pub(crate) has_key: bool,
    pub(crate) is_repeatable: bool,
    pub(crate) demands_consent: bool,
    /// The service answers that it has accepted it.
    pub(crate) is_accepted: bool,
    pub(crate) fate: RequestFate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFate {
    InFlight,
    Landed {
        at_us: u64,
    },
    /// It never takes effect.
    Lost,
    /// The service knew its key: the effect had happened.
    Absorbed,
}

#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) requests: Vec<OutsideRequest>,
    taken: BTreeSet<(EffectId, Service)>,
}

impl Outside {
    /// A request leaves its handler. `None` for a call that changes nothing.
    pub(crate) fn send(
        &mut self,
        conversation: usize,
        process: (usize, u32),
        attempt: &Attempt,
        parent: Option<AttemptRun>,
        (meaning, began_us): (String, u64),
    ) -> Option<usize> {
        let run = attempt.run.as_ref().filter(|_| attempt.may_change())?;
        let tool = &attempt.tool;
        self.requests.push(OutsideRequest {
            effect_id: run.effect_id.clone(),
            attempt: run.attempt,
            conversation,
            process,
            lease_end_unix_ms: run.lease_end_unix_ms,
            number: self.requests.len(),
            tool: tool.id.as_str().to_owned(),
            service: Service::of(tool),
            began_us,
            meaning,
            text: attempt.text("text"),
            note: attempt.text("note"),
            question: run.question,
            parent,
            has_key: tool.idempotent,
            is_repeatable: tool.repeatable,
            demands_consent: tool.requires_confirmation,
            is_accepted: false,
            fate: RequestFate::InFlight,
        });
        Some(self.requests.len() - 1)
    }

    /// A request arrives. Returns whether it took effect by itself.
    pub(crate) fn land(&mut self, request: usize, at_us: u64) -> bool {
        let request = &mut self.requests[request];
        if request.fate != RequestFate::InFlight {
            return false;
        }
        let at = (request.effect_id.clone(), request.service);
        let is_first = self.taken.insert(at);
        request.fate = match request.has_key && !is_first {
            true => RequestFate::Absorbed,
            false => RequestFate::Landed { at_us },
        };
        request.fate != RequestFate::Absorbed
    }

    /// Whether an effect has happened by now.
    pub(crate) fn has_happened(&self, effect_id: &EffectId) -> bool {
        let anywhere = [Service::Usual, Service::Beside];
        let mut at = anywhere
            .map(|service| (effect_id.clone(), service))
            .into_iter();
        at.any(|at| self.has_happened_at(&at))
    }

    /// The same at one service.
    pub(crate) fn has_happened_at(&self, at: &(EffectId, Service)) -> bool {
        self.taken.contains(at)
    }

    /// Requests that took effect, in the order in which they were sent.
    pub(crate) fn landed(&self) -> impl Iterator<Item = (&OutsideRequest, u64)> {
        self.requests
            .iter()
            .filter_map(|request| match request.fate {
                RequestFate::Landed { at_us } => Some((request, at_us)),
                RequestFate::InFlight | RequestFate::Lost | RequestFate::Absorbed => None,
            })
    }

    /// Whether a service has accepted an effect; with an attempt, that attempt at it.
    pub(crate) fn is_accepted(&self, effect_id: &EffectId, attempt: Option<AttemptNumber>) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| {
            request.is_accepted
                && request.effect_id == *effect_id
                && attempt.is_none_or(|attempt| request.attempt == attempt)
        })
    }

    pub(crate) fn is_in_flight(&self, effect_id: &EffectId) -> bool {
        let mut requests = self.requests.iter();
        requests
            .any(|request| request.effect_id == *effect_id && request.fate == RequestFate::InFlight)
    }

    pub(crate) fn has_in_flight_of(&self, process: usize, life: u32) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| {
            request.process == (process, life) && request.fate == RequestFate::InFlight
        })
    }
}

//! Effects: one request at most for each, one for each wish, none without a reservation, and a ledger that tells the truth.

use crate::lane::Stage;
use crate::outside::{Standing, Wish};
use crate::rules::Rule;
use crate::world::World;
use windlass_session::io::{AdmittedCall, OutcomeRecord};
use windlass_store::{EffectState, Store};
use windlass_tool::id::{CallRef, EffectId};

impl World {
    /// What may have happened is asked for again only with the user's word, given after a warning.
    pub(crate) fn at_most_one_outside_request_per_effect(
        &mut self,
        index: usize,
        call: CallRef,
        effect_id: &EffectId,
    ) {
        if self.outside.known(effect_id).standing == Standing::NotDone {
            return;
        }
        let grant = self.lanes[index]
            .call(call.call)
            .reservation
            .as_ref()
            .and_then(|reservation| reservation.grant);
        let requested_us = self.requested_us.get(effect_id).copied().unwrap_or(0);
        let was_warned = grant
            .and_then(|grant| self.questions.get(&grant))
            .is_some_and(|question| question.is_warned && question.asked_us >= requested_us);
        if !was_warned {
            self.broken(
                Rule::AtMostOneOutsideRequestPerEffect,
                format!("{effect_id} is requested again for {}", call.call),
            );
        }
    }

    /// A change starts only when its reservation is durable.
    pub(crate) fn a_durable_reservation_before_a_start(
        &mut self,
        index: usize,
        call: &AdmittedCall,
    ) {
        let rule = Rule::ADurableReservationBeforeAStart;
        let number = call.call().call;
        if !call.tool().writes() && !call.tool().requires_confirmation {
            return;
        }
        let reservation = self.lanes[index].call(number).reservation.clone();
        let Some(reservation) = reservation else {
            return self.broken(rule, format!("{number} was never reserved"));
        };
        if call.effect_id() != Some(&reservation.effect_id) {
            let what = format!("{number} runs as {:?}", call.effect_id());
            return self.broken(rule, what);
        }
        let store: &dyn Store = &self.store;
        let effect = store
            .ask(|transaction| transaction.effect(&reservation.effect_id))
            .ok()
            .flatten();
        let is_reserved = effect.is_some_and(|effect| {
            effect.state == EffectState::Reserved && effect.fingerprint == reservation.fingerprint
        });
        if !is_reserved {
            let what = format!("{} is not reserved in the ledger", reservation.effect_id);
            self.broken(rule, what);
        }
    }

    /// A wish is carried out once: as another effect only where the user has said something since, and where the earlier
    /// one is known to have ended.
    pub(crate) fn one_effect_per_wish(&mut self, index: usize, call: &AdmittedCall) {
        let number = call.call().call;
        if !call.tool().writes() || call.call().attempt > 1 {
            return;
        }
        let facts = self.lanes[index].call(number).clone();
        let Some(reservation) = facts.reservation else {
            return;
        };
        let key = (self.lanes[index].home, reservation.fingerprint);
        let wish = Wish {
            effect_id: reservation.effect_id.clone(),
            asked_at_input: facts.asked_at_input,
        };
        let Some(earlier) = self.outside.wishes.insert(key, wish) else {
            return;
        };
        let inputs = self.lanes[index].inputs;
        let may_be_done = self.outside.known(&earlier.effect_id).standing == Standing::MayBeDone
            || self
                .lanes
                .iter()
                .any(|lane| lane.is_in_flight(&earlier.effect_id));
        if earlier.effect_id == reservation.effect_id || !may_be_done || reservation.grant.is_some()
        {
            return;
        }
        let stage = self.lanes[index].watch.stages.get(&earlier.effect_id);
        let is_open = matches!(stage, Some(Stage::Started | Stage::Requested));
        if inputs == earlier.asked_at_input || is_open {
            let what = format!(
                "{number} begins {} where {} may have been done",
                reservation.effect_id, earlier.effect_id
            );
            self.broken(Rule::OneEffectPerWish, what);
        }
    }

    /// What the ledger calls done is done, and what it calls failed is not.
    pub(crate) fn the_ledger_tells_the_truth(&mut self, record: &OutcomeRecord) {
        if !self.outside.agrees(&record.effect_id, record.state) && self.is_outside(record) {
            let what = format!("{} is recorded as {:?}", record.effect_id, record.state);
            self.broken(Rule::TheLedgerTellsTheTruth, what);
        }
    }

    /// Calls that only need consent have an entry in the ledger, too, and nothing outside.
    fn is_outside(&self, record: &OutcomeRecord) -> bool {
        self.lanes.iter().any(|lane| {
            lane.running
                .values()
                .any(|run| run.writes && run.effect_id.as_ref() == Some(&record.effect_id))
        }) || self.outside.known(&record.effect_id).requests > 0
    }

    /// Every change that started has an outcome in the ledger, or is there as one that nobody knows.
    pub(crate) fn one_end_per_start(&mut self, index: usize) {
        if self.is_broken() {
            return;
        }
        let conversation = self.lanes[index].conversation.clone();
        let store: &dyn Store = &self.store;
        let effects = store
            .ask(|transaction| transaction.effects_of(&conversation, 0))
            .unwrap_or_default();
        let lost = self
            .outside
            .iter()
            .filter(|(_, known)| known.requests > 0)
            .find(|(id, _)| {
                let is_here = self.outside.wishes.iter().any(|((home, _), wish)| {
                    *home == self.lanes[index].home && wish.effect_id == **id
                });
                is_here && !effects.iter().any(|effect| effect.effect_id == **id)
            })
            .map(|(id, _)| id.clone());
        if let Some(id) = lost {
            self.broken(Rule::OneEndPerStart, format!("{id} is not in the ledger"));
        }
        let lane = &self.lanes[index];
        if lane.session.is_none() {
            return;
        }
        let unended = effects.iter().find(|effect| {
            effect.state == EffectState::Reserved
                && matches!(
                    lane.watch.stages.get(&effect.effect_id),
                    Some(Stage::Started | Stage::Requested)
                )
        });
        if let Some(effect) = unended {
            let what = format!("{} was started and has no outcome", effect.effect_id);
            self.broken(Rule::OneEndPerStart, what);
        }
    }
}

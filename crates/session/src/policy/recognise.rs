//! What a delivery, or the wish behind it, has come to before: rules D1 to D6 at the gates. Knows no store; the ledger's
//! part of the rules is told to it.

use super::confirm;
use super::idempotency::{Delivery, DeliveryState, Effect, EffectState, Settled};
use crate::calls::{Call, Earlier};
use crate::event::DuplicateRule;
use crate::facts::{Delivered, Slot};
use crate::io::Output;
use crate::session::Session;
use std::sync::Arc;
use windlass_tool::arguments::Arguments;
use windlass_tool::kind::Mode;

impl Session {
    /// Notes that a call waits or runs.
    pub(crate) fn remember_open(&mut self, call: &Call) {
        let state = DeliveryState::Open(call.number());
        self.deliveries.remember(call.slot(), state);
        if let Some(fingerprint) = call.fingerprint {
            let effect = Effect {
                effect_id: call.kept_effect.clone(),
                wish: self.turns.wish(),
                state: EffectState::Open(call.number()),
            };
            self.deliveries.remember_effect(fingerprint, effect);
        }
    }

    /// A call that did not run: what was known of its effect before holds again, unless something else is known by now, or the
    /// call had come no further than to wait for what was.
    pub(crate) fn restore_effect(&mut self, call: &Call) {
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        if known.is_none_or(|effect| effect.is_open_as(call.number())) {
            self.put_effect_back(call);
        }
    }

    /// The same of a call that the user was asked about.
    pub(crate) fn restore_asked_effect(&mut self, call: &Call) {
        let known = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        let is_asked = |effect: &mut Effect| matches!(effect.state, EffectState::Asked(_));
        if known.is_none_or(|effect| effect.is_open_as(call.number()) || is_asked(effect)) {
            self.put_effect_back(call);
        }
    }

    fn put_effect_back(&mut self, call: &Call) {
        let Some(fingerprint) = call.fingerprint else {
            return;
        };
        let before = match (&call.earlier, &call.kept_effect) {
            (Some(earlier), _) => Effect {
                effect_id: earlier.effect_id.clone(),
                wish: earlier.wish,
                state: EffectState::Settled {
                    settled: earlier.settled.clone(),
                    answer_reached_model: true,
                },
            },
            (None, Some(effect_id)) => Effect {
                effect_id: Some(effect_id.clone()),
                wish: self.turns.wish(),
                state: EffectState::Failed,
            },
            (None, None) => match &call.before {
                Some(before) => (**before).clone(),
                None => return self.deliveries.forget_effect(&fingerprint),
            },
        };
        self.deliveries.remember_effect(fingerprint, before);
    }

    /// Rules D1 and D2. Gives the delivery back where it is not dealt with.
    pub(crate) fn recognise_delivery(
        &mut self,
        delivered: Delivered,
        arguments: &Arguments,
        out: &mut Vec<Output>,
    ) -> Option<Delivered> {
        if let Some(id) = delivered.provider_id() {
            self.connection.closed_ids.reopen(id, &delivered.key);
        }
        let Some(delivery) = self.deliveries.find(&delivered.key) else {
            return Some(delivered);
        };
        // By text each turn is an exchange of its own, and some servers begin their ids anew in each.
        if self.config.mode == Mode::Text && delivery.slot.turn != delivered.turn {
            return Some(delivered);
        }
        let same_connection = delivery.slot.generation == delivered.generation;
        let tool = self.config.registry.get(&delivered.name).map(Arc::as_ref);
        let top_k_max = self.config.limits.turn.top_k_max;
        if !delivery.is_repeated_by(&delivered.name, tool, arguments, top_k_max) {
            if !same_connection {
                return Some(delivered);
            }
            self.record_conflict(Slot::unreadable(delivered), out);
            return None;
        }
        // The provider gave this id its place on this connection already: a second answer under it would be one too many.
        // An id that names no delivery of its own may be new although the call is not.
        let is_stable = delivered.key.is_stable();
        let has_place = same_connection && is_stable;
        let Delivery { slot, state } = delivery.clone();
        match state {
            DeliveryState::Open(number) => {
                let slot = slot.again(delivered);
                if has_place {
                    self.deduplicated(&slot, DuplicateRule::SameDelivery, out);
                    self.release(&slot, None, true, out);
                } else {
                    self.attach(number, slot, DuplicateRule::SameDelivery, out);
                }
                None
            }
            DeliveryState::Settled(settled) if settled.is_outcome || has_place => {
                let slot = slot.again(delivered);
                let owed = !is_stable || settled.answered_on != Some(slot.generation);
                self.replay(&slot, &settled, owed, DuplicateRule::SameDelivery, out);
                None
            }
            DeliveryState::Settled(_) => Some(delivered),
        }
    }

    /// Rules D3 to D6. Gives the call back where it goes on as a wish of its own.
    pub(crate) fn recognise_effect(
        &mut self,
        mut call: Box<Call>,
        out: &mut Vec<Output>,
    ) -> Option<Box<Call>> {
        let wish = self.turns.wish();
        let forgets = has_bug!(self, ForgetsWishes);
        let effect = call
            .fingerprint
            .and_then(|fingerprint| self.deliveries.effect(&fingerprint));
        let Some(effect) = effect.filter(|_| !forgets) else {
            return Some(call);
        };
        let asked_with = effect.wish;
        let effect_id = effect.effect_id.clone();
        if !call.tool().writes() {
            call.before = Some(Box::new(effect.clone()));
        }
        match &mut effect.state {
            EffectState::Open(number) => {
                let number = *number;
                self.attach(number, call.slot(), DuplicateRule::SameEffectRunning, out);
                None
            }
            EffectState::Asked(settled) => {
                let settled = settled.clone();
                if self.is_to_be_put_again(&mut call, &settled) {
                    call.kept_effect = effect_id;
                    return Some(call);
                }
                self.replay(
                    &call.slot(),
                    &settled,
                    true,
                    DuplicateRule::SameEffectAsked,
                    out,
                );
                None
            }
            EffectState::Failed => {
                call.kept_effect = effect_id;
                Some(call)
            }
            EffectState::Declined { settled, earlier } => {
                let (settled, earlier) = (settled.clone(), earlier.clone());
                match wish.is_second_after(asked_with) {
                    true => self.recognise_declined(call, earlier, out),
                    false => {
                        self.replay_known(&call, &settled, out);
                        None
                    }
                }
            }
            EffectState::Settled {
                settled,
                answer_reached_model,
            } => {
                let earlier = Earlier {
                    settled: settled.clone(),
                    effect_id,
                    wish: asked_with,
                    is_second_wish: wish.is_second_after(asked_with),
                    ran_at_lookup: false,
                };
                let was_answered = *answer_reached_model;
                self.recognise_settled(call, earlier, was_answered, out)
            }
        }
    }

    /// The user has spoken since they said no.
    fn recognise_declined(
        &mut self,
        mut call: Box<Call>,
        earlier: Option<Box<Earlier>>,
        out: &mut Vec<Output>,
    ) -> Option<Box<Call>> {
        match earlier {
            Some(mut unknown) if unknown.is_unknown() => {
                unknown.is_second_wish = true;
                self.recognise_settled(call, *unknown, true, out)
            }
            earlier => {
                call.earlier = earlier;
                Some(call)
            }
        }
    }

    /// Whether a question that waits is put once more, in place of the one before: by text each turn is a message of its own,
    /// and a client may have no other than the last.
    fn is_to_be_put_again(&self, call: &mut Call, asked: &Settled) -> bool {
        let waiting = call
            .fingerprint
            .and_then(|fingerprint| self.confirmations.call_like(&fingerprint));
        let Some(waiting) = waiting else {
            return false;
        };
        if self.config.mode != Mode::Text || asked.turn == call.turn() {
            return false;
        }
        let earlier = waiting.earlier.clone();
        let external = self.external_in_context;
        let is_asked_for = confirm::demand(call.tool(), external, earlier.as_deref()).is_some();
        if is_asked_for {
            call.earlier = earlier;
        }
        is_asked_for
    }

    /// Rules D4 to D6: what becomes of a wish that came to an end before.
    fn recognise_settled(
        &mut self,
        mut call: Box<Call>,
        earlier: Earlier,
        was_answered: bool,
        out: &mut Vec<Output>,
    ) -> Option<Box<Call>> {
        let effect_id = earlier.effect_id.clone();
        if let (true, Some(effect_id)) = (earlier.is_unknown(), effect_id.clone()) {
            call.earlier = Some(Box::new(earlier));
            call.kept_effect = Some(effect_id.clone());
            self.look_up_effect(call, effect_id, out);
            return None;
        }
        let error_type = earlier.settled.response.error_type();
        let is_new = earlier.is_second_wish && was_answered;
        if is_new || !call.tool().writes() {
            if error_type.is_none() {
                call.earlier = call.tool().writes().then(|| Box::new(earlier));
            } else {
                call.kept_effect = effect_id;
            }
            return Some(call);
        }
        if let Some(effect_id) = effect_id.filter(|_| !was_answered) {
            self.tell_in_this_turn(effect_id);
        }
        self.replay_known(&call, &earlier.settled, out);
        None
    }

    /// The model has what came of its wish before, and needs no notice of it.
    fn replay_known(&mut self, call: &Call, settled: &Settled, out: &mut Vec<Output>) {
        let rule = DuplicateRule::SameEffectFinished;
        self.replay(&call.slot(), settled, true, rule, out);
        self.forget_notice(call.fingerprint);
    }
}

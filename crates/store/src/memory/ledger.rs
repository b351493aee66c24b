//! The ledger in a map.

use super::Tables;
use crate::ledger::{Found, decide, may_follow};
use crate::{
    ABANDONED_MAX, Effect, EffectState, GrantState, Ledger, Outcome, Recorded, Reserve, Reserved,
    SETTLED_MAX, StoreUnavailable, TIME_MAX_UNIX_MS,
};
use windlass_tool::id::{ConversationId, EffectId};

impl Ledger for Tables {
    fn reserve(&mut self, request: &Reserve) -> Result<Reserved, StoreUnavailable> {
        let of_conversation = || {
            self.effects
                .values()
                .filter(|effect| effect.conversation_id == request.conversation_id)
        };
        let found = Found {
            grant: request
                .grant
                .and_then(|token_hash| self.grants.get(&token_hash))
                .cloned(),
            same_effect: self.effects.get(&request.effect_id).cloned(),
            open_wish: of_conversation()
                .find(|effect| {
                    effect.fingerprint == request.fingerprint
                        && effect.effect_id != request.effect_id
                        && effect.state.is_open()
                })
                .cloned(),
            effects: of_conversation().count(),
            is_read: request.read_by_none_but.as_ref().is_some_and(|session| {
                let reading = self.reading(&request.conversation_id, request.now_unix_ms);
                reading.is_some_and(|reading| reading.reader.as_ref() != Some(session))
            }),
        };
        let outdates_questions = request.outdates_questions(found.same_effect.as_ref());
        let verdict = decide(request, found, self.limits.effects_max);
        if verdict.may_start() {
            if outdates_questions {
                self.grants.retain(|_, grant| !request.outdates(grant));
            }
            if let Some(grant) = request
                .grant
                .and_then(|token_hash| self.grants.get_mut(&token_hash))
            {
                grant.state = GrantState::Consumed;
            }
            self.effects
                .insert(request.effect_id.clone(), Effect::begun(request));
        }
        Ok(verdict)
    }

    fn record(&mut self, outcome: &Outcome) -> Result<Recorded, StoreUnavailable> {
        let response_bytes_max = self.limits.response_bytes_max;
        let Some(effect) = self.effects.get_mut(&outcome.effect_id) else {
            return Ok(Recorded::Missing);
        };
        if !may_follow(effect.state) {
            return Ok(Recorded::Kept(Box::new(effect.clone())));
        }
        // Whoever was told that it is unknown has not been told how it ended.
        effect.is_answered &= effect.state == outcome.state.into();
        effect.state = outcome.state.into();
        effect.response = outcome.kept_response(response_bytes_max).cloned();
        effect.changed_at_unix_ms = outcome.now_unix_ms.min(TIME_MAX_UNIX_MS);
        Ok(Recorded::Stored)
    }

    fn mark_answered(&mut self, effect_id: &EffectId) -> Result<bool, StoreUnavailable> {
        let effect = self.effects.get_mut(effect_id);
        Ok(effect.map(|effect| effect.is_answered = true).is_some())
    }

    fn effect(&mut self, effect_id: &EffectId) -> Result<Option<Effect>, StoreUnavailable> {
        Ok(self.effects.get(effect_id).cloned())
    }

    fn effects_of(
        &mut self,
        conversation_id: &ConversationId,
        since_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        let mut effects: Vec<Effect> = self
            .effects
            .values()
            .filter(|effect| {
                effect.conversation_id == *conversation_id
                    && effect.changed_at_unix_ms >= since_unix_ms
            })
            .cloned()
            .collect();
        effects.sort_by_key(|effect| effect.reserved_at_unix_ms);
        Ok(effects)
    }

    fn settled(&mut self, behind: Option<&Effect>) -> Result<Vec<Effect>, StoreUnavailable> {
        let place = |effect: &Effect| (effect.reserved_at_unix_ms, effect.effect_id.clone());
        let mut effects: Vec<Effect> = self
            .effects
            .values()
            .filter(|effect| effect.state != EffectState::Reserved)
            .filter(|effect| behind.is_none_or(|behind| place(effect) < place(behind)))
            .map(|effect| Effect {
                response: None,
                ..effect.clone()
            })
            .collect();
        effects.sort_by_key(|effect| std::cmp::Reverse(place(effect)));
        effects.truncate(SETTLED_MAX);
        Ok(effects)
    }

    fn abandon(
        &mut self,
        reserved_before_unix_ms: u64,
        now_unix_ms: u64,
    ) -> Result<Vec<Effect>, StoreUnavailable> {
        let abandoned = self.effects.values_mut().filter(|effect| {
            effect.state == EffectState::Reserved
                && effect.reserved_at_unix_ms < reserved_before_unix_ms
        });
        Ok(abandoned
            .take(ABANDONED_MAX)
            .map(|effect| {
                effect.state = EffectState::Unknown;
                effect.changed_at_unix_ms = now_unix_ms.min(TIME_MAX_UNIX_MS);
                effect.clone()
            })
            .collect())
    }
}

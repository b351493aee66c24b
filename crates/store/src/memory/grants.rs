//! Grants in a map.

use super::Tables;
use crate::{
    Decline, Declined, EffectState, Grant, GrantRefusal, GrantState, Grants, Hash, Proposal,
    Proposed, Renewal, StoreUnavailable, TIME_MAX_UNIX_MS,
};
use windlass_tool::id::ConversationId;

impl Grants for Tables {
    fn propose(&mut self, proposal: &Proposal) -> Result<Proposed, StoreUnavailable> {
        if proposal.is_too_long(&self.limits) {
            return Ok(Proposed::TooLong);
        }
        if self.grants.contains_key(&proposal.token_hash) {
            return Ok(Proposed::TokenTaken);
        }
        let open = self.open_grants(&proposal.conversation_id, proposal.now_unix_ms)?;
        if open.len() >= self.limits.grants_max {
            return Ok(Proposed::TooMany);
        }
        let mut effect_id = proposal.effect_id.clone();
        if !proposal.says_unknown {
            let mut effects = self.effects.values();
            let begun = effects.find(|effect| {
                effect.conversation_id == proposal.conversation_id
                    && effect.fingerprint == proposal.fingerprint
                    && effect.state.is_open()
            });
            if let Some(begun) = begun {
                return Ok(Proposed::Begun(Box::new(begun.clone())));
            }
            let is_done = |grant: &Grant| {
                let effect = self.effects.get(&grant.effect_id);
                effect.is_some_and(|effect| effect.state != EffectState::Failed)
            };
            let asked = open
                .into_iter()
                .find(|grant| grant.fingerprint == proposal.fingerprint && !is_done(grant));
            effect_id = asked.map_or(effect_id, |asked| asked.effect_id);
        }
        let grant = Grant::of(proposal, effect_id.clone());
        self.grants.insert(proposal.token_hash, grant);
        Ok(Proposed::Stored(effect_id))
    }

    fn grant(&mut self, token_hash: &Hash) -> Result<Option<Grant>, StoreUnavailable> {
        Ok(self.grants.get(token_hash).cloned())
    }

    fn open_grants(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Vec<Grant>, StoreUnavailable> {
        let mut open = self.grants_of(conversation_id, now_unix_ms)?;
        open.retain(|grant| grant.is_open(now_unix_ms));
        Ok(open)
    }

    fn grants_of(
        &mut self,
        conversation_id: &ConversationId,
        now_unix_ms: u64,
    ) -> Result<Vec<Grant>, StoreUnavailable> {
        let mut grants: Vec<Grant> = self
            .grants
            .values()
            .filter(|grant| grant.conversation_id == *conversation_id)
            .filter(|grant| now_unix_ms < grant.expires_at_unix_ms)
            .cloned()
            .collect();
        grants.sort_by_key(|grant| (grant.expires_at_unix_ms, grant.token_hash));
        Ok(grants)
    }

    fn decline(&mut self, answer: &Decline) -> Result<Declined, StoreUnavailable> {
        let Some(grant) = self.grants.get(&answer.token_hash) else {
            return Ok(Declined::Refused(GrantRefusal::Unknown));
        };
        let effect = self.effects.get(&grant.effect_id);
        if let Err(refusal) = grant.may_be_declined(answer, effect) {
            return Ok(Declined::Refused(refusal));
        }
        let mut grant = grant.clone();
        grant.state = GrantState::Declined;
        self.grants.insert(grant.token_hash, grant.clone());
        Ok(Declined::Declined(Box::new(grant)))
    }

    fn renew(&mut self, renewal: &Renewal) -> Result<Option<Grant>, StoreUnavailable> {
        let found = self.grants.get(&renewal.token_hash);
        let Some(grant) = found.filter(|grant| grant.is_open(renewal.now_unix_ms)) else {
            return Ok(None);
        };
        if self.grants.contains_key(&renewal.new_token_hash) {
            return Ok(None);
        }
        let renewed = Grant {
            token_hash: renewal.new_token_hash,
            expires_at_unix_ms: renewal.expires_at_unix_ms.min(TIME_MAX_UNIX_MS),
            ..grant.clone()
        };
        self.grants.remove(&renewal.token_hash);
        self.grants.insert(renewed.token_hash, renewed.clone());
        Ok(Some(renewed))
    }

    fn revoke(&mut self, token_hash: &Hash) -> Result<bool, StoreUnavailable> {
        let is_open = self
            .grants
            .get(token_hash)
            .is_some_and(|grant| grant.state == GrantState::Open);
        if is_open {
            self.grants.remove(token_hash);
        }
        Ok(is_open)
    }
}

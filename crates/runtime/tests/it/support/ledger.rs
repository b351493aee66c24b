//! What tests give the ledger by hand: one conversation with one leg, whose requests each mean an effect of their own.

use std::sync::Arc;
use windlass_contract::id::{
    ClientId, ConversationId, EffectId, SessionId, TenantId, ToolId, UserId,
};
use windlass_contract::kind::Mode;
use windlass_contract::sensitive::Sensitive;
use windlass_store::command::{Command, NewLeg, Record, Reply, Request, RequestOrigin, ToolFacts};
use windlass_store::{
    AttemptNumber, AttemptOutcome, Batch, Beginner, ConversationRef, EffectState, Epoch, LegRef,
    Nonce, Store,
};

/// How long an attempt may hold its lease.
pub(crate) const LEASE_MS: u64 = 15_000;

pub(crate) fn conversation(id: &str) -> ConversationRef {
    ConversationRef {
        tenant: TenantId::default(),
        conversation_id: ConversationId::new(id),
        user_id: UserId::new("ada"),
    }
}

pub(crate) fn leg() -> LegRef {
    LegRef {
        leg: SessionId::new("s"),
        epoch: Epoch(1),
    }
}

pub(crate) fn batch(conversation_id: &str, command: Command) -> Batch {
    Batch {
        conversation: conversation(conversation_id),
        commands: vec![command],
    }
}

pub(crate) fn attach(conversation_id: &str) -> Batch {
    Batch {
        conversation: conversation(conversation_id),
        commands: vec![
            Command::Open(Beginner::default()),
            Command::Attach(Box::new(NewLeg {
                leg: leg().leg,
                mode: Mode::Voice,
                client_id: ClientId::new("client"),
                resume_token: [1; 32],
                expires_in_ms: 3_600_000,
            })),
        ],
    }
}

/// Asks for an effect, which begins it where nothing of the kind has happened.
pub(crate) fn request(effect: &str) -> Command {
    let mut nonce = [0; 16];
    for (place, byte) in effect.bytes().enumerate() {
        nonce[place % 16] ^= byte;
    }
    let arguments = format!("{{\"what\":\"{effect}\"}}");
    Command::Request(Box::new(Request {
        nonce: Nonce(nonce),
        effect_id: EffectId::new(effect),
        leg: leg(),
        call: 1,
        tool: ToolFacts {
            id: ToolId::parse("pay").unwrap(),
            version: "1.0.0".to_owned(),
            handler_hash: None,
            writes: true,
            is_background: false,
            is_external: false,
            idempotent: false,
            repeatable: false,
            has_lookup: false,
            key_spec: Arc::default(),
        },
        arguments: Sensitive(arguments.clone()),
        effect_arguments: Sensitive(arguments.clone()),
        near_arguments: Sensitive(arguments),
        origin: RequestOrigin::Model {
            delivery: effect.to_owned(),
            generation: 1,
        },
        onset: None,
        may_run: true,
        needs_consent: false,
        because: None,
        clock: None,
        standing_values: None,
        ignores_external_content: false,
        can_ask: true,
        input: None,
        mode: Mode::Voice,
        preview: Sensitive(String::new()),
        lease_ms: LEASE_MS,
        question_ms: 60_000,
        intent: Sensitive("{\"turn\":1}".to_owned()),
    }))
}

pub(crate) fn record(effect: &str, attempt: u32, outcome: AttemptOutcome) -> Command {
    Command::Record(Box::new(Record {
        next_attempt_ms: None,
        effect_id: EffectId::new(effect),
        attempt: AttemptNumber(attempt),
        outcome,
        receipt: None,
        asks: None,
        values: None,
    }))
}

pub(crate) fn state(store: &dyn Store, effect: &str) -> Option<EffectState> {
    let found = store.effect(&TenantId::default(), &EffectId::new(effect));
    found.unwrap().map(|(_, effect)| effect.state)
}

/// Commits at once what must work.
pub(crate) fn commit(store: &Arc<dyn Store>, batch: Batch) -> Vec<Reply> {
    store.commit(&[batch]).unwrap().pop().unwrap()
}

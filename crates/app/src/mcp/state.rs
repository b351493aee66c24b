//! The state that a client gets to send back with the answer to a request for an approval. The client holds it in between, so it is signed
//! for one caller, one call and one request, and valid until that request expires. The ledger knows whether it was used before.

use serde_json::{Value, json};
use std::sync::Arc;
use windlass_contract::arguments::Arguments;
use windlass_contract::id::ConversationId;
use windlass_contract::json::{canonical, hex};
use windlass_runtime::caller::Caller;
use windlass_runtime::client_key::{ClientKey, Purpose};
use windlass_runtime::ids;
use windlass_store::QuestionNumber;

/// Bytes of one; longer ones are not looked at.
const BYTES_MAX: usize = 1_024;

/// Signs and reads them.
#[derive(Clone)]
pub(crate) struct States(pub(crate) Arc<ClientKey>);

/// The request that a state is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AskedBefore {
    pub(crate) conversation: ConversationId,
    pub(crate) question: QuestionNumber,
    pub(crate) expires_at_unix_ms: u64,
}

/// Why a state does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("this requestState was not made here, or not for this caller and this call")]
    Foreign,
    #[error("the time of this requestState is over; send the call without it")]
    Expired,
}

/// The call that a state is for.
pub(crate) fn digest(tool: &str, arguments: &Arguments) -> String {
    let called = json!(["tools/call", tool, arguments.to_value()]);
    hex(&ids::digest(&canonical(&called)))
}

impl States {
    pub(crate) fn sign(&self, caller: &Caller, call: &str, asked: &AskedBefore) -> String {
        let AskedBefore {
            conversation,
            question,
            expires_at_unix_ms,
        } = asked;
        let shown = format!("{conversation}.{}.{expires_at_unix_ms}", question.0);
        let signature = self
            .0
            .sign(Purpose::RemoteQuestion, &signed(caller, call, &shown));
        format!("{shown}.{signature}")
    }

    pub(crate) fn read(
        &self,
        text: &str,
        caller: &Caller,
        call: &str,
        now_unix_ms: u64,
    ) -> Result<AskedBefore, Refused> {
        let shown = (text.len() <= BYTES_MAX).then(|| text.rsplit_once('.'));
        let (shown, signature) = shown.flatten().ok_or(Refused::Foreign)?;
        let is_ours = self.0.has_signed(
            Purpose::RemoteQuestion,
            &signed(caller, call, shown),
            signature,
        );
        let mut parts = shown.splitn(3, '.');
        let asked = parts.next().zip(parts.next()).zip(parts.next());
        let ((conversation, question), expires) =
            asked.filter(|_| is_ours).ok_or(Refused::Foreign)?;
        let question = question.parse().map_err(|_| Refused::Foreign)?;
        let asked = AskedBefore {
            conversation: ConversationId::new(conversation),
            question: QuestionNumber(question),
            expires_at_unix_ms: expires.parse().map_err(|_| Refused::Foreign)?,
        };
        match now_unix_ms < asked.expires_at_unix_ms {
            true => Ok(asked),
            false => Err(Refused::Expired),
        }
    }
}

fn signed(caller: &Caller, call: &str, shown: &str) -> String {
    let parts: Value = json!([
        caller.tenant.as_str(),
        caller.client_id.as_str(),
        call,
        shown
    ]);
    parts.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_contract::id::ClientId;

    #[test]
    fn a_state_counts_for_its_caller_and_its_call_until_its_time() {
        let states = States(Arc::new(ClientKey::passing().unwrap()));
        let caller = |id: &str| Caller::known(ClientId::new(id));
        let arguments = |text: &str| -> Arguments {
            let object: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap();
            object.into()
        };
        let call = digest("pay", &arguments(r#"{"b":1,"a":2}"#));
        let asked = AskedBefore {
            conversation: ConversationId::new("mcp-1"),
            question: QuestionNumber(3),
            expires_at_unix_ms: 100,
        };
        let state = states.sign(&caller("ada"), &call, &asked);
        let same = digest("pay", &arguments(r#"{"a":2,"b":1}"#));
        let other = digest("pay", &arguments(r#"{"a":2,"b":2}"#));
        let (foreign, expired) = (Err(Refused::Foreign), Err(Refused::Expired));
        let later = state.replacen(".100.", ".900.", 1);
        let cut = &state[..state.len() - 1];
        let long = format!("{state}{}", "0".repeat(BYTES_MAX));
        for (text, id, call, now, expected) in [
            (&*state, "ada", &call, 99, Ok(asked.clone())),
            (&*state, "ada", &same, 99, Ok(asked.clone())),
            (&*state, "ada", &call, 100, expired),
            (&*state, "eve", &call, 99, foreign.clone()),
            (&*state, "ada", &other, 99, foreign.clone()),
            (&*later, "ada", &call, 99, foreign.clone()),
            (cut, "ada", &call, 99, foreign.clone()),
            (&*long, "ada", &call, 99, foreign.clone()),
            ("", "ada", &call, 99, foreign.clone()),
            ("a.b", "ada", &call, 99, foreign),
        ] {
            assert_eq!(
                states.read(text, &caller(id), call, now),
                expected,
                "{text} {id}"
            );
        }
    }
}

//! Bodies that name one part of a conversation: a call of it, or an approval that stands in it. Knows no part.

use crate::chat::request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use windlass_contract::id::ConversationId;

/// A part that a client names.
pub(super) struct NamedPart<I> {
    pub(super) conversation: ConversationId,
    pub(super) id: I,
    /// The user for whom a program speaks that vouches for users.
    pub(super) user: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Posted<P> {
    conversation_id: String,
    #[serde(flatten)]
    part: P,
    #[serde(default)]
    user_id: Option<String>,
}

/// Reads a body whose own field is that of `P`, out of which `id` makes the part's id.
///
/// # Errors
///
/// The problem with the body, for the client's developer; `nothing` is the problem of a body without the field.
pub(super) fn read<P: DeserializeOwned, I>(
    body: &[u8],
    nothing: &str,
    id: impl FnOnce(&P) -> Result<I, &'static str>,
) -> Result<NamedPart<I>, String> {
    let posted: Posted<P> = crate::body::object(body)
        .map_err(|problem| format!("the body names no {nothing}: {problem}"))?;
    request::check_id(&posted.conversation_id).map_err(|problem| problem.to_string())?;
    Ok(NamedPart {
        conversation: ConversationId::new(posted.conversation_id),
        id: id(&posted.part)?,
        user: posted.user_id,
    })
}

//! The message, the log line and the count when a party has as many conversations as its share. Knows no store.

use crate::web::rare_line::RareLine;
use windlass_runtime::metrics::Metrics;
use windlass_store::PartyKind;

/// When a client may come back: conversations are forgotten by the hour.
pub(crate) const RETRY_SECONDS: u64 = 3_600;

static LINE: RareLine = RareLine::new();

/// Notes that a conversation was refused. Returns the message for its client.
pub(crate) fn note(kind: PartyKind, metrics: &Metrics) -> String {
    let party = kind.as_str();
    metrics.refused("conversations", party);
    if let Some(left_out) = LINE.due() {
        tracing::warn!(
            party,
            left_out,
            "a new conversation was refused: its {party} has as many as shares.{party}.conversations_max"
        );
    }
    format!(
        "this {party} has as many conversations here as its share; go on with one of them, or come back when older ones are \
         forgotten"
    )
}

//! Says what prompt and tools take of a model's window when a session begins, in the log and in the metrics. Knows no session.

use windlass_runtime::metrics::{ContextTokens, Metrics};
use windlass_runtime::prompt::ContextEstimate;
use windlass_tool::id::SessionId;

/// `window` is that of the session's model, in tokens.
pub(crate) fn report(
    session: &SessionId,
    estimate: &ContextEstimate,
    window: u64,
    metrics: &Metrics,
) {
    tracing::info!(
        %session,
        session_init_tokens = estimate.session_init_tokens,
        system_prompt_tokens = estimate.system_prompt_tokens,
        tool_decl_tokens = estimate.tool_decl_tokens,
        "tokens that prompt and tools take, estimated"
    );
    if estimate.crowds(window) {
        tracing::warn!(%session, window, "prompt and tools take over 90 % of the model's window");
    }
    metrics.context(ContextTokens {
        session_init_tokens: estimate.session_init_tokens,
        system_prompt_tokens: estimate.system_prompt_tokens,
        tool_decl_tokens: estimate.tool_decl_tokens,
    });
}

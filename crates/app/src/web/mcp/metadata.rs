//! The metadata by which clients find out where a token for `/mcp` is made (RFC 9728), from the configuration.

use super::super::{ServerState, typed};
use super::{not_served, page_origin};
use axum::body::Body;
use axum::extract::{Request, State as Extract};
use http::Response;
use serde_json::json;
use std::sync::Arc;

/// The path: that of the described resource stands behind the usual one.
pub(super) const PATH: &str = "/.well-known/oauth-protected-resource/mcp";

/// The description of `/mcp` for servers that make tokens.
pub(in crate::web) async fn resource(
    Extract(state): Extract<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let oidc = state.access.oidc.as_ref().filter(|_| state.serves_mcp);
    let Some(oidc) = oidc else {
        return not_served();
    };
    let host = &state.mcp;
    let (head, _) = request.into_parts();
    let here = || format!("{}/mcp", page_origin(host, &head));
    let described = json!({
        "resource": host.resource.clone().unwrap_or_else(here),
        "authorization_servers": [oidc.issuer()],
        "bearer_methods_supported": ["header"],
        "resource_name": "Windlass",
    });
    typed("application/json", described.to_string())
}

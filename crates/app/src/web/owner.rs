//! Requests of users about their own conversations, tasks and connections. Knows the caller and that there is a query; no route.

use super::ServerState;
use super::chat::{Entrance, error};
use axum::body::Body;
use axum::extract::{FromRequest, Query, Request};
use http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use windlass_runtime::caller::Caller;
use windlass_session::client::ErrorCode;

/// The query of such a request.
pub(super) trait OwnersQuery: DeserializeOwned + Send {
    /// The problem of a query that cannot be read.
    const PROBLEM: &str;

    /// The user for whom a program speaks that vouches for users.
    fn user_id(&self) -> Option<&str>;
}

/// A request, its caller and its query.
pub(super) struct OwnersRequest<Q> {
    pub(super) entrance: Entrance,
    pub(super) caller: Caller,
    pub(super) asked: Q,
}

impl<Q: OwnersQuery> FromRequest<Arc<ServerState>> for OwnersRequest<Q> {
    type Rejection = Response<Body>;

    async fn from_request(
        request: Request,
        state: &Arc<ServerState>,
    ) -> Result<Self, Self::Rejection> {
        let asked = Query::<Q>::try_from_uri(request.uri());
        let entrance = Entrance::from_request(request, state).await?;
        match asked {
            Ok(Query(asked)) => Ok(Self {
                caller: entrance.caller.speaking_for(asked.user_id()),
                entrance,
                asked,
            }),
            Err(_) => Err(entrance.finish(bad(Q::PROBLEM))),
        }
    }
}

/// Refuses a request that makes no sense.
pub(super) fn bad(problem: &str) -> Response<Body> {
    let code = ErrorCode::BadMessage.as_str();
    error(StatusCode::BAD_REQUEST, code, problem)
}

//! `GET /api/openapi.json`: the description of this server's own HTTP interface, a file of the repository. Tests hold it to the
//! routes.

use super::typed;
use axum::body::Body;
use http::Response;

const DOCUMENT: &str = include_str!("../../api/openapi.json");

pub(super) async fn serve() -> Response<Body> {
    typed("application/json", DOCUMENT.to_owned())
}

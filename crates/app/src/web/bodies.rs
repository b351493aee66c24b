//! Reads the bodies of requests, within the share that their sender may hold in memory. Knows no content.

use super::patience::TooSlow;
use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt;
use windlass_runtime::shares::{Exceeded, Holding};

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    #[error("the body is longer than {0} bytes, or was cut off")]
    TooLongOrCut(usize),
    #[error("{0}; send it faster, or raise server.body_seconds and server.body_idle_seconds")]
    TooSlow(TooSlow),
    #[error(transparent)]
    Exceeded(Exceeded),
}

/// Reads a whole body. Its bytes are added to the holding as they come.
pub(super) async fn read(
    body: Body,
    bytes_max: usize,
    holding: &mut Option<Holding>,
) -> Result<Bytes, Unread> {
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| match TooSlow::is(&error) {
            true => Unread::TooSlow(TooSlow::Body),
            false => Unread::TooLongOrCut(bytes_max),
        })?;
        if whole.len() + piece.len() > bytes_max {
            return Err(Unread::TooLongOrCut(bytes_max));
        }
        if let Some(holding) = holding {
            let grown = holding.grow(piece.len() as u64);
            grown.map_err(Unread::Exceeded)?;
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

//! The connections that sessions run over. Knows bytes, frames, time limits and peers; knows no message of any protocol
//! that travels in them.

pub mod http;
pub mod network;
pub mod websocket;

mod buffers;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connected byte stream, whatever is under it: plain TCP, TLS, or memory in a test.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

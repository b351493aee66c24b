//! WebSocket connections: framing, a socket with a bounded outgoing queue, and the client's side of the upgrade. The
//! server's side of the upgrade belongs to the HTTP server. Knows no message of any protocol above.

mod connect;
mod frame;
mod refusal;
mod socket;

pub(crate) use connect::{Address, open_at, open_through};
pub use connect::{ConnectError, Target, connect};
pub(in crate::transport) use connect::{
    PROXY_WANTS_CREDENTIALS, open_directly, open_proxy, proxy_refused,
};
pub use frame::{CloseFrame, FrameError, Message, MessageLimits, Role};
pub use socket::{AudioForm, QueueFull, Reading, Socket, SocketLimits, SocketLost};

//! The layer between the core and the machine: drivers, executor, audio pump, transports and prompts. Owns clocks, sockets,
//! threads and randomness; knows no policy, which is the core's, and serves no HTTP, which is the app's.

pub mod audit;
pub mod call_driver;
pub mod caller;
pub mod client_key;
pub mod client_protocol;
pub mod codec;
pub mod declared;
pub mod direct;
pub mod executor;
pub mod fetch;
pub mod gemini_live;
pub mod gpt_live;
pub mod ids;
pub mod intent_log;
pub mod journal;
pub mod mcp;
pub mod metrics;
pub mod openai_realtime;
pub mod prompt;
pub mod provider_log;
pub mod pump;
pub mod rate;
pub mod redaction;
pub mod result_pictures;
pub mod shares;
pub mod store_thread;
pub mod subscriber;
pub mod subscriptions;
pub mod sweeper;
pub mod text;
pub mod transport;
pub mod voice;
pub mod worker;

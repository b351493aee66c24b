//! GPT-Live (`/v1/live/sessions`) with client delegation: one connection's codec with its address and setup. The model speaks and
//! listens at once and has no tools. It delegates a task that needs one, with an id and without a word of the task. Events and
//! fields are those of OpenAI's own client library (openai/openai-node:src/resources/live/live.ts). Does no IO and decides
//! nothing: the driver knows who runs a delegated task, and when an answer is over, which no event says.

mod decode;
mod encode;
mod wire;

pub use decode::Sink;
pub use encode::{SetupRequest, encode_setup};

use crate::gemini_live::address::{Address, AddressError, without_secrets};
use crate::openai_realtime::Resampler;
use windlass_contract::sensitive::Sensitive;
use windlass_session::model::LostReason;

/// The service's own address.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// The codec of one connection.
#[derive(Debug, Default)]
pub struct Codec {
    microphone: Resampler,
    /// Room for resampled audio, kept between frames.
    resampled: Vec<u8>,
    /// Room for decoded audio.
    pcm: Vec<u8>,
    is_ready: bool,
    /// Whether the current run of audio has been announced.
    in_audio_run: bool,
    /// The service's sum so far.
    seconds: u64,
    lost: Option<LostReason>,
}

impl Codec {
    /// # Errors
    ///
    /// The last message ends the session, for this reason.
    pub fn react(&mut self) -> Result<(), LostReason> {
        self.lost.take().map_or(Ok(()), Err)
    }

    /// The answer is over: the next audio begins another.
    pub fn answer_ended(&mut self) {
        self.in_audio_run = false;
    }

    /// Appends the event for microphone audio: PCM16 mono at 16 kHz.
    pub fn encode_audio(&mut self, pcm: &[u8], frame: &mut Vec<u8>) {
        self.resampled.clear();
        self.microphone.push(pcm, &mut self.resampled);
        encode::append(&self.resampled, frame);
    }

    /// Appends text that the model is to say about a delegated task; about no task if `delegation` is `None`.
    pub fn commentary(&self, delegation: Option<&str>, text: &str, frames: &mut Vec<Vec<u8>>) {
        encode::context("session.commentary.append", delegation, text, frames);
    }

    /// Appends text that the model is to know without saying it.
    pub fn thinking(&self, delegation: Option<&str>, text: &str, frames: &mut Vec<Vec<u8>>) {
        encode::context("session.thinking.append", delegation, text, frames);
    }
}

/// The address of a new session. `base_url` replaces OpenAI's; a base without a path is taken to have `/v1`. Only with it may the
/// key be missing.
///
/// # Errors
///
/// A URL of another scheme, or a key that cannot stand in a header.
pub fn address(
    key: Option<&Sensitive<String>>,
    base_url: Option<&str>,
) -> Result<Address, AddressError> {
    if base_url.is_none() && key.is_none() {
        return Err(AddressError::NoCredentials);
    }
    let url = endpoint(base_url.unwrap_or(BASE_URL))?;
    let headers = match key {
        None => Vec::new(),
        Some(key) => {
            let key = key.expose();
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(AddressError::BadCredentials { kind: "API key" });
            }
            vec![("authorization", Sensitive(format!("Bearer {key}")))]
        }
    };
    Ok(Address { url, headers })
}

fn endpoint(base_url: &str) -> Result<String, AddressError> {
    let bad = || AddressError::BadUrl {
        url: without_secrets(base_url),
    };
    let (scheme, rest) = base_url.trim().split_once("://").ok_or_else(bad)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "ws" | "http" => "ws",
        "wss" | "https" => "wss",
        _ => return Err(bad()),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_printable = rest.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_printable || rest.contains(['@', '?', '#']) || host.is_empty() {
        return Err(bad());
    }
    Ok(match path.trim_matches('/') {
        "" => format!("{scheme}://{host}/v1/live/sessions"),
        path if path.ends_with("live/sessions") => format!("{scheme}://{host}/{path}"),
        path => format!("{scheme}://{host}/{path}/live/sessions"),
    })
}

//! OpenAI Realtime, in the form of its general availability, and similar protocols of other services: one connection's codec with
//! its setup and address.
//! Does no IO and decides nothing: policies are the session's, retries the driver's.

pub mod address;
mod audio;
mod decode;
mod encode;
mod errors;
mod items;
mod relatives;
mod resample;
mod responses;
mod setup;
mod spoken;
mod wire;

pub use decode::Sink;
pub use errors::close_reason;
pub use resample::Resampler;
pub use setup::{DeclaredTools, SetupRequest, encode_setup};

use crate::profile::RealtimeForm;
use items::Items;
use responses::{Reason, Responses};
use spoken::Spoken;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::kind::Scheduling;
use windlass_session::model::{
    HistoryEntry, IncomingCall, LostReason, ModelCommand, ModelToolResponse, Role,
};

/// The life of a connection. The service ends a session after 60 minutes and gives no warning; an earlier end of ours leaves time
/// for a quiet moment.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(55 * 60);

/// Bytes of decoded audio that a connection keeps room for between frames: 400 ms. Longer frames return their room.
const PCM_BYTES_KEPT: usize = 19_200;

/// Options of a codec, beside those in the setup for the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub form: RealtimeForm,
    /// As in the setup: whether the service ends its response when the user speaks.
    pub barge_in: bool,
    /// Milliseconds of silence after which the service takes speech as ended.
    pub silence_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            form: RealtimeForm::Openai,
            barge_in: true,
            // The service's own value is lower.
            silence_ms: 500,
        }
    }
}

/// The codec of one connection. Make a new one for each: ids and responses are the connection's own.
#[derive(Debug)]
pub struct Codec {
    options: Options,
    responses: Responses,
    spoken: Spoken,
    microphone: Resampler,
    /// Room for resampled audio, kept between frames.
    resampled: Vec<u8>,
    /// Room for decoded audio.
    pcm: Vec<u8>,
    is_ready: bool,
    /// Calls of the current response that were complete when they came.
    calls: Vec<IncomingCall>,
    /// The calls of the newest response that have come.
    items: Items,
    /// Ids of calls that were passed on, oldest first.
    call_ids: VecDeque<Arc<str>>,
    /// Calls since the user's last words, for recognizing ids that come again with other calls.
    unnamed_calls: VecDeque<IncomingCall>,
    /// Calls that the model waits for.
    open_calls: BTreeSet<Arc<str>>,
    /// Whether the core has had the beginning of an answer, and not its end.
    is_answering: bool,
    /// Whether the core knows that the current response is void.
    is_announced: bool,
    /// Whether the core waits for the end of a void answer.
    owes_end: bool,
    /// Whether a failed response was requested once more.
    is_retried: bool,
    replies: Vec<Vec<u8>>,
    lost: Option<LostReason>,
}

impl Codec {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            responses: Responses::default(),
            spoken: Spoken::default(),
            microphone: Resampler::default(),
            resampled: Vec::new(),
            pcm: Vec::new(),
            is_ready: false,
            calls: Vec::new(),
            items: Items::default(),
            call_ids: VecDeque::new(),
            unnamed_calls: VecDeque::new(),
            open_calls: BTreeSet::new(),
            is_answering: false,
            is_announced: false,
            owes_end: false,
            is_retried: false,
            replies: Vec::new(),
            lost: None,
        }
    }

    /// Appends the replies that the protocol itself requires to the last message.
    ///
    /// # Errors
    ///
    /// The last message ends the session, for this reason.
    pub fn react(&mut self, frames: &mut Vec<Vec<u8>>) -> Result<(), LostReason> {
        if let Some(reason) = self.lost.take() {
            return Err(reason);
        }
        frames.append(&mut self.replies);
        self.request(frames);
        Ok(())
    }

    /// Appends the event for microphone audio: PCM16 mono at 16 kHz.
    pub fn encode_audio(&mut self, pcm: &[u8], frame: &mut Vec<u8>) {
        self.resampled.clear();
        self.microphone.push(pcm, &mut self.resampled);
        audio::write_append(&self.resampled, frame);
    }

    /// Appends the events that carry a command, each one JSON text.
    pub fn encode(&mut self, command: &ModelCommand, frames: &mut Vec<Vec<u8>>) {
        match command {
            ModelCommand::ToolResponses(responses) => self.tool_responses(responses, frames),
            ModelCommand::LateResults(responses) => {
                let number = self.responses.item_sent();
                frames.push(encode::late_results(number, responses));
                self.responses.want(Reason::Results);
            }
            ModelCommand::UserText(text) => {
                // The user no longer waits for the answer to something else.
                let form = self.options.form;
                let given_up = self.responses.give_up();
                frames.extend(given_up.map(|id| encode::response_cancel(id, form)));
                self.user_text(text.expose(), frames);
            }
            ModelCommand::Notice(text) => self.user_text(text.expose(), frames),
            ModelCommand::History {
                entries,
                answer_now,
            } => self.history(entries, *answer_now, frames),
            ModelCommand::Image { mime_type, data } => {
                let number = self.responses.item_sent();
                frames.push(encode::image(number, mime_type, data.expose()));
            }
            ModelCommand::AudioEnded => frames.push(self.silence()),
            ModelCommand::Resynchronize => self.resynchronize(),
        }
        self.request(frames);
    }

    /// Gives up the current answer. `unplayed` is the spoken audio that was never heard. Appends the frames for the service.
    pub fn discard(&mut self, unplayed: Duration, frames: &mut Vec<Vec<u8>>) {
        if let Some(id) = self.responses.give_up() {
            frames.push(encode::response_cancel(id, self.options.form));
        }
        if !self.is_announced {
            self.is_announced = self.responses.is_active();
            self.owes_end |= self.is_answering;
            self.is_answering = false;
            self.open_calls.clear();
        }
        let cut = self.spoken.cut(unplayed);
        // xAI's documents have no event for that.
        let cut = cut.filter(|_| self.options.form != RealtimeForm::Xai);
        if let Some((item_id, heard_ms)) = cut {
            frames.push(encode::truncate(&item_id, heard_ms));
        }
    }

    /// Resets the state of responses: the core takes the turn as over, whatever the service believes.
    fn resynchronize(&mut self) {
        self.responses.resynchronize();
        self.calls.clear();
        self.open_calls.clear();
        self.is_answering = false;
        self.is_announced = false;
        self.owes_end = false;
    }

    fn request(&mut self, frames: &mut Vec<Vec<u8>>) {
        if let Some(number) = self.responses.take_request() {
            frames.push(encode::response_create(number));
        }
    }

    fn user_text(&mut self, text: &str, frames: &mut Vec<Vec<u8>>) {
        self.unnamed_calls.clear();
        frames.push(encode::user_text(self.responses.item_sent(), text));
        self.responses.want(Reason::Input);
        self.is_retried = false;
    }

    /// Requests one response for all results of one response: with the last result.
    fn tool_responses(&mut self, responses: &[ModelToolResponse], frames: &mut Vec<Vec<u8>>) {
        let mut is_silent = true;
        for response in responses {
            let number = self.responses.item_sent();
            if let Some(frame) = encode::tool_response(number, response) {
                frames.push(frame);
            }
            if let Some(id) = &response.id {
                self.open_calls.remove(id);
            }
            is_silent &= response.scheduling == Some(Scheduling::Silent);
        }
        if !is_silent && self.open_calls.is_empty() {
            self.responses.want(Reason::Results);
        }
    }

    fn history(&mut self, entries: &[HistoryEntry], answer_now: bool, frames: &mut Vec<Vec<u8>>) {
        let (earlier, pending) = match entries {
            [earlier @ .., last] if answer_now && last.role == Role::User => (earlier, Some(last)),
            _ => (entries, None),
        };
        if !earlier.is_empty() {
            frames.push(encode::history_opening(self.responses.item_sent()));
        }
        for entry in earlier {
            let number = self.responses.item_sent();
            frames.push(encode::history_entry(number, entry, self.options.form));
        }
        if let Some(pending) = pending {
            self.user_text(pending.text.expose(), frames);
        } else if answer_now {
            self.responses.want(Reason::Input);
        }
    }

    /// Silence that ends the user's speech when the microphone sends no more.
    fn silence(&self) -> Vec<u8> {
        const BYTES_PER_MS: usize = 48;
        /// Silence beyond the service's wait.
        const MARGIN_MS: usize = 300;
        let milliseconds = usize::try_from(self.options.silence_ms)
            .unwrap_or(usize::MAX)
            .min(10_000)
            + MARGIN_MS;
        let mut frame = Vec::new();
        audio::write_append(&vec![0; milliseconds * BYTES_PER_MS], &mut frame);
        frame
    }
}

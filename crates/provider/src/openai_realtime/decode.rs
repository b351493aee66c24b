//! From the server's events to model events. Knows the meaning of each event; knows neither the reaction to it nor its time.

use super::Codec;
use super::audio::audio_delta;
use super::encode::{ITEM_ID_PREFIX, REQUEST_ID_PREFIX, response_cancel};
use super::errors::{self, Meaning};
use super::responses::Reason;
use super::setup::SETUP_EVENT_ID;
use super::wire::{Arguments, Item, Response, ServerError, ServerEvent, Usage as WireUsage, text};
use crate::arguments::read_arguments_text;
use crate::base64::decode_base64;
use crate::failure::printable;
use crate::message::{Count, PassedOver, Path, Text};
use crate::profile::RealtimeForm;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use windlass_session::model::{
    ArgumentsProblem, IncomingCall, LostReason, ModelEvent, TurnEndReason, UNNAMED, Usage,
};
use windlass_session::names_delivery;

/// Ids of calls that are remembered, to know that a repeated call has had its answer.
const CALL_IDS_MAX: usize = 512;
/// Calls of one response; the core refuses far fewer.
const CALLS_MAX: usize = 128;
/// Fields of one event that are reported as passed over.
const UNKNOWN_MAX: usize = 8;

/// The receiver of an event's contents.
pub trait Sink {
    fn event(&mut self, event: ModelEvent);

    /// Audio of the model: whole samples of 16-bit little-endian mono PCM at 24 kHz.
    fn audio(&mut self, pcm: &[u8]);

    /// The duration of spoken audio that the user has not heard yet.
    fn unplayed(&self) -> Duration;
}

impl Codec {
    /// Reads one event of the server and passes its contents to the sink. Never fails: an unreadable event becomes
    /// [`ModelEvent::Malformed`], an unknown one becomes [`ModelEvent::Unknown`]. Call [`Codec::react`] afterwards.
    pub fn decode(&mut self, frame: &[u8], sink: &mut impl Sink) {
        if let Some(audio) = audio_delta(frame) {
            self.audio(audio.response_id, audio.item_id, audio.delta, sink);
            return;
        }
        let event = std::str::from_utf8(frame)
            .ok()
            .and_then(|text| crate::message::read::<ServerEvent<'_>>(text).ok().flatten());
        match event {
            Some(event) if event.kind.is_some() => {
                report_passed_over(&event, sink);
                self.event(&event, sink);
            }
            Some(_) | None => malformed("the provider's frame is no event of the protocol", sink),
        }
    }

    fn event(&mut self, event: &ServerEvent<'_>, sink: &mut impl Sink) {
        match text(&event.kind) {
            "session.created" | "session.updated" => self.session(event, sink),
            "input_audio_buffer.speech_started" => self.speech_started(sink),
            "input_audio_buffer.speech_stopped" => {
                self.responses.user_speaks(false);
                sink.event(ModelEvent::SpeechEnded);
            }
            "conversation.item.added" | "conversation.item.created" => {
                let id = event.item.as_ref().map_or("", |item| text(&item.id));
                if id.starts_with(ITEM_ID_PREFIX) {
                    self.responses.item_acknowledged();
                }
            }
            "conversation.item.input_audio_transcription.completed" => {
                let said = text(&event.transcript);
                // xAI sends interim and whole transcripts as one kind of event.
                let is_whole = text(&event.status) != "in_progress";
                if is_whole && !said.trim().is_empty() {
                    let text = said.to_owned().into();
                    sink.event(ModelEvent::InputTranscribed { text });
                }
            }
            "conversation.item.input_audio_transcription.failed" => {
                malformed("the provider could not transcribe what the user said", sink);
            }
            "response.created" => {
                let response = event.response.as_ref();
                self.response_created(response.map_or("", |response| text(&response.id)));
            }
            "response.done" => match &event.response {
                Some(response) => self.response_done(response, sink),
                // The kind alone is readable, and says that the one response is over.
                None => self.response_done(&Response::default(), sink),
            },
            "error" => match &event.error {
                Some(error) => self.error(error, sink),
                None => malformed("the provider reports an error and does not say which", sink),
            },
            kind if kind.starts_with("response.") => self.output(event, sink),
            kind if is_of_no_interest(kind) => {}
            kind => report(kind, sink),
        }
    }

    /// The session is ready once the server has confirmed our setup.
    fn session(&mut self, event: &ServerEvent<'_>, sink: &mut impl Sink) {
        if text(&event.kind) == "session.updated" && !std::mem::replace(&mut self.is_ready, true) {
            let id = event
                .session
                .as_ref()
                .and_then(|session| session.id.as_ref());
            sink.event(ModelEvent::Ready {
                provider_session_id: id.map(|id| id.0.clone().into_owned()),
            });
        }
    }

    /// The user speaks. The server ends the current response by itself; spoken audio that was not heard is void as well.
    fn speech_started(&mut self, sink: &mut impl Sink) {
        sink.event(ModelEvent::SpeechStarted);
        self.unnamed_calls.clear();
        if !self.options.barge_in {
            return;
        }
        self.responses.user_speaks(true);
        self.is_retried = false;
        let is_active = self.responses.void();
        let is_heard = self.is_answering || !self.open_calls.is_empty();
        if self.is_announced || (!is_heard && sink.unplayed().is_zero()) {
            return;
        }
        self.is_announced = is_active;
        self.is_answering = false;
        self.open_calls.clear();
        sink.event(ModelEvent::Interrupted);
        if is_active {
            self.owes_end |= is_heard;
        } else if is_heard {
            end_turn(None, sink);
        }
    }

    fn response_created(&mut self, id: &str) {
        if !self.responses.is_new(id) {
            return;
        }
        self.is_announced = false;
        self.items.begin(id);
        if let Some(id) = self.responses.created(id) {
            self.replies.push(response_cancel(id, self.options.form));
            self.is_announced = true;
        }
    }

    /// A piece of a response. An event of an unknown kind says nothing of the response.
    fn output(&mut self, event: &ServerEvent<'_>, sink: &mut impl Sink) {
        let kind = text(&event.kind);
        if !is_known_output(kind) {
            return report(kind, sink);
        }
        let response_id = text(&event.response_id);
        self.responses.heard_of(response_id);
        if kind == "response.output_item.done" {
            if let Some(item) = &event.item {
                self.items.of(response_id);
                let place = event.output_index.map(|Count(place)| place);
                self.item_done(item, place);
            }
            // The response is over, so that nothing else will pass the call on.
            if !self.responses.is_active() {
                self.pass_on_calls(sink);
            }
            return;
        }
        if kind == "response.function_call_arguments.done" && self.options.form == RealtimeForm::Xai
        {
            return self.arguments_done(event, sink);
        }
        let delta = text(&event.delta);
        match kind {
            "response.output_audio.delta" | "response.audio.delta" => {
                self.audio(response_id, text(&event.item_id), delta.as_bytes(), sink);
            }
            "response.output_audio_transcript.delta"
            | "response.audio_transcript.delta"
            | "response.output_text.delta"
            | "response.text.delta" => {
                if delta.is_empty() || self.responses.is_void(response_id) {
                    return;
                }
                self.is_answering = true;
                let text = delta.to_owned().into();
                sink.event(if kind.ends_with("text.delta") {
                    ModelEvent::OutputText { text }
                } else {
                    ModelEvent::OutputTranscript {
                        text,
                        finished: false,
                    }
                });
            }
            _ => {}
        }
    }

    fn audio(&mut self, response_id: &str, item_id: &str, delta: &[u8], sink: &mut impl Sink) {
        self.responses.heard_of(response_id);
        if self.responses.is_void(response_id) {
            return;
        }
        let mut pcm = std::mem::take(&mut self.pcm);
        if decode_base64(delta, &mut pcm).is_err() {
            malformed("the audio of the model is no base64", sink);
        }
        // A byte that is half a sample would put every later sample out of step.
        let whole = pcm.len() & !1;
        if whole > 0 {
            if self.spoken.add(item_id, whole) {
                sink.event(ModelEvent::AudioStarted);
            }
            self.is_answering = true;
            sink.audio(&pcm[..whole]);
        }
        if pcm.capacity() <= super::PCM_BYTES_KEPT {
            self.pcm = pcm;
        }
    }

    /// xAI documents this event as the call itself. An item with the same id is the same call.
    fn arguments_done(&mut self, event: &ServerEvent<'_>, sink: &mut impl Sink) {
        let id = text(&event.call_id);
        let is_whole = !id.is_empty() && !text(&event.name).is_empty();
        if is_whole && self.calls.len() < CALLS_MAX {
            let id = Arc::from(id);
            if self.items.framed_by_id(Some(&id)) {
                self.keep(&event.name, event.arguments.as_ref(), Some(id));
            }
        }
        if !self.responses.is_active() {
            self.pass_on_calls(sink);
        }
    }

    /// A call in a frame of its own.
    fn item_done(&mut self, item: &Item<'_>, place: Option<u64>) {
        if self.is_call(item) {
            let id = id_of(item);
            let is_late = !self.responses.is_active();
            let is_news = match self.options.form {
                RealtimeForm::Xai => self.items.framed_by_id(id.as_ref()),
                RealtimeForm::Openai | RealtimeForm::VoiceLive | RealtimeForm::VoiceLiveV1 => {
                    self.items.framed(place, id.as_ref(), is_late)
                }
            };
            if is_news {
                self.keep_call(item, id);
            }
        }
    }

    /// Whether an item is a complete call. A call that was cut off is dropped; the protocol allows unanswered calls.
    fn is_call(&self, item: &Item<'_>) -> bool {
        let is_whole = matches!(text(&item.status), "" | "completed");
        text(&item.kind) == "function_call" && is_whole && self.calls.len() < CALLS_MAX
    }

    fn keep_call(&mut self, item: &Item<'_>, id: Option<Arc<str>>) {
        self.keep(&item.name, item.arguments.as_ref(), id);
    }

    fn keep(
        &mut self,
        name: &Option<Text<'_>>,
        arguments: Option<&Arguments<'_>>,
        id: Option<Arc<str>>,
    ) {
        let name = Some(text(name)).filter(|name| !name.is_empty());
        self.calls.push(IncomingCall {
            id,
            name: name.map(Arc::from),
            arguments: match arguments {
                Some(Arguments::Text(text)) => read_arguments_text(text),
                Some(Arguments::Unfit) => Err(ArgumentsProblem(
                    "the arguments must be the text of a JSON object".to_owned(),
                )),
                None => read_arguments_text(""),
            },
        });
    }

    /// Passes the calls of one response to the core as one message.
    fn pass_on_calls(&mut self, sink: &mut impl Sink) -> Passed {
        let calls = std::mem::take(&mut self.calls);
        if calls.is_empty() {
            return Passed::Nothing;
        }
        let mut is_awaited = false;
        for call in &calls {
            is_awaited |= self.await_answer(call);
        }
        self.is_answering = true;
        sink.event(ModelEvent::Calls(calls));
        match is_awaited {
            true => Passed::Calls,
            false => Passed::Repeats,
        }
    }

    /// Whether an answer to this call is still to come. A call that had its answer on this connection gets no other.
    fn await_answer(&mut self, call: &IncomingCall) -> bool {
        let Some(id) = &call.id else {
            return true;
        };
        let is_known = match names_delivery(id, call.name.as_deref().unwrap_or(UNNAMED)) {
            true => is_among(id, &mut self.call_ids, CALL_IDS_MAX),
            false => is_among(call, &mut self.unnamed_calls, CALLS_MAX),
        };
        if !is_known {
            self.open_calls.insert(id.clone());
        }
        self.open_calls.contains(id)
    }

    fn response_done(&mut self, response: &Response<'_>, sink: &mut impl Sink) {
        let id = text(&response.id);
        if self.responses.is_ended_before(id) {
            return;
        }
        self.items.of(id);
        for item in response.output.iter().flat_map(|output| &output.items) {
            if self.is_call(item) {
                let id = id_of(item);
                if self.items.listed(id.as_ref()) {
                    self.keep_call(item, id);
                }
            }
        }
        let is_void = self.responses.is_void(id);
        self.responses.done(id);
        if let Some(usage) = &response.usage {
            sink.event(ModelEvent::Usage(usage_of(usage)));
        }
        let status = match text(&response.status) {
            "" => "completed",
            status => status,
        };
        if is_void || status == "cancelled" {
            return self.void_response_done(sink);
        }
        self.is_announced = false;
        let passed = self.pass_on_calls(sink);
        if passed != Passed::Nothing || status == "completed" {
            sink.event(ModelEvent::GenerationComplete);
            // A model that only repeats answered calls is asked for words once.
            if passed == Passed::Repeats && !std::mem::replace(&mut self.is_retried, true) {
                self.responses.want(Reason::Results);
            }
            self.is_retried &= passed == Passed::Repeats;
            // Results that came meanwhile are answered in the same turn.
            if passed != Passed::Calls && self.responses.wants() != Some(Reason::Results) {
                self.is_answering = false;
                end_turn(None, sink);
            }
            return;
        }
        self.response_failed(status, response, sink);
    }

    fn void_response_done(&mut self, sink: &mut impl Sink) {
        let is_news = !std::mem::take(&mut self.is_announced) && self.is_answering;
        let owes_end = std::mem::take(&mut self.owes_end);
        self.pass_on_calls(sink);
        if is_news {
            self.is_answering = false;
            sink.event(ModelEvent::Interrupted);
        }
        if is_news || owes_end {
            end_turn(None, sink);
        }
    }

    /// Handles a failed response. A server error is worth one more attempt.
    fn response_failed(&mut self, status: &str, response: &Response<'_>, sink: &mut impl Sink) {
        let details = response.status_details.as_ref();
        let details = details.and_then(|details| details.said());
        let error = details.and_then(|details| details.error.as_ref());
        if let Some(error) = error {
            if let Meaning::Lost(reason) = errors::meaning(error) {
                self.lost = Some(reason);
                return;
            }
            let problem = format!("a response failed: {}", errors::described(error));
            malformed(&problem, sink);
        }
        let is_servers = error.is_some_and(|error| text(&error.kind) == "server_error");
        if is_servers && !self.is_answering && !std::mem::replace(&mut self.is_retried, true) {
            self.responses.want(Reason::Input);
            return;
        }
        self.is_answering = false;
        let reason = details.map_or("", |details| text(&details.reason));
        let reason = match if reason.is_empty() { status } else { reason } {
            "content_filter" => TurnEndReason::Blocked,
            "max_output_tokens" => TurnEndReason::Other("length".to_owned()),
            other => TurnEndReason::Other(printable(other)),
        };
        end_turn(Some(reason), sink);
    }

    fn error(&mut self, error: &ServerError<'_>, sink: &mut impl Sink) {
        let about = text(&error.event_id);
        match errors::meaning(error) {
            Meaning::Lost(reason) => self.lost = Some(reason),
            Meaning::AnotherResponse => self.responses.refused_for_another(),
            Meaning::NothingToCancel => {
                if self.responses.nothing_to_cancel() {
                    self.void_response_done(sink);
                }
            }
            Meaning::Harmless => {}
            Meaning::Refused if about == SETUP_EVENT_ID => {
                self.lost = Some(LostReason::Closed {
                    code: 1007,
                    reason: format!("the setup was refused: {}", errors::described(error)),
                });
            }
            Meaning::Refused => {
                let problem = format!("the provider refuses: {}", errors::described(error));
                malformed(&problem, sink);
                // The turn ends, because its answer will not come.
                if about.starts_with(REQUEST_ID_PREFIX) && self.responses.refused() {
                    self.is_answering = false;
                    end_turn(Some(TurnEndReason::Other("refused".to_owned())), sink);
                }
            }
        }
    }
}

/// Reports a kind of event that is not known.
fn report(kind: &str, sink: &mut impl Sink) {
    let fields = vec![format!("type={}", printable(kind))];
    sink.event(ModelEvent::Unknown { fields });
}

/// Reports the fields of an event that have an unexpected type.
fn report_passed_over(event: &ServerEvent<'_>, sink: &mut impl Sink) {
    let mut fields = Vec::new();
    event.passed_over(None, &mut |path: &Path<'_>| {
        if fields.len() < UNKNOWN_MAX {
            fields.push(format!("{}: {path}", printable(text(&event.kind))));
        }
    });
    if !fields.is_empty() {
        sink.event(ModelEvent::Unknown { fields });
    }
}

/// The news in a response's calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    Nothing,
    /// Only calls that had their answer before.
    Repeats,
    Calls,
}

/// Whether a value was noted. If not, it is noted now, in place of the oldest if there are too many.
fn is_among<T: Clone + PartialEq>(newest: &T, noted: &mut VecDeque<T>, noted_max: usize) -> bool {
    if noted.contains(newest) {
        return true;
    }
    if noted.len() == noted_max {
        noted.pop_front();
    }
    noted.push_back(newest.clone());
    false
}

fn id_of(item: &Item<'_>) -> Option<Arc<str>> {
    [text(&item.call_id), text(&item.id)]
        .into_iter()
        .find(|id| !id.is_empty())
        .map(Arc::from)
}

/// Whether an event is an acknowledgement, or belongs to a feature that is not used.
fn is_of_no_interest(kind: &str) -> bool {
    const PREFIXES: [&str; 4] = [
        "conversation.item.input_audio_transcription.",
        "mcp_list_tools.",
        "output_audio_buffer.",
        "input_audio_buffer.",
    ];
    matches!(
        kind,
        "conversation.created"
            | "conversation.item.done"
            | "conversation.item.deleted"
            | "conversation.item.retrieved"
            | "conversation.item.truncated"
            | "rate_limits.updated"
            // xAI keeps a connection alive with these.
            | "ping"
    ) || PREFIXES.iter().any(|prefix| kind.starts_with(prefix))
}

/// Whether an event begins or ends something whose content comes in pieces or with the item.
fn is_known_output(kind: &str) -> bool {
    const PREFIXES: [&str; 9] = [
        "response.content_part.",
        "response.function_call_arguments.",
        "response.output_item.",
        "response.output_audio",
        "response.output_text.",
        "response.mcp_call",
        // The beta's names, which servers built after it still use.
        "response.audio.",
        "response.audio_transcript.",
        "response.text.",
    ];
    PREFIXES.iter().any(|prefix| kind.starts_with(prefix))
}

fn malformed(problem: &str, sink: &mut impl Sink) {
    let problem = problem.to_owned();
    sink.event(ModelEvent::Malformed { problem });
}

fn end_turn(reason: Option<TurnEndReason>, sink: &mut impl Sink) {
    sink.event(ModelEvent::TurnComplete {
        idle: true,
        reason,
        unplayed: Duration::ZERO,
    });
}

fn usage_of(usage: &WireUsage<'_>) -> Usage {
    let count = |field: Option<Count>| field.map_or(0, |Count(count)| count);
    let details = usage.input_token_details.as_ref();
    Usage {
        prompt_tokens: count(usage.input_tokens),
        response_tokens: count(usage.output_tokens),
        cached_tokens: details.map_or(0, |details| count(details.cached_tokens)),
        total_tokens: count(usage.total_tokens),
        ..Usage::default()
    }
}

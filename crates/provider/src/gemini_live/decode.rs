//! From a server's frames to model events. Knows the meaning of each message and the little state between them; knows neither the
//! reaction to an event nor its time.

use super::audio::only_audio;
use super::call::{FunctionCall, GivenArguments};
use super::wire::{
    Blob, Content, DetectionSignal, ServerContent, ServerMessage, SetupComplete,
    ToolCallCancellation, Transcription, UsageMetadata, VoiceActivity,
};
use crate::base64::decode_base64;
use crate::failure::printable;
use crate::message::{List, PassedOver, Path, Text, read_first};
use crate::provider_tools::external_content;
use crate::spelling::{blank, tokens};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use windlass_contract::arguments::Arguments;
use windlass_session::model::{IncomingCall, ModelCommand, ModelEvent, TurnEndReason, Usage};

/// Ids of calls that are remembered, to recognize a call that comes in two forms.
const CALL_IDS_MAX: usize = 128;
/// Calls in parts of an answer that are kept until its end.
const PART_CALLS_MAX: usize = 64;
/// Fields of one message that are reported as passed over.
const UNKNOWN_FIELDS_MAX: usize = 8;
/// Bytes of decoded audio that a connection keeps room for between frames: 80 ms. The service sends bursts of much
/// longer frames, whose room is given back.
const PCM_BYTES_KEPT: usize = 3_840;

/// The receiver of a frame's contents.
pub trait Sink {
    fn event(&mut self, event: ModelEvent);

    /// Audio of the model: whole samples of 16-bit little-endian mono PCM at 24 kHz.
    fn audio(&mut self, pcm: &[u8]);
}

/// The state of one connection's decoder.
#[derive(Debug, Default)]
pub(super) struct DecoderState {
    pcm: Vec<u8>,
    /// Whether the current run of audio has been announced.
    in_audio_run: bool,
    /// Ids of calls that came in a `toolCall`, oldest first.
    call_ids: VecDeque<Arc<str>>,
    /// Names of calls without ids that came in a `toolCall` of this turn.
    names_called: Vec<Arc<str>>,
    /// Calls that came only as parts of an answer so far.
    part_calls: Vec<IncomingCall>,
    /// The reason for a turn's end, which came before that end.
    end_reason: Option<TurnEndReason>,
}

impl DecoderState {
    pub(super) fn decode(&mut self, frame: &[u8], sink: &mut impl Sink) {
        if let Some(data) = only_audio(frame) {
            self.audio(data, sink);
            return;
        }
        if is_only_turn_end(frame) {
            let (idle, interrupted) = (true, false);
            self.turn_end(TurnEnd { idle, interrupted }, sink);
            return;
        }
        // The whole frame is checked at once, which is cheaper than string by string.
        let Ok(frame) = std::str::from_utf8(frame) else {
            sink.event(ModelEvent::Malformed {
                problem: "the provider's frame is no UTF-8 text".to_owned(),
            });
            return;
        };
        if let Some(calls) = only_calls(frame) {
            self.tool_call(Some(calls), sink);
            return;
        }
        match crate::message::read::<ServerMessage<'_>>(frame) {
            Ok(Some(message)) => {
                report_passed_over(&message, sink);
                self.message(message, sink);
            }
            Ok(None) => sink.event(ModelEvent::Malformed {
                problem: "the provider's frame is no message of the protocol: it is no object"
                    .to_owned(),
            }),
            Err(error) => sink.event(ModelEvent::Malformed {
                problem: problem(&error),
            }),
        }
    }

    /// After these commands the model answers anew, so its next audio is a new run.
    pub(super) fn expect_answer(&mut self, command: &ModelCommand) {
        match command {
            ModelCommand::ToolResponses(_)
            | ModelCommand::LateResults(_)
            | ModelCommand::UserText(_)
            | ModelCommand::Notice(_) => self.in_audio_run = false,
            ModelCommand::History { .. }
            | ModelCommand::Image { .. }
            | ModelCommand::AudioEnded
            | ModelCommand::Resynchronize => {}
        }
    }

    /// Reads every part of a message, in this order: contents before the end that follows them, token sums before the end that
    /// they belong to.
    fn message(&mut self, message: ServerMessage<'_>, sink: &mut impl Sink) {
        if let Some(setup_complete) = message.setup_complete {
            ready(setup_complete, sink);
        }
        if let Some(activity) = message.voice_activity {
            voice_activity(&activity, sink);
        }
        if let Some(signal) = message.detection_signal {
            detection_signal(&signal, sink);
        }
        if let Some(cancellation) = message.tool_call_cancellation {
            self.cancellation(cancellation, sink);
        }
        let mut end = None;
        if let Some(content) = message.server_content {
            end = self.content(content, sink);
        }
        if let Some(call) = message.tool_call {
            self.tool_call(call.function_calls, sink);
        }
        if let Some(usage) = message.usage_metadata {
            sink.event(ModelEvent::Usage(usage_of(&usage)));
        }
        if let Some(end) = end {
            self.turn_end(end, sink);
        }
        if let Some(update) = message.session_resumption_update {
            let handle = update
                .new_handle
                .filter(|handle| update.resumable == Some(true) && !handle.0.is_empty())
                .map(|handle| handle.0.into_owned().into());
            sink.event(ModelEvent::ResumptionUpdate { handle });
        }
        if let Some(go_away) = message.go_away {
            sink.event(ModelEvent::GoAway {
                time_left: go_away.time_left.and_then(|text| duration(&text.0)),
            });
        }
    }

    /// Reads the contents of an answer. Returns the end of its turn, if the turn ends.
    fn content(&mut self, content: ServerContent<'_>, sink: &mut impl Sink) -> Option<TurnEnd> {
        let interrupted = content.interrupted == Some(true);
        // The user's words during an interruption belong behind it: they begin the next turn.
        let (before, behind) = if interrupted {
            (None, content.input_transcription)
        } else {
            (content.input_transcription, None)
        };
        if let Some((text, finished)) = before.and_then(transcript) {
            sink.event(ModelEvent::InputTranscript { text, finished });
        }
        if let Some(turn) = content.model_turn {
            self.model_turn(turn, sink);
        }
        if let Some(event) = content.grounding.and_then(|grounding| grounding.event()) {
            sink.event(event);
        }
        if let Some((text, finished)) = content.output_transcription.and_then(transcript) {
            sink.event(ModelEvent::OutputTranscript { text, finished });
        }
        if interrupted {
            self.part_calls.clear();
            sink.event(ModelEvent::Interrupted);
        }
        if let Some((text, finished)) = behind.and_then(transcript) {
            sink.event(ModelEvent::InputTranscript { text, finished });
        }
        if content.generation_complete == Some(true) {
            self.in_audio_run = false;
            sink.event(ModelEvent::GenerationComplete);
        }
        if let Some(reason) = content
            .turn_complete_reason
            .and_then(|reason| end_reason(&reason.0))
        {
            self.end_reason = Some(reason);
        } else if content.waiting_for_input == Some(true) {
            self.end_reason = Some(TurnEndReason::NeedsMoreInput);
        }
        let status = interaction_status(content.interaction_status, sink);
        let complete = content.turn_complete == Some(true);
        (complete || status == Some(InteractionStatus::Idle)).then(|| TurnEnd {
            idle: status != Some(InteractionStatus::InProgress),
            interrupted,
        })
    }

    fn model_turn(&mut self, turn: Content<'_>, sink: &mut impl Sink) {
        for part in turn.parts.into_iter().flat_map(|parts| parts.items) {
            if let Some(blob) = part.inline_data {
                self.blob(&blob, sink);
            }
            // A thought is neither spoken nor shown.
            if let Some(text) = part.text
                && part.thought != Some(true)
                && !text.0.is_empty()
            {
                sink.event(ModelEvent::OutputText {
                    text: text.0.into_owned().into(),
                });
            }
            if part.code_result.is_some() {
                sink.event(external_content(Vec::new()));
            }
            if let Some(call) = part.function_call {
                self.part_call(call.incoming());
            }
        }
    }

    fn blob(&mut self, blob: &Blob<'_>, sink: &mut impl Sink) {
        let mime_type = blob.mime_type.as_ref().map_or("", |text| &*text.0);
        if !is_playable(mime_type) {
            report(
                &format!("serverContent.modelTurn.parts.inlineData.mimeType={mime_type}"),
                sink,
            );
            return;
        }
        if let Some(data) = &blob.data {
            self.audio(data.0.as_bytes(), sink);
        }
    }

    fn audio(&mut self, data: &[u8], sink: &mut impl Sink) {
        if decode_base64(data, &mut self.pcm).is_err() {
            sink.event(ModelEvent::Malformed {
                problem: "the audio of the model is no base64".to_owned(),
            });
            return;
        }
        // A byte that is half a sample would put every later sample out of step.
        let whole = self.pcm.len() & !1;
        if whole > 0 {
            if !self.in_audio_run {
                self.in_audio_run = true;
                sink.event(ModelEvent::AudioStarted);
            }
            sink.audio(&self.pcm[..whole]);
        }
        if self.pcm.capacity() > PCM_BYTES_KEPT {
            self.pcm = Vec::new();
        }
    }

    fn tool_call<'a, G: GivenArguments<'a>>(
        &mut self,
        calls: Option<List<FunctionCall<'a, G>>>,
        sink: &mut impl Sink,
    ) {
        let calls = calls.map(|calls| calls.items).unwrap_or_default();
        let calls = calls.into_iter().map(FunctionCall::incoming).collect();
        self.calls(calls, sink);
    }

    fn calls(&mut self, calls: Vec<IncomingCall>, sink: &mut impl Sink) {
        for call in &calls {
            if let Some(id) = &call.id {
                if self.call_ids.len() == CALL_IDS_MAX {
                    self.call_ids.pop_front();
                }
                self.call_ids.push_back(id.clone());
            } else if let Some(name) = &call.name
                && self.names_called.len() < CALL_IDS_MAX
            {
                self.names_called.push(name.clone());
            }
        }
        if !calls.is_empty() {
            sink.event(ModelEvent::Calls(calls));
        }
    }

    /// Some models send a call twice, as a part of the answer and as a `toolCall`. Only the latter runs it; the part is
    /// kept for the case that the turn ends and no `toolCall` came.
    fn part_call(&mut self, call: IncomingCall) {
        let known = call.id.is_some() && self.part_calls.iter().any(|kept| kept.id == call.id);
        if !known && self.part_calls.len() < PART_CALLS_MAX {
            self.part_calls.push(call);
        }
    }

    fn cancellation(&mut self, message: ToolCallCancellation<'_>, sink: &mut impl Sink) {
        let ids: Vec<Arc<str>> = message
            .ids
            .iter()
            .flat_map(|ids| &ids.items)
            .filter(|id| !id.0.is_empty())
            .map(|id| Arc::from(&*id.0))
            .collect();
        self.part_calls
            .retain(|call| call.id.as_ref().is_none_or(|id| !ids.contains(id)));
        if !ids.is_empty() {
            sink.event(ModelEvent::CallsCancelled(ids));
        }
    }

    fn turn_end(&mut self, end: TurnEnd, sink: &mut impl Sink) {
        self.in_audio_run = false;
        let mut left = std::mem::take(&mut self.part_calls);
        left.retain(|call| match (&call.id, &call.name) {
            (Some(id), _) => !self.call_ids.contains(id),
            (None, Some(name)) => !self.names_called.contains(name),
            (None, None) => self.names_called.is_empty(),
        });
        self.names_called.clear();
        if !left.is_empty() && !end.interrupted {
            sink.event(ModelEvent::Calls(left));
        }
        sink.event(ModelEvent::TurnComplete {
            idle: end.idle,
            reason: self.end_reason.take(),
            unplayed: Duration::ZERO,
        });
    }
}

/// Says which fields of a message were passed over.
fn report_passed_over(message: &ServerMessage<'_>, sink: &mut impl Sink) {
    let mut fields = Vec::new();
    message.passed_over(None, &mut |path: &Path<'_>| {
        if fields.len() < UNKNOWN_FIELDS_MAX {
            let field = printable(&path.to_string());
            // A list has the same field in every element.
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
    });
    if !fields.is_empty() {
        sink.event(ModelEvent::Unknown { fields });
    }
}

fn report(field: &str, sink: &mut impl Sink) {
    let fields = vec![printable(field)];
    sink.event(ModelEvent::Unknown { fields });
}

struct TurnEnd {
    idle: bool,
    interrupted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InteractionStatus {
    Idle,
    InProgress,
}

/// A set status alone decides whether the model is idle; `REQUIRES_ACTION` is the older name of `IDLE`.
fn interaction_status(status: Option<Text<'_>>, sink: &mut impl Sink) -> Option<InteractionStatus> {
    match &*status?.0 {
        "IDLE" | "REQUIRES_ACTION" => Some(InteractionStatus::Idle),
        "IN_PROGRESS" => Some(InteractionStatus::InProgress),
        "" | "INTERACTION_STATUS_UNSPECIFIED" => None,
        other => {
            report(&format!("serverContent.interactionStatus={other}"), sink);
            Some(InteractionStatus::InProgress)
        }
    }
}

/// Whether a frame holds only the end of the turn. Such a frame comes with every turn.
fn is_only_turn_end(frame: &[u8]) -> bool {
    const SPELLING: [&[u8]; 9] = [
        b"{",
        b"\"serverContent\"",
        b":",
        b"{",
        b"\"turnComplete\"",
        b":",
        b"true",
        b"}",
        b"}",
    ];
    tokens(frame, &SPELLING).is_some_and(|rest| blank(rest).is_empty())
}

/// The calls of a frame that holds nothing else, if their arguments are valid.
fn only_calls(frame: &str) -> Option<List<FunctionCall<'_, Arguments>>> {
    const BEFORE: [&[u8]; 6] = [
        b"{",
        b"\"toolCall\"",
        b":",
        b"{",
        b"\"functionCalls\"",
        b":",
    ];
    let list = tokens(frame.as_bytes(), &BEFORE)?;
    let list = frame.get(frame.len() - list.len()..)?;
    let (calls, rest) = read_first::<List<FunctionCall<'_, Arguments>>>(list).ok()?;
    let rest = tokens(rest.as_bytes(), &[b"}", b"}"])?;
    calls.filter(|calls| blank(rest).is_empty() && calls.is_whole())
}

fn ready(message: SetupComplete<'_>, sink: &mut impl Sink) {
    sink.event(ModelEvent::Ready {
        provider_session_id: message
            .session_id
            .map(|id| id.0.into_owned())
            .filter(|id| !id.is_empty()),
    });
}

fn voice_activity(message: &VoiceActivity<'_>, sink: &mut impl Sink) {
    match message.kind.as_ref().map(|kind| &*kind.0) {
        Some("ACTIVITY_START") => sink.event(ModelEvent::SpeechStarted),
        Some("ACTIVITY_END") => sink.event(ModelEvent::SpeechEnded),
        Some(_) | None => {}
    }
}

fn detection_signal(message: &DetectionSignal<'_>, sink: &mut impl Sink) {
    match message.kind.as_ref().map(|kind| &*kind.0) {
        Some("VAD_SIGNAL_TYPE_SOS") => sink.event(ModelEvent::SpeechStarted),
        Some("VAD_SIGNAL_TYPE_EOS") => sink.event(ModelEvent::SpeechEnded),
        Some(_) | None => {}
    }
}

/// Whether audio of a type can be played. Vertex names no rate, and means the same one.
fn is_playable(mime_type: &str) -> bool {
    let mut parts = mime_type.split(';').map(str::trim);
    matches!(parts.next(), Some("" | "audio/pcm"))
        && parts.all(|parameter| !parameter.starts_with("rate=") || parameter == "rate=24000")
}

/// The text of a transcription and whether it is finished; `None` for an empty one.
fn transcript(
    message: Transcription<'_>,
) -> Option<(windlass_contract::sensitive::Sensitive<String>, bool)> {
    let finished = message.finished == Some(true);
    let text = message.text.map(|text| text.0).unwrap_or_default();
    (finished || !text.is_empty()).then(|| (text.into_owned().into(), finished))
}

fn end_reason(reason: &str) -> Option<TurnEndReason> {
    match reason {
        "" | "TURN_COMPLETE_REASON_UNSPECIFIED" => None,
        "MALFORMED_FUNCTION_CALL" => Some(TurnEndReason::MalformedCall),
        "NEED_MORE_INPUT" => Some(TurnEndReason::NeedsMoreInput),
        "RESPONSE_REJECTED"
        | "PROHIBITED_INPUT_CONTENT"
        | "BLOCKLIST"
        | "GENERATED_CONTENT_SAFETY"
        | "GENERATED_AUDIO_SAFETY"
        | "GENERATED_CONTENT_PROHIBITED"
        | "GENERATED_CONTENT_BLOCKLIST" => Some(TurnEndReason::Blocked),
        other => Some(TurnEndReason::Other(printable(other))),
    }
}

fn usage_of(message: &UsageMetadata<'_>) -> Usage {
    Usage {
        prompt_tokens: message.prompt_tokens.unwrap_or_default().0,
        response_tokens: message.response_tokens.unwrap_or_default().0,
        thoughts_tokens: message.thoughts_tokens.unwrap_or_default().0,
        tool_use_tokens: message.tool_use_tokens.unwrap_or_default().0,
        cached_tokens: message.cached_tokens.unwrap_or_default().0,
        total_tokens: message.total_tokens.unwrap_or_default().0,
        ..Usage::default()
    }
}

/// A protobuf JSON duration: `50s`, `9.5s`. `None` if the text is no duration, or one longer than a day.
fn duration(text: &str) -> Option<Duration> {
    const LONGEST_SECONDS: f64 = 86_400.0;
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    (0.0..=LONGEST_SECONDS)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// The place and kind of the problem, without a word of the content: serde's own message may quote it.
fn problem(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Syntax => "it is no JSON",
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Data | serde_json::error::Category::Io => {
            "a field is of the wrong type or there twice"
        }
    };
    format!(
        "the provider's frame is no message of the protocol: {kind} (line {}, column {})",
        error.line(),
        error.column()
    )
}

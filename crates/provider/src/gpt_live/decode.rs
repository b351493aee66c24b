//! From the server's events to model events and delegated tasks. Knows the meaning of each event and not its time.

use super::Codec;
use super::wire::{ServerError, ServerEvent, Usage as WireUsage, text};
use crate::base64::decode_base64;
use crate::failure::printable;
use crate::message::{Count, PassedOver, Path};
use std::sync::Arc;
use windlass_session::model::{LostReason, ModelEvent, Usage};

/// Bytes of decoded audio that a connection keeps room for between frames: 400 ms.
const PCM_BYTES_KEPT: usize = 19_200;
/// Fields of one event that are reported as passed over.
const UNKNOWN_MAX: usize = 8;

/// The receiver of an event's contents.
pub trait Sink {
    fn event(&mut self, event: ModelEvent);

    /// Audio of the model: whole samples of 16-bit little-endian mono PCM at 24 kHz.
    fn audio(&mut self, pcm: &[u8]);

    /// The model delegates a task, under this id. Only the conversation says what the task is.
    fn delegated(&mut self, id: Arc<str>);
}

impl Codec {
    /// Reads one event. Never fails: an unreadable event becomes [`ModelEvent::Malformed`], an unknown one becomes
    /// [`ModelEvent::Unknown`]. Call [`Codec::react`] afterwards.
    pub fn decode(&mut self, frame: &[u8], sink: &mut impl Sink) {
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
        let delta = text(&event.delta);
        match text(&event.kind) {
            "session.started" => {
                if !std::mem::replace(&mut self.is_ready, true) {
                    let id = event.session.as_ref().map(|session| text(&session.id));
                    let id = id.filter(|id| !id.is_empty()).map(str::to_owned);
                    sink.event(ModelEvent::Ready {
                        provider_session_id: id,
                    });
                }
            }
            "session.output_audio.delta" => self.audio(delta.as_bytes(), sink),
            "session.output_transcript.delta" if !delta.is_empty() => {
                sink.event(ModelEvent::OutputTranscript {
                    text: delta.to_owned().into(),
                    finished: false,
                });
            }
            "session.input_transcript.delta" if !delta.is_empty() => {
                sink.event(ModelEvent::InputTranscript {
                    text: delta.to_owned().into(),
                    finished: false,
                });
            }
            "session.delegation.created" => {
                let delegation = event.delegation.as_ref();
                let id = delegation.map_or("", |delegation| text(&delegation.id));
                let target = delegation.map_or("", |delegation| text(&delegation.target));
                match (id, target) {
                    ("", _) => malformed("the provider hands over a task without an id", sink),
                    (id, "client" | "") => sink.delegated(id.into()),
                    // The task is for another receiver.
                    (_, _) => report("delegation.target", sink),
                }
            }
            "session.usage.updated" => self.usage(event.usage.as_ref(), sink),
            "session.closed" => {
                self.usage(event.usage.as_ref(), sink);
                self.lost = Some(LostReason::Closed {
                    code: 1000,
                    reason: format!(
                        "the service closed the session: {}",
                        printable(text(&event.reason))
                    ),
                });
            }
            "error" => self.error(event.error.as_ref(), sink),
            kind if is_of_no_interest(kind) => {}
            kind => report(kind, sink),
        }
    }

    fn audio(&mut self, delta: &[u8], sink: &mut impl Sink) {
        let mut pcm = std::mem::take(&mut self.pcm);
        if decode_base64(delta, &mut pcm).is_err() {
            malformed("the audio of the model is no base64", sink);
        }
        let whole = pcm.len() & !1;
        if whole > 0 {
            if !std::mem::replace(&mut self.in_audio_run, true) {
                sink.event(ModelEvent::AudioStarted);
            }
            sink.audio(&pcm[..whole]);
        }
        if pcm.capacity() <= PCM_BYTES_KEPT {
            self.pcm = pcm;
        }
    }

    /// The service sends the sum; the core adds up itself.
    fn usage(&mut self, usage: Option<&WireUsage<'_>>, sink: &mut impl Sink) {
        let Some(Count(sum)) = usage.and_then(|usage| usage.seconds) else {
            return;
        };
        let seconds = sum.saturating_sub(self.seconds);
        self.seconds = self.seconds.max(sum);
        if seconds > 0 {
            sink.event(ModelEvent::Usage(Usage {
                seconds,
                ..Usage::default()
            }));
        }
    }

    fn error(&mut self, error: Option<&ServerError<'_>>, sink: &mut impl Sink) {
        let code = error.map_or("", |error| text(&error.code));
        let kind = error.map_or("", |error| text(&error.kind));
        let param = error.map_or("", |error| text(&error.param));
        let name = if code.is_empty() { kind } else { code };
        let name = match param {
            "" => printable(name),
            param => format!("{} ({})", printable(name), printable(param)),
        };
        match code {
            "invalid_api_key" | "account_deactivated" => self.lost = Some(LostReason::Unauthorized),
            "insufficient_quota" | "credit_balance_exhausted" | "billing_hard_limit_reached" => {
                self.lost = Some(LostReason::Closed {
                    code: 1008,
                    reason: name,
                });
            }
            _ if !self.is_ready => {
                self.lost = Some(LostReason::Closed {
                    code: 1007,
                    reason: format!("the setup was refused: {name}"),
                });
            }
            _ => malformed(&format!("the provider refuses: {name}"), sink),
        }
    }
}

/// Whether an event is an acknowledgement, or belongs to a feature that is not used.
fn is_of_no_interest(kind: &str) -> bool {
    matches!(
        kind,
        "session.instructions.appended"
            | "session.thinking.appended"
            | "session.commentary.appended"
            | "session.input_audio.muted"
            | "session.input_audio.unmuted"
            | "session.updated"
            | "session.output_transcript.delta"
            | "session.input_transcript.delta"
            | "info"
    )
}

fn report(kind: &str, sink: &mut impl Sink) {
    let fields = vec![format!("type={}", printable(kind))];
    sink.event(ModelEvent::Unknown { fields });
}

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

fn malformed(problem: &str, sink: &mut impl Sink) {
    let problem = problem.to_owned();
    sink.event(ModelEvent::Malformed { problem });
}

//! One session after its setup, on one connection: its state, and the part of it that each client message concerns. Knows neither
//! credentials nor the storage of sessions.

use super::calls::{AnswerEnd, Calls, Scheduling};
use super::context::Context;
use super::declarations;
use super::ears::Ears;
use super::frames;
use super::memory::Memory;
use super::program::{Program, Step, Wait};
use super::refusal::Refusal;
use super::setup::{self, Setup};
use crate::runner::Output;
use crate::script::When;
use serde_json::{Map, Value};
use std::time::Duration;
use windlass_session::time::Timestamp;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) setup: Setup,
    pub(crate) memory: Memory,
    /// Its number among the stored sessions, if the client wants resumption.
    pub(crate) stored_as: Option<u64>,
    /// Whether the newest handle leads to the current state.
    pub(crate) resumable: bool,
    pub(crate) foreground: Option<Program>,
    /// Programs that wait for non-blocking calls.
    pub(crate) parked: Vec<Program>,
    next_program: u64,
    pub(crate) calls: Calls,
    pub(crate) turn: Turn,
    pub(crate) ears: Ears,
    /// Whether the client is sending earlier conversation.
    pub(crate) takes_history: bool,
    pub(crate) ends_at: Option<Timestamp>,
    pub(crate) over: bool,
}

/// The turn of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) open: bool,
    /// Whether the turn has any content.
    pub(crate) generated: bool,
    /// Whether an answer would begin with a thought.
    pub(crate) thought_due: bool,
    pub(crate) audio_ms: u64,
    pub(crate) thought_characters: usize,
    /// The time when the listener will have heard the sent audio.
    pub(crate) play_until: Timestamp,
}

impl Session {
    pub(crate) fn new(setup: Setup, memory: Memory, stored_as: Option<u64>, resumed: bool) -> Self {
        Self {
            ears: Ears::new(setup.detection),
            takes_history: setup.announces_history && !resumed,
            setup,
            memory,
            stored_as,
            resumable: false,
            foreground: None,
            parked: Vec::new(),
            next_program: 0,
            calls: Calls::default(),
            turn: Turn::default(),
            ends_at: None,
            over: false,
        }
    }

    /// Begins after the accepted setup.
    pub(crate) fn begin(&mut self, context: &mut Context<'_>, resumed: bool) {
        let seconds = context.shared.settings.session_seconds;
        self.ends_at = Some(context.now + Duration::from_secs(seconds));
        self.offer_handle(context);
        let occasion = if resumed { When::Resumed } else { When::Setup };
        let exchanges = context.shared.exchanges();
        let exchange = exchanges.iter().find(|exchange| exchange.when == occasion);
        if let Some(exchange) = exchange {
            let steps = exchange.actions.iter().cloned().map(Step::Do).collect();
            self.foreground = Some(self.program(String::new(), steps));
        }
        self.advance(context);
    }

    pub(crate) fn program(&mut self, heard: String, steps: Vec<Step>) -> Program {
        self.next_program += 1;
        Program::new(self.next_program, heard, steps)
    }

    /// Takes one client message after the setup, whose field names were checked.
    pub(crate) fn take(
        &mut self,
        context: &mut Context<'_>,
        message: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        if message.len() > 1 {
            return Err(Refusal::invalid(
                "Invalid value (oneof), oneof field 'message_type' is already set.",
            ));
        }
        let Some((kind, body)) = message.iter().next() else {
            return Err(Refusal::invalid_argument());
        };
        match kind.as_str() {
            "clientContent" => self.take_content(context, body),
            "realtimeInput" => self.take_input(context, body),
            "toolResponse" => self.take_responses(context, body),
            "contextUpdate" => self.take_update(body),
            // Only a second setup is left.
            _ => Err(Refusal::invalid_argument()),
        }
    }

    fn take_update(&mut self, body: &Value) -> Result<(), Refusal> {
        if !self.setup.profile.context_update {
            return Err(Refusal::invalid(
                "Context update is not supported for this model",
            ));
        }
        if let Some(replacement) = body.get("tools") {
            let tools = replacement.get("tools").and_then(Value::as_array);
            self.setup.declarations =
                declarations::read(tools.map_or(&[], Vec::as_slice), &self.setup.profile)?;
        }
        self.setup.preamble_characters += setup::characters(body.get("systemInstruction"));
        Ok(())
    }

    fn take_responses(&mut self, context: &mut Context<'_>, body: &Value) -> Result<(), Refusal> {
        let Some(responses) = body.get("functionResponses").and_then(Value::as_array) else {
            return Err(Refusal::invalid_argument());
        };
        for given in responses {
            let answer = self
                .calls
                .answer(given, &self.setup.profile, &context.shared.settings)?;
            let Some(answer) = answer else { continue };
            self.memory.record_result(&answer.name, &answer.response);
            let in_front = self
                .foreground
                .as_mut()
                .filter(|program| program.number == answer.program);
            let program = match in_front {
                Some(program) => Some(program),
                None => self
                    .parked
                    .iter_mut()
                    .find(|program| program.number == answer.program),
            };
            let Some(program) = program else { continue };
            match answer.end {
                AnswerEnd::Interim => {}
                AnswerEnd::Abandoned => {
                    program.drop_continuation();
                    self.parked
                        .retain(|program| program.number != answer.program);
                }
                AnswerEnd::Final => {
                    program.results.push((answer.name, answer.response));
                    if program.in_background {
                        program.scheduling = program.scheduling.max(Some(answer.scheduling));
                    }
                }
            }
        }
        self.reschedule_foreground(context);
        self.advance(context);
        Ok(())
    }

    /// Handles that all results of non-blocking calls have come while their program still speaks its filler.
    fn reschedule_foreground(&mut self, context: &mut Context<'_>) {
        let Some(program) = &mut self.foreground else {
            return;
        };
        let waits = matches!(program.wait, Wait::Responses);
        let open = self.calls.of_program(program.number).next().is_some();
        if !program.in_background || waits || open {
            return;
        }
        match program.scheduling {
            Some(Scheduling::Silent) => program.drop_continuation(),
            Some(Scheduling::Interrupt) => {
                // The filler stops; the program is parked, and the next advance resumes it at once.
                self.interrupt(context);
            }
            Some(Scheduling::WhenIdle) | None => {}
        }
    }

    /// Continues as far as time and input allow.
    pub(crate) fn advance(&mut self, context: &mut Context<'_>) {
        if self.ends_at.is_some_and(|ends_at| ends_at <= context.now) && !self.over {
            let refusal = Refusal::new(1011, "Deadline expired before operation could complete.");
            self.close(context, refusal.code, refusal.reason);
        }
        while !self.over {
            if self.resume_parked(context) {
                continue;
            }
            if let Some(program) = self.foreground.take() {
                if !self.carry_out(context, program) {
                    break;
                }
            } else if let Some(heard) = self.ears.take_waiting(self.turn.open) {
                self.answer(context, heard);
            } else {
                break;
            }
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        let waiting = self
            .foreground
            .as_ref()
            .and_then(|program| match &program.wait {
                Wait::Until(time) => Some(*time),
                Wait::Speech(speech) => Some(speech.next_at()),
                Wait::TurnEnd => Some(self.turn.play_until),
                Wait::Nothing | Wait::Responses => None,
            });
        match (waiting, self.ends_at) {
            (Some(waiting), Some(ends_at)) => Some(waiting.min(ends_at)),
            (waiting, ends_at) => waiting.or(ends_at),
        }
    }

    pub(crate) fn refuse(&mut self, context: &mut Context<'_>, refusal: Refusal) {
        self.close(context, refusal.code, refusal.reason);
    }

    pub(crate) fn drop_connection(&mut self, context: &mut Context<'_>) {
        context.out.push(Output::Drop);
        self.over = true;
    }

    /// Sends the transcript of the input, if the client asked for it.
    pub(crate) fn transcribe(&self, context: &mut Context<'_>, text: &str) {
        if !self.setup.transcribes_input {
            return;
        }
        for piece in crate::pieces::split(text) {
            let transcription = frames::transcription("inputTranscription", &piece);
            context.send(frames::content(Value::Object(transcription)));
        }
        if self.setup.profile.vertex {
            context.send(frames::content(
                serde_json::json!({ "inputTranscription": { "finished": true } }),
            ));
        }
    }
}

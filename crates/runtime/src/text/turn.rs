//! A turn: the user's message, the model's answers with their calls, and the end in words. Knows no protocol and no policy:
//! budgets are the core's, and its verdict that a turn is wound up is followed here.

use super::ask::AskOutcome;
use super::model::TextModel;
use super::patience::Patience;
use super::session::{Flow, GivenAnswer, TextSession, Wake};
use super::{Confirmed, Consent, FinishReason, TurnEnd, TurnInput, TurnSink, UserInput};
use crate::shares::Exceeded;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::envelope::{Outcome, ToolResponse, meta_without_tool};
use windlass_contract::error::{CallError, ErrorType};
use windlass_contract::sensitive::Sensitive;
use windlass_driver::SaidAnswer;
use windlass_provider::answer::{Ending, ModelAnswer};
use windlass_provider::failure::FailureClass;
use windlass_provider::log::Entry;
use windlass_provider::request::ToolUse;
use windlass_session::client::{ClientEvent, ErrorCode};
use windlass_session::io::Input;
use windlass_session::log_text::Said;
use windlass_session::model::{ModelEvent, RequestEvent};
use windlass_session::saved::Began;
use windlass_store::NewEntry;

/// The longest time of an approved call beyond the wait for its result, with its attempts and its waits for the store.
const APPROVED_PATIENCE: Duration = Duration::from_secs(300);
/// The longest time of an attempt.
const RESULT_WAIT_MS_MAX: u64 = 600_000;
/// Corrections of a model whose call could not be read.
const CORRECTIONS_MAX: u32 = 2;
/// Notice to a model whose answer held no words.
const ANSWER_IN_WORDS: &str = "Your last answer held no words for the user. Answer the user now, in words, with what you have; say so where it is not enough.";
/// Notice to a model before a message that the user wants answered anew.
const ANOTHER_ANSWER: &str =
    "The user wants another answer to the following message than the one that was given.";
/// Notice to a model before a message that replaces an earlier one.
const EDITED: &str = "The user took back an earlier message and everything that was said after it, and says the following in its place. What tools have done since then stays done.";
/// Notice to a model in later turns about an answer that the user did not wait for.
const BROKEN_OFF: &str =
    "(The user interrupted the answer before this and may not have seen all of it.)";
/// Text for the user after the model wrote a call into its words again, and may have said that it was carried out.
const NOTHING_DONE: &str = "\n\nI could not carry that out, and nothing was done. Please ask again, perhaps in other words.";
/// Text for the user after the model gave no words at all.
const NO_WORDS: &str =
    "I could not put an answer together. Please ask again, perhaps in other words.";

/// The next step of a turn.
enum Next {
    Ask,
    /// Ask once more, without tools.
    AskForWords,
    End(FinishReason),
}

/// The progress of a turn.
#[derive(Default)]
struct Progress {
    requests: u32,
    corrections: u32,
    /// Whether the model was told that a call among its words does not count.
    is_told_of_prose: bool,
    is_last: bool,
}

impl TextSession {
    /// Runs one turn to its end. It is given up when `cancelled` is ready: then the model's request is dropped, and so is every
    /// call that changes nothing.
    pub async fn turn(
        &mut self,
        input: TurnInput,
        system_instruction: &str,
        sink: &mut dyn TurnSink,
        cancelled: Pin<&mut (dyn Future<Output = ()> + Send)>,
    ) -> TurnEnd {
        let until = Instant::now() + self.settings.limits.turn_timeout;
        let mut patience = Patience::new(cancelled, until);
        self.flow = Flow::default();
        self.keep_summary();
        self.catch_up(&mut patience, sink).await;
        self.read_tail(sink);
        let mut reason = FinishReason::Stop;
        let message = input.said().map(|said| said.message);
        let speaks = !self.settings.models.is_empty();
        if self.take_input(input, &mut patience, sink).await && speaks {
            reason = self.answer(system_instruction, &mut patience, sink).await;
        }
        let is_broken = matches!(reason, FinishReason::Cancelled | FinishReason::Failed);
        if let Some(message) = message {
            self.broken_off = message.filter(|_| is_broken);
        }
        // The session that speaks next delivers every outcome that no model acknowledges now.
        let has_heard = !is_broken && speaks && self.hand_over_heard();
        self.expect_nothing();
        self.give_room_back();
        let end = TurnEnd {
            reason,
            usage: self.flow.usage,
            turn: self.core.last_turn(),
            voice_session_start: self.flow.voice_session_start.take(),
            has_heard,
        };
        sink.finished(&end);
        sink.flush();
        if !is_broken {
            self.summarise(system_instruction);
        }
        end
    }

    /// Has the oldest turns summarised before they no longer fit the model's window. Without a model for that, they are left out
    /// at the configuration's limit. If the window itself is smaller than that limit, the model summarises them itself.
    fn summarise(&mut self, system_instruction: &str) {
        let settings = self.settings.clone();
        let Some(first) = settings.models.first() else {
            return;
        };
        let room = self.history_tokens_max(first, system_instruction);
        let itself = (room < settings.limits.history_tokens_max).then_some(first);
        if let Some(model) = settings.summary_model.as_ref().or(itself) {
            let answer = settings.limits.answer;
            self.summaries.begin(model, &self.log, room, answer);
        }
    }

    /// Takes the input in. Returns whether the model has to answer it.
    async fn take_input(
        &mut self,
        input: TurnInput,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> bool {
        if let Some(said) = input.said() {
            self.take_consents(said.consents.clone(), patience, sink)
                .await;
        }
        let message = input.said().and_then(|said| said.message);
        let is_broken_off = message.is_some() && message == self.broken_off;
        match input {
            TurnInput::User(mut input) | TurnInput::Again(mut input) if is_broken_off => {
                self.flow.is_taken_up = true;
                if let Some(spent) = self.spent.take() {
                    let began = Began {
                        spent: Some(spent),
                        ..Began::default()
                    };
                    self.feed(Input::Began(Box::new(began)), sink);
                }
                // The pictures are in the log with the message.
                input.images.clear();
                self.hear_user(input, sink);
                true
            }
            TurnInput::User(input) => {
                self.hear_user(input, sink);
                true
            }
            TurnInput::Again(input) => {
                self.remember_notice(ANOTHER_ANSWER);
                self.hear_user(input, sink);
                true
            }
            TurnInput::Edited(input) => {
                self.remember_notice(EDITED);
                self.hear_user(input, sink);
                true
            }
            TurnInput::Confirm(consents) => {
                self.take_consents(consents, patience, sink).await;
                self.flow.is_told
            }
        }
    }

    /// Adds a notice that the model keeps in later turns, too.
    fn remember_notice(&mut self, text: &str) {
        self.append(vec![notice_entry(text)]);
        self.note(Entry::Notice(Sensitive(text.to_owned())));
    }

    /// Takes the user's answers, one after the other.
    async fn take_consents(
        &mut self,
        consents: Vec<Consent>,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) {
        for consent in consents {
            self.take_consent(consent, patience, sink).await;
        }
    }

    /// Takes the answer to an approval request. An approved call runs to its end, even if the turn is cancelled.
    async fn take_consent(
        &mut self,
        consent: Consent,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) {
        let Consent {
            token,
            approved,
            reason,
            remember,
            input,
        } = consent;
        let said = SaidAnswer {
            approved,
            reason: reason.as_ref().map(|reason| reason.expose().as_str()),
            remember,
            input: input.as_ref(),
        };
        self.flow.answers = Some(GivenAnswer::Sought);
        let mut inputs = VecDeque::new();
        if let Err(error) = self.calls.answer(token.expose(), said, &mut inputs) {
            tracing::error!(session = %self.id(), %error, "an answer to a question is not taken");
            self.flow.answers = None;
            return sink.confirmed(&Confirmed {
                answer: None,
                call: None,
                response: &self.not_stored(),
                is_open: true,
            });
        }
        for input in inputs {
            self.feed(input, sink);
        }
        let begun = Instant::now();
        let mut never = std::pin::pin!(std::future::pending());
        let limits = &self.core.config().limits;
        let wait = Duration::from_millis(limits.result_wait_ms.min(RESULT_WAIT_MS_MAX));
        let until = patience.until.max(begun + APPROVED_PATIENCE + wait);
        let mut steadfast = Patience::new(never.as_mut(), until);
        while self.flow.answers.is_some() {
            let nothing = std::future::pending::<()>();
            if let Wake::Late = self.wait(nothing, &mut steadfast, sink).await {
                self.flow.answers = None;
            }
        }
        // An approved call runs outside the turn's budgets, time included.
        patience.until += begun.elapsed();
    }

    /// The response for an answer whose approval request could not be read.
    fn not_stored(&self) -> Arc<ToolResponse> {
        let error = CallError::new(
            ErrorType::Transient,
            "your answer could not be stored; send it again",
        );
        let version = self.core.config().registry.version().clone();
        Arc::new(ToolResponse {
            outcome: Outcome::Failure(error.into()),
            intents: Vec::new(),
            meta: meta_without_tool("confirm", version, self.capabilities.now_unix_ms()),
        })
    }

    fn hear_user(&mut self, input: UserInput, sink: &mut dyn TurnSink) {
        let UserInput {
            text,
            images,
            message,
            consents: _,
        } = input;
        for image in images {
            let event = ClientEvent::Image {
                mime_type: image.mime_type,
                data: image.data,
            };
            self.feed(Input::Client(event), sink);
        }
        let said = ClientEvent::Text {
            text: text.clone(),
            message,
        };
        self.feed(Input::Client(said), sink);
        self.note_user(text);
    }

    async fn answer(
        &mut self,
        system_instruction: &str,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> FinishReason {
        let mut progress = Progress::default();
        loop {
            progress.requests += 1;
            progress.is_last |= progress.requests >= self.settings.limits.requests_max
                || self.core.is_wound_up()
                || self.flow.voice_session_start.is_some();
            let tool_use = match progress.is_last {
                true => ToolUse::Forbidden,
                false => ToolUse::Free,
            };
            sink.step();
            match self.read_pictures(patience, sink).await {
                Wake::Model(()) | Wake::Core => {}
                Wake::Cancelled => return self.give_up(sink),
                Wake::Late => return self.give_up_late(sink),
            }
            if let Err(exceeded) = self.weigh() {
                return self.give_up_crowded(&exceeded, sink);
            }
            // The model's notices up to here are in the log of the next request.
            self.flow.is_told = false;
            let asked = self.ask(system_instruction, tool_use, patience, sink).await;
            let (answer, model) = match asked {
                AskOutcome::Answer(answer, model) => (*answer, model),
                AskOutcome::Cancelled => return self.give_up(sink),
                AskOutcome::Late => return self.give_up_late(sink),
            };
            match self
                .take_answer(answer, &model, &mut progress, patience, sink)
                .await
            {
                Next::Ask => {}
                Next::AskForWords => progress.is_last = true,
                Next::End(reason) => return reason,
            }
        }
    }

    async fn take_answer(
        &mut self,
        answer: ModelAnswer,
        model: &Arc<TextModel>,
        progress: &mut Progress,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Next {
        for entry in answer.entries(model.route()) {
            self.note(entry);
        }
        if !answer.calls.is_empty() {
            return self.run_calls(answer, progress, patience, sink).await;
        }
        let is_prose = answer.ending == Ending::ProseCall;
        if let Some(correction) = answer.ending.correction()
            && progress.corrections < CORRECTIONS_MAX
            && !progress.is_last
            && !(is_prose && progress.is_told_of_prose)
        {
            progress.corrections += 1;
            if is_prose {
                progress.is_told_of_prose = true;
                // Words before the call do not answer the user's request.
                self.flow.has_words = false;
            }
            self.note(Entry::Notice(Sensitive(correction.to_owned())));
            return Next::Ask;
        }
        let reason = match &answer.ending {
            Ending::Complete | Ending::Stopped { .. } => FinishReason::Stop,
            Ending::MalformedCall | Ending::UndeclaredCall | Ending::ProseCall => {
                FinishReason::Stop
            }
            Ending::LengthReached | Ending::CallCut => FinishReason::Length,
            Ending::Blocked { .. } => FinishReason::Blocked,
            Ending::Failed(_) | Ending::Cut => FinishReason::Failed,
        };
        if reason == FinishReason::Failed {
            if let Ending::Failed(failure) = &answer.ending {
                sink.provider_failed(failure);
            }
            let (code, message) = told_of(&answer.ending, model);
            sink.failed(code, message);
        } else if is_prose {
            self.say(NOTHING_DONE, sink);
        } else if !self.flow.has_words {
            if reason != FinishReason::Blocked && !progress.is_last {
                self.note(Entry::Notice(Sensitive(ANSWER_IN_WORDS.to_owned())));
                return Next::AskForWords;
            }
            self.say(NO_WORDS, sink);
        }
        self.close_turn(&answer, sink);
        if self.flow.is_told && !progress.is_last {
            return Next::Ask;
        }
        Next::End(reason)
    }

    /// Passes the calls of an answer to the core and waits until each has its response.
    async fn run_calls(
        &mut self,
        mut answer: ModelAnswer,
        progress: &Progress,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Next {
        self.flow.tools_complete = false;
        let calls = std::mem::take(&mut answer.calls);
        self.feed(Input::Model(ModelEvent::Calls(calls)), sink);
        while !self.flow.tools_complete {
            match self
                .wait(std::future::pending::<()>(), patience, sink)
                .await
            {
                Wake::Model(()) | Wake::Core => {}
                Wake::Cancelled => {
                    self.give_up(sink);
                    return Next::End(FinishReason::Cancelled);
                }
                Wake::Late => return Next::End(self.give_up_late(sink)),
            }
        }
        // Words before the calls are a preface, unless the voice session follows them.
        self.flow.has_words &= self.flow.voice_session_start.is_some();
        if !progress.is_last {
            return Next::Ask;
        }
        // The model was asked for words alone and called a tool all the same.
        if !self.flow.has_words {
            self.say(NO_WORDS, sink);
        }
        self.close_turn(&answer, sink);
        Next::End(FinishReason::Stop)
    }

    /// Adds words to the answer that the model did not write.
    fn say(&mut self, words: &str, sink: &mut dyn TurnSink) {
        let text = Sensitive(words.to_owned());
        self.note(Entry::Text(windlass_provider::log::TextPiece::plain(
            text.clone(),
        )));
        self.feed(Input::Model(ModelEvent::OutputText { text }), sink);
    }

    fn close_turn(&mut self, answer: &ModelAnswer, sink: &mut dyn TurnSink) {
        for event in answer.closing_events() {
            self.feed(Input::Model(event), sink);
        }
    }

    fn give_up(&mut self, sink: &mut dyn TurnSink) -> FinishReason {
        self.feed(Input::Request(RequestEvent::GivenUp), sink);
        self.note(Entry::Interrupted);
        self.append(vec![notice_entry(BROKEN_OFF)]);
        FinishReason::Cancelled
    }

    /// Ends a turn whose user holds too much memory for a further request. Earlier requests have ended.
    fn give_up_crowded(&mut self, exceeded: &Exceeded, sink: &mut dyn TurnSink) -> FinishReason {
        self.give_up(sink);
        sink.failed(ErrorCode::Overloaded, &exceeded.to_string());
        FinishReason::Failed
    }

    fn give_up_late(&mut self, sink: &mut dyn TurnSink) -> FinishReason {
        self.give_up(sink);
        sink.failed(
            ErrorCode::ProviderSilent,
            "the answer took too long and was given up; please ask again",
        );
        FinishReason::Failed
    }
}

fn notice_entry(text: &str) -> NewEntry {
    let said = Said::Notice {
        text: Sensitive(text.to_owned()),
    };
    NewEntry {
        leg_number: None,
        key: None,
        event: said.event(),
    }
}

/// The user's message about a failure; the rest is in the log.
fn told_of(ending: &Ending, model: &TextModel) -> (ErrorCode, &'static str) {
    let Ending::Failed(failure) = ending else {
        return (
            ErrorCode::ProviderUnavailable,
            "the model's answer was cut off; please ask again",
        );
    };
    match failure.class {
        FailureClass::Auth => (
            ErrorCode::ProviderAuth,
            model
                .missing_key()
                .unwrap_or("the model's provider refused the server's key"),
        ),
        FailureClass::NotFound => (
            ErrorCode::ProviderUnavailable,
            "the model's provider knows no such model or address",
        ),
        FailureClass::RateLimited | FailureClass::Overloaded => (
            ErrorCode::ProviderUnavailable,
            "the model's provider has too much to do now; please ask again in a moment",
        ),
        FailureClass::QuotaExhausted => (
            ErrorCode::ProviderUnavailable,
            "what was paid for at the model's provider is used up",
        ),
        FailureClass::ContextTooLong => {
            (ErrorCode::TooLarge, "the message is too long for the model")
        }
        FailureClass::InvalidRequest => (
            ErrorCode::ProviderUnavailable,
            "the model's provider refused the request",
        ),
        FailureClass::Conflict
        | FailureClass::Cancelled
        | FailureClass::Timeout
        | FailureClass::ServerFault => (
            ErrorCode::ProviderUnavailable,
            "the model's provider cannot answer now; please ask again",
        ),
        FailureClass::NoWay => (
            ErrorCode::ProviderUnavailable,
            "this server cannot connect to the model's provider safely; its operator finds why in the log",
        ),
        FailureClass::Protocol => (
            ErrorCode::ProviderUnavailable,
            "the model's provider sent something that is no answer",
        ),
    }
}

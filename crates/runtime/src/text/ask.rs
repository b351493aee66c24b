//! One answer of a model: requested, read as it comes, requested again after a failure that may pass, and requested of the next
//! model after a lasting one. Knows no turn; the turn decides about the answer.

use super::model::{Question, TextModel, no_answer, unreachable};
use super::patience::Patience;
use super::session::{TextSession, Wake};
use super::{TextLimits, TurnSink};
use crate::ids;
use crate::transport::http::{AnswerBody, HttpResponse};
use hyper::body::Bytes;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use windlass_provider::answer::{Ending, ModelAnswer};
use windlass_provider::failure::FailureClass;
use windlass_provider::log::Entry;
use windlass_provider::request::ToolUse;
use windlass_session::client::{ClientUpdate, ErrorCode};
use windlass_session::io::Input;
use windlass_session::model::ModelEvent;

/// Bytes of a refusal that are read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// Tokens that are reserved for an answer.
const ANSWER_TOKENS: u64 = 4_096;

/// Replaces a picture in the conversation that the provider has refused.
const PICTURE_REFUSED: &str = "(The user showed a picture here. The model's provider refused it, so that you cannot see it; say so.)";

/// The result of asking.
pub(super) enum AskOutcome {
    Answer(Box<ModelAnswer>, Arc<TextModel>),
    /// The user has left; the model's words up to then are in the log.
    Cancelled,
    /// The turn's time is up; the model's words up to then are in the log.
    Late,
}

/// The reason why a request was given up.
enum GaveUp {
    Cancelled,
    Late,
}

impl TextSession {
    /// Asks the models in their order until one answers.
    pub(super) async fn ask(
        &mut self,
        system_instruction: &str,
        tool_use: ToolUse,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> AskOutcome {
        let settings = self.settings.clone();
        let mut last = None;
        for model in &settings.models {
            let asked = self
                .ask_model(model, system_instruction, tool_use, patience, sink)
                .await;
            match asked {
                AskOutcome::Answer(answer, model) if is_of_no_use(&answer) => {
                    last = Some((answer, model));
                }
                asked => return asked,
            }
        }
        match last {
            Some((answer, model)) => AskOutcome::Answer(answer, model),
            None => AskOutcome::Late,
        }
    }

    /// Asks one model, and again if that may help.
    async fn ask_model(
        &mut self,
        model: &Arc<TextModel>,
        system_instruction: &str,
        tool_use: ToolUse,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> AskOutcome {
        let limits = self.settings.limits;
        let mut history_tokens_max = self.history_tokens_max(model, system_instruction);
        let (mut retries, mut has_shortened) = (0, false);
        let mut is_without_pictures = false;
        loop {
            let body = self.body(model, system_instruction, tool_use, history_tokens_max);
            let answer = match self.ask_once(model, body, patience, sink).await {
                Ok(answer) => answer,
                Err(GaveUp::Cancelled) => return AskOutcome::Cancelled,
                Err(GaveUp::Late) => return AskOutcome::Late,
            };
            if !is_of_no_use(&answer) {
                if is_without_pictures {
                    sink.client(&pictures_refused());
                }
                return AskOutcome::Answer(Box::new(answer), model.clone());
            }
            report(model, &answer.ending);
            if let Ending::Failed(failure) = &answer.ending {
                // The pictures may be the cause, and would then be it in every later request, too.
                if failure.class == FailureClass::InvalidRequest
                    && model.sees()
                    && self.log.leave_out_newest_pictures(PICTURE_REFUSED)
                {
                    is_without_pictures = true;
                    self.flow.has_refused_pictures = true;
                    continue;
                }
                if failure.class == FailureClass::ContextTooLong && !has_shortened {
                    has_shortened = true;
                    history_tokens_max /= 2;
                    continue;
                }
                let is_of_cache = failure
                    .param
                    .as_ref()
                    .is_some_and(|param| param.starts_with("prompt_cache"));
                if is_of_cache && model.stop_caching() {
                    continue;
                }
            }
            let wait = retry_wait(&answer.ending, retries, &limits);
            let Some(wait) = wait.filter(|_| answer.ending.is_worth_another_try()) else {
                return AskOutcome::Answer(Box::new(answer), model.clone());
            };
            retries += 1;
            match self.pause(wait, patience, sink).await {
                Ok(()) => {}
                Err(GaveUp::Cancelled) => return AskOutcome::Cancelled,
                Err(GaveUp::Late) => return AskOutcome::Late,
            }
        }
    }

    /// Tokens of the model's window that are left for the conversation.
    pub(super) fn history_tokens_max(&self, model: &TextModel, system_instruction: &str) -> u64 {
        let declared = self.tools.text(&model.protocol).len() + system_instruction.len();
        let taken = declared as u64 / 4 + ANSWER_TOKENS;
        let left = model.profile.context_tokens_max.saturating_sub(taken);
        left.min(self.settings.limits.history_tokens_max)
    }

    fn body(
        &self,
        model: &TextModel,
        system_instruction: &str,
        tool_use: ToolUse,
        history_tokens_max: u64,
    ) -> Bytes {
        let body = model.encode(&Question {
            system_instruction,
            window: self.summaries.window(&self.log, history_tokens_max),
            tools: &self.tools,
            tool_use,
        });
        Bytes::from(body)
    }

    /// One request and its whole answer. The words reach the core as they come.
    async fn ask_once(
        &mut self,
        model: &Arc<TextModel>,
        body: Bytes,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Result<ModelAnswer, GaveUp> {
        self.sends_request(sink);
        let path = model.path();
        let posting = std::pin::pin!(model.client.post(&path, body));
        match self.wait_for(posting, patience, sink).await? {
            Err(error) => Ok(no_answer(unreachable(&error))),
            Ok(HttpResponse {
                status: 200, body, ..
            }) => self.read(model, body, patience, sink).await,
            Ok(HttpResponse {
                status,
                headers,
                body,
            }) => {
                let reading = std::pin::pin!(body.read_up_to(REFUSAL_BYTES_MAX));
                let said = self.wait_for(reading, patience, sink).await?;
                Ok(model.refusal(status, &headers, &said))
            }
        }
    }

    async fn read(
        &mut self,
        model: &Arc<TextModel>,
        mut body: AnswerBody,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Result<ModelAnswer, GaveUp> {
        let limits = self.settings.limits.answer;
        let mut decoder = model.decoder(self.log.next_answer(), limits, &self.tools);
        let mut events = Vec::new();
        let gave_up = loop {
            if decoder.is_finished() {
                body.leave();
                break None;
            }
            match self.wait(body.next(), patience, sink).await {
                Wake::Model(Some(Ok(bytes))) => {
                    decoder.push(&bytes, &mut events);
                    self.hear(&mut events, sink);
                    // hyper's connection is another task, which hands over one piece at a time. Its turn comes before the sink
                    // is flushed, so that pieces that were read together are written together.
                    let_ready_tasks_run().await;
                }
                // The ending of the answer shows what is missing.
                Wake::Model(Some(Err(_)) | None) => break None,
                Wake::Core => {}
                Wake::Cancelled => break Some(GaveUp::Cancelled),
                Wake::Late => break Some(GaveUp::Late),
            }
        };
        let mut answer = decoder.finish(model, &mut events);
        // The answer was paid for, whatever becomes of it.
        events.extend(answer.usage.take().map(|usage| model.used(usage)));
        self.hear(&mut events, sink);
        let Some(gave_up) = gave_up else {
            return Ok(answer);
        };
        for entry in answer.entries(model.route()) {
            // Calls of an answer that was given up get no results.
            if !matches!(entry, Entry::Call(_)) {
                self.note(entry);
            }
        }
        Err(gave_up)
    }

    fn hear(&mut self, events: &mut Vec<ModelEvent>, sink: &mut dyn TurnSink) {
        for event in events.drain(..) {
            self.feed(Input::Model(event), sink);
        }
    }

    async fn pause(
        &mut self,
        wait: Duration,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Result<(), GaveUp> {
        let over = std::pin::pin!(tokio::time::sleep(wait));
        self.wait_for(over, patience, sink).await
    }

    /// Waits for the model's result, unless the turn is cancelled or its time is up first.
    async fn wait_for<T>(
        &mut self,
        mut model: Pin<&mut impl Future<Output = T>>,
        patience: &mut Patience<'_>,
        sink: &mut dyn TurnSink,
    ) -> Result<T, GaveUp> {
        loop {
            match self.wait(model.as_mut(), patience, sink).await {
                Wake::Model(brought) => return Ok(brought),
                Wake::Core => {}
                Wake::Cancelled => return Err(GaveUp::Cancelled),
                Wake::Late => return Err(GaveUp::Late),
            }
        }
    }
}

/// The user's message about pictures that were left out so that the model took the request.
fn pictures_refused() -> ClientUpdate {
    ClientUpdate::Error {
        code: ErrorCode::Unsupported,
        message: "the model's provider refused the pictures of this message; send them again as PNG or JPEG, and smaller"
            .to_owned(),
        details: None,
    }
}

/// Whether no word of the answer was passed on, so that another attempt or another model may answer.
fn is_of_no_use(answer: &ModelAnswer) -> bool {
    match &answer.ending {
        Ending::Failed(_) | Ending::Cut => !answer.passed_on,
        // The turn itself asks again, after a correction.
        Ending::MalformedCall | Ending::UndeclaredCall | Ending::ProseCall | Ending::CallCut => {
            false
        }
        Ending::Complete
        | Ending::LengthReached
        | Ending::Blocked { .. }
        | Ending::Stopped { .. } => false,
    }
}

/// The wait before another attempt; `None` if there will be none.
fn retry_wait(ending: &Ending, retries: u32, limits: &TextLimits) -> Option<Duration> {
    if retries >= limits.request_retries_max {
        return None;
    }
    let asked_for = match ending {
        Ending::Failed(failure) => failure.retry_after,
        _ => None,
    };
    let wait = asked_for.unwrap_or_else(|| {
        let doubled = limits.retry_wait.saturating_mul(1 << retries.min(16));
        doubled
            .min(limits.retry_wait_max)
            .mul_f64(0.8 + 0.4 * chance())
    });
    (wait <= limits.retry_wait_max).then_some(wait)
}

/// From 0 to 1, so that sessions that failed together do not come back together.
fn chance() -> f64 {
    let mut byte = [128_u8];
    // Without randomness all sessions wait equally long, which does no harm.
    let _ = ids::fill(&mut byte);
    f64::from(byte[0]) / 255.0
}

fn report(model: &TextModel, ending: &Ending) {
    let model_name = &model.name;
    match ending {
        Ending::Failed(failure) => {
            tracing::warn!(model = %model_name, %failure, "a request to the model failed");
        }
        _ => tracing::warn!(model = %model_name, "an answer of the model was cut off"),
    }
}

/// Lets ready tasks run. Tokio's own `yield_now` looks at all sockets, too, which is a call into the kernel for each piece of an
/// answer.
async fn let_ready_tasks_run() {
    let mut has_waited = false;
    poll_fn(|context| match std::mem::replace(&mut has_waited, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

//! GPT-Live as a live provider. A text model does the tasks that the live model delegates: its calls are the session's, with
//! every policy and the ledger, and its words go back for the live model to say. Decides when an answer is over, because the
//! service does not say it.

use crate::codec::{Codec, LiveProvider, OpenRequest, Opening, Sink};
use crate::text::delegate::{Delegate, Step};
use crate::text::{TextSettings, TextTools};
use crate::transport::websocket::{self, MessageLimits, SocketLimits, Target};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use windlass_provider::gpt_live::{self, SetupRequest, encode_setup};
use windlass_provider::log::Entry;
use windlass_session::model::{HistoryEntry, LostReason, ModelCommand, ModelEvent, Role};

/// Settings that all sessions with one model share.
#[derive(Clone, Debug)]
pub struct GptLiveSettings {
    pub target: Target,
    pub model: String,
    /// Whether the target's headers hold a key of the configuration's.
    pub has_key: bool,
    /// The time from the first byte to the upgrade.
    pub connect_timeout: Duration,
    pub voice: Option<String>,
    /// The text models' settings, with one model at least.
    pub text: Arc<TextSettings>,
}

/// The provider of one session.
#[derive(Clone, Debug)]
pub struct GptLive {
    pub settings: Arc<GptLiveSettings>,
    pub system_instruction: Arc<str>,
    /// The session's tools, for the text model.
    pub tools: Arc<TextTools>,
}

/// The voice's instructions about its part, after the conversation's own.
const VOICE_PART: &str = "\n\n# Your part\n\nYou are the voice of this conversation. You have no tools of your own. Delegate whatever needs a tool, a look-up or a change, and say in a few words that you are on it. Never make up a result, and never say that something was done before you were told so. Say what you are told of the results in your own words, in the user's language.";
/// The instructions for the text model behind the voice.
const MIND_PART: &str = "\n\n# Your part\n\nYou work behind a voice that talks with the user; you read what both have said. Do what the user asked for last, with your tools where they are needed. Then write what the voice is to tell the user: a few short sentences, without lists or markup.";
/// The text model's notice of each task, which the service does not describe.
const HANDED_OVER: &str = "The voice has handed over to you what the user asked for last.";
/// The live model's text for a failed task.
const FAILED: &str = "The task could not be carried out: nobody behind the voice could be reached. Tell the user so, and that nothing more will come of it.";
const EARLIER: &str = "Earlier in this conversation, as context only; do not answer it again:";

/// Silence after which an answer is over.
const QUIET: Duration = Duration::from_millis(1_500);
/// The same while the model has not begun to say a text that it was given.
const QUIET_BEFORE: Duration = Duration::from_secs(10);
/// Tasks that wait for the current one.
const TASKS_MAX: usize = 8;
/// Bytes of speech between two tasks, on each of the two sides.
const SAID_BYTES_MAX: usize = 16 * 1024;
const UTTERANCES_MAX: usize = 256;
/// Bytes of earlier conversation for the voice.
const EARLIER_BYTES_MAX: usize = 4_000;

const MESSAGE_BYTES_MAX: usize = 8 << 20;

const SOCKET_LIMITS: SocketLimits = SocketLimits {
    messages: MessageLimits {
        text_bytes_max: MESSAGE_BYTES_MAX,
        binary_bytes_max: MESSAGE_BYTES_MAX,
    },
    // Ten seconds of buffered microphone audio at 24 kHz in base64 must fit.
    queued_audio_bytes_max: 768 * 1024,
    queued_bytes_max: 4 << 20,
};

impl LiveProvider for GptLive {
    fn has_key(&self) -> bool {
        self.settings.has_key
    }

    fn open(&self, request: OpenRequest<'_>) -> Opening {
        let settings = self.settings.clone();
        let OpenRequest {
            session,
            generation,
            ..
        } = request;
        let first_answer = first_answer(session.session_id.as_str(), session.epoch.0, generation);
        Opening {
            codec: Box::new(Connection::new(self, first_answer)),
            connecting: Box::pin(async move {
                let timeout = settings.connect_timeout;
                websocket::connect(&settings.target, SOCKET_LIMITS, timeout).await
            }),
        }
    }
}

/// The number of the first answer behind a connection. Our own ids are made of such numbers, and a repeated id of an earlier
/// connection of the session would be taken for the same call.
fn first_answer(session: &str, epoch: u32, generation: u64) -> u32 {
    let mut hasher = Sha256::new();
    hasher.update(session);
    hasher.update(epoch.to_be_bytes());
    hasher.update(generation.to_be_bytes());
    let hash: [u8; 32] = hasher.finalize().into();
    hash.first_chunk()
        .map_or(0, |first| u32::from_be_bytes(*first))
}

struct Connection {
    codec: gpt_live::Codec,
    provider: GptLive,
    delegate: Delegate,
    /// The speech since the last task.
    said: Vec<HistoryEntry>,
    /// The current task and the waiting ones, by the service's ids; `None` for a task that came another way.
    tasks: VecDeque<Option<Arc<str>>>,
    /// Whether the current task has calls that are not all settled.
    waits_for_results: bool,
    /// The result of the request, until it is passed on.
    step: Option<(Step, Vec<ModelEvent>)>,
    /// Whether the core has had the beginning of an answer, and not its end.
    is_answering: bool,
    /// The time at which the answer is over, if nothing more comes.
    quiet: Pin<Box<Sleep>>,
    is_quiet: bool,
    waker: Option<Waker>,
}

impl Connection {
    fn new(provider: &GptLive, first_answer: u32) -> Self {
        let instruction = format!("{}{MIND_PART}", provider.system_instruction);
        let text = provider.settings.text.clone();
        Self {
            codec: gpt_live::Codec::default(),
            provider: provider.clone(),
            delegate: Delegate::new(text, provider.tools.clone(), instruction, first_answer),
            said: Vec::new(),
            tasks: VecDeque::new(),
            waits_for_results: false,
            step: None,
            is_answering: false,
            quiet: Box::pin(tokio::time::sleep(QUIET)),
            is_quiet: false,
            waker: None,
        }
    }

    fn begin(&mut self, task: Option<Arc<str>>) {
        if self.tasks.len() == TASKS_MAX {
            tracing::warn!("a task of the live model was dropped: too many wait");
            return;
        }
        self.tasks.push_back(task);
        if self.tasks.len() == 1 {
            self.begin_first();
        }
    }

    /// Begins the current task, if there is one.
    fn begin_first(&mut self) {
        let Some(task) = self.tasks.front() else {
            return;
        };
        let is_handed_over = task.is_some();
        for entry in self.said.drain(..) {
            self.delegate.note(Entry::earlier(entry));
        }
        if is_handed_over {
            self.delegate
                .note(Entry::Notice(HANDED_OVER.to_owned().into()));
        }
        self.delegate.begin();
        self.wake();
    }

    /// Has the work polled again, although nothing has come over the connection.
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Expects more of an answer within this time; otherwise the answer is over.
    fn goes_on(&mut self, within: Duration) {
        self.is_answering = true;
        self.quiet.as_mut().reset(Instant::now() + within);
    }

    fn answer_ends(&mut self, sink: &mut dyn Sink) {
        if std::mem::take(&mut self.is_answering) {
            self.codec.answer_ended();
            sink.event(ModelEvent::GenerationComplete);
            sink.event(ModelEvent::TurnComplete {
                idle: true,
                reason: None,
                unplayed: sink.unplayed(),
            });
        }
    }

    /// Ends the current task: the live model gets its result, and the next task begins.
    fn tell(&mut self, text: &str, frames: &mut Vec<Vec<u8>>) {
        let task = self.tasks.pop_front().flatten();
        self.codec.commentary(task.as_deref(), text, frames);
        self.goes_on(QUIET_BEFORE);
        self.begin_first();
    }

    fn history(&mut self, entries: &[HistoryEntry], answer_now: bool, frames: &mut Vec<Vec<u8>>) {
        let mut earlier = Vec::new();
        let mut room = EARLIER_BYTES_MAX;
        for entry in entries.iter().rev() {
            let text = entry.text.expose();
            let Some(left) = room.checked_sub(text.len()) else {
                break;
            };
            room = left;
            earlier.push(match entry.role {
                Role::User => format!("The user: {text}"),
                Role::Assistant => format!("You: {text}"),
            });
        }
        earlier.push(EARLIER.to_owned());
        earlier.reverse();
        if earlier.len() > 1 {
            self.codec.thinking(None, &earlier.join("\n"), frames);
        }
        for entry in entries {
            self.delegate.note(Entry::earlier(entry.clone()));
        }
        let is_asked = entries.last().is_some_and(|last| last.role == Role::User);
        if answer_now && is_asked {
            self.begin(None);
        }
    }
}

impl Codec for Connection {
    fn encode_setup(&mut self, frame: &mut Vec<u8>) {
        let instructions = format!("{}{VOICE_PART}", self.provider.system_instruction);
        let settings = &self.provider.settings;
        encode_setup(
            &SetupRequest {
                model: &settings.model,
                instructions: &instructions,
                voice: settings.voice.as_deref(),
            },
            frame,
        );
    }

    fn decode(&mut self, frame: &[u8], sink: &mut dyn Sink) {
        let mut heard = Heard::default();
        self.codec.decode(frame, &mut heard);
        for what in heard.0 {
            match what {
                What::Audio(pcm) => {
                    self.goes_on(QUIET);
                    sink.audio(&pcm);
                }
                What::Event(event) => {
                    match &event {
                        ModelEvent::InputTranscript { text, .. } => {
                            // The user's next words end the model's earlier answer.
                            if self.tasks.is_empty() {
                                self.answer_ends(sink);
                            }
                            add(&mut self.said, Role::User, text.expose());
                        }
                        ModelEvent::OutputTranscript { text, .. } => {
                            self.goes_on(QUIET);
                            add(&mut self.said, Role::Assistant, text.expose());
                        }
                        _ => {}
                    }
                    sink.event(event);
                }
                What::Task(id) => self.begin(Some(id)),
            }
        }
    }

    fn react(&mut self, _frames: &mut Vec<Vec<u8>>) -> Result<(), LostReason> {
        self.codec.react()
    }

    fn encode(&mut self, command: &ModelCommand, frames: &mut Vec<Vec<u8>>) {
        match command {
            ModelCommand::ToolResponses(responses) => {
                for response in responses {
                    self.delegate.note(Entry::Result(response.clone()));
                }
            }
            ModelCommand::LateResults(responses) => {
                for response in responses {
                    self.delegate.note(Entry::told(response));
                }
                self.begin(None);
            }
            ModelCommand::UserText(text) => {
                add(&mut self.said, Role::User, text.expose());
                self.begin(None);
            }
            ModelCommand::Notice(text) => {
                self.delegate.note(Entry::Notice(text.clone()));
                self.begin(None);
            }
            ModelCommand::History {
                entries,
                answer_now,
            } => self.history(entries, *answer_now, frames),
            ModelCommand::Resynchronize => self.is_answering = false,
            // The model sees nothing, and hears the silence itself.
            ModelCommand::Image { .. } | ModelCommand::AudioEnded => {}
        }
    }

    /// Goes on with the task. A call without an answer reads as a call with an unknown outcome.
    fn calls_settled(&mut self) {
        if std::mem::take(&mut self.waits_for_results) {
            self.delegate.ask();
            self.wake();
        }
    }

    fn encode_audio(&mut self, pcm: &[u8], frame: &mut Vec<u8>) {
        self.codec.encode_audio(pcm, frame);
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.waker = Some(context.waker().clone());
        if let Poll::Ready(step) = self.delegate.poll(context) {
            self.step = Some(step);
            return Poll::Ready(());
        }
        if self.is_answering
            && self.tasks.is_empty()
            && self.quiet.as_mut().poll(context).is_ready()
        {
            self.is_quiet = true;
            return Poll::Ready(());
        }
        Poll::Pending
    }

    fn work(&mut self, sink: &mut dyn Sink, frames: &mut Vec<Vec<u8>>) {
        if let Some((step, events)) = self.step.take() {
            events.into_iter().for_each(|event| sink.event(event));
            match step {
                Step::Calls(calls) => {
                    let task = self.tasks.front().cloned().flatten();
                    let names = calls.iter().filter_map(|call| call.name.as_deref());
                    let names = names.collect::<Vec<_>>().join(", ");
                    let progress = format!("Under way: {names}. There is no result yet.");
                    self.codec.thinking(task.as_deref(), &progress, frames);
                    self.waits_for_results = true;
                    sink.event(ModelEvent::Calls(calls));
                }
                Step::Said(text) => self.tell(&text, frames),
                Step::Failed => self.tell(FAILED, frames),
            }
        }
        if std::mem::take(&mut self.is_quiet) {
            self.answer_ends(sink);
        }
    }
}

/// Adds to a side's last utterance, or begins a new one.
fn add(said: &mut Vec<HistoryEntry>, role: Role, piece: &str) {
    match said.last_mut() {
        Some(last) if last.role == role => {
            let text = &mut last.text.0;
            let room = SAID_BYTES_MAX.saturating_sub(text.len());
            text.push_str(&piece[..piece.floor_char_boundary(room)]);
        }
        Some(_) | None => {
            if said.len() == UTTERANCES_MAX {
                said.remove(0);
            }
            let end = piece.floor_char_boundary(SAID_BYTES_MAX);
            let text = piece[..end].to_owned().into();
            said.push(HistoryEntry { role, text });
        }
    }
}

/// The contents of one frame, in their order.
#[derive(Default)]
struct Heard(Vec<What>);

enum What {
    Event(ModelEvent),
    Audio(Vec<u8>),
    Task(Arc<str>),
}

impl gpt_live::Sink for Heard {
    fn event(&mut self, event: ModelEvent) {
        self.0.push(What::Event(event));
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.0.push(What::Audio(pcm.to_vec()));
    }

    fn delegated(&mut self, id: Arc<str>) {
        self.0.push(What::Task(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_provider::log::{ConversationLog, Limits, own_call_id};

    #[test]
    fn ids_of_our_own_do_not_begin_anew_with_the_next_connection() {
        let ids = [("s-1", 1, 1), ("s-1", 1, 2), ("s-1", 2, 1), ("s-2", 1, 1)].map(
            |(session, epoch, generation)| {
                let first = first_answer(session, epoch, generation);
                let log = ConversationLog::counting_from(first, Limits::default());
                own_call_id(log.next_answer(), 0)
            },
        );
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "{ids:?}");
    }
}

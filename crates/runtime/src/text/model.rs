//! A text model behind its protocol: the body of a request for an answer, and the decoder of the stream that comes back. Knows
//! the codecs and an address; decides nothing.

use crate::transport::http::{HttpClient, HttpError};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use windlass_contract::registry::Tool;
use windlass_provider::answer::{AnswerLimits, Ending, ModelAnswer};
use windlass_provider::failure::{Failure, FailureClass, ResponseHead};
use windlass_provider::gemini_live::ThinkingLevel;
use windlass_provider::log::{Route, Window};
use windlass_provider::openai_chat::{PromptCache, ReasoningEffort};
use windlass_provider::profile::{Profile, TextTransport};
use windlass_provider::prose::{Prose, ProseRules};
use windlass_provider::provider_tools::ProviderTool;
use windlass_provider::request::{Delivery, ToolUse, WrittenInstruction};
use windlass_provider::{gemini_interactions, gemini_text, openai_chat, openai_responses};
use windlass_session::model::{DeclarationForm, ModelEvent, ModelProfile, Usage};

/// Bytes reserved for a request before it is written. Longer ones, as with pictures, grow.
const BODY_BYTES_EXPECTED_MAX: usize = 256 * 1024;

/// One model of one server.
#[derive(Debug)]
pub struct TextModel {
    pub name: String,
    pub protocol: Protocol,
    pub client: Arc<HttpClient>,
    /// The core's profile of the model.
    pub profile: Arc<ModelProfile>,
    pub options: ModelOptions,
    route: Route,
    /// Whether the server has refused the fields of the prompt cache, which are then no longer sent.
    refuses_cache: AtomicBool,
    /// Whether an answer of the model has begun in a thought without a tag.
    begins_in_thought: AtomicBool,
    /// Bytes of the latest request; the next one will hardly be shorter.
    body_bytes: AtomicUsize,
    /// The latest instruction, which the requests of all sessions nearly always share.
    instruction: Mutex<Option<Arc<WrittenInstruction>>>,
}

#[derive(Clone, Debug)]
pub enum Protocol {
    Gemini {
        profile: Profile,
        /// `models/…`, or `projects/…` on Vertex.
        resource: String,
    },
    Openai {
        profile: Profile,
    },
}

impl Protocol {
    /// The provider's own tools that the model takes beside functions.
    pub fn provider_tools(&self) -> &'static [ProviderTool] {
        match self {
            // Vertex AI does not know the field that the combination needs.
            Self::Gemini { resource, .. } if !resource.starts_with("models/") => &[],
            Self::Gemini { profile, .. } => profile.provider_tools,
            Self::Openai { .. } => match self.transport() {
                TextTransport::ChatCompletions => &[],
                TextTransport::Responses
                | TextTransport::GenerateContent
                | TextTransport::Interactions => self.profile().provider_tools,
            },
        }
    }

    fn profile(&self) -> &Profile {
        match self {
            Self::Gemini { profile, .. } | Self::Openai { profile } => profile,
        }
    }

    /// The protocol of requests to the model: one that its provider speaks.
    pub fn transport(&self) -> TextTransport {
        let asked = self.profile().request.transport;
        match (self, asked) {
            (Self::Gemini { .. }, TextTransport::Interactions) => TextTransport::Interactions,
            (Self::Gemini { .. }, _) => TextTransport::GenerateContent,
            (Self::Openai { .. }, TextTransport::Responses) => TextTransport::Responses,
            (Self::Openai { .. }, _) => TextTransport::ChatCompletions,
        }
    }
}

/// The configuration's options for a model. Options that its profile does not support are not sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelOptions {
    pub temperature: Option<f64>,
    pub output_tokens_max: Option<u32>,
    pub thinking_level: Option<ThinkingLevel>,
    pub thinking_budget: Option<u32>,
}

/// The declarations of one registry and mode, in every form that a text model may want. Each form is made when a model first
/// needs it.
#[derive(Clone, Debug, Default)]
pub struct TextTools {
    tools: Vec<Arc<Tool>>,
    names: Arc<[Arc<str>]>,
    own: Vec<ProviderTool>,
    gemini_native: OnceLock<gemini_text::DeclaredTools>,
    gemini_json: OnceLock<gemini_text::DeclaredTools>,
    openai: OnceLock<openai_chat::DeclaredTools>,
    responses: OnceLock<openai_responses::DeclaredTools>,
    interactions: OnceLock<gemini_interactions::DeclaredTools>,
    cache_key: String,
}

impl TextTools {
    /// `name` identifies these tools for a server that caches common beginnings.
    pub fn new<'t>(tools: impl IntoIterator<Item = &'t Arc<Tool>>, name: &str) -> Self {
        let tools: Vec<Arc<Tool>> = tools.into_iter().cloned().collect();
        Self {
            names: tools.iter().map(|tool| tool.id.as_str().into()).collect(),
            tools,
            cache_key: format!("windlass-{name}"),
            ..Self::default()
        }
    }

    /// Adds the provider's own tools; every model of the settings takes them.
    pub fn beside(self, own: impl IntoIterator<Item = ProviderTool>) -> Self {
        Self {
            own: own.into_iter().collect(),
            ..self
        }
    }

    /// The declarations for the first model, for estimating their share of the context.
    pub fn text(&self, protocol: &Protocol) -> &str {
        match protocol.transport() {
            TextTransport::GenerateContent => self.gemini(&protocol.profile().model).text(),
            TextTransport::Interactions => self.interactions().text(),
            TextTransport::ChatCompletions => self.openai().text(),
            TextTransport::Responses => self.responses().text(),
        }
    }

    fn gemini(&self, profile: &ModelProfile) -> &gemini_text::DeclaredTools {
        let declared = match profile.declaration {
            DeclarationForm::GeminiJson => &self.gemini_json,
            DeclarationForm::GeminiNative
            | DeclarationForm::Openai
            | DeclarationForm::OpenaiRealtime => &self.gemini_native,
        };
        declared
            .get_or_init(|| gemini_text::DeclaredTools::new(&self.tools, profile).beside(&self.own))
    }

    fn responses(&self) -> &openai_responses::DeclaredTools {
        self.responses
            .get_or_init(|| openai_responses::DeclaredTools::new(&self.tools).beside(&self.own))
    }

    fn interactions(&self) -> &gemini_interactions::DeclaredTools {
        self.interactions
            .get_or_init(|| gemini_interactions::DeclaredTools::new(&self.tools).beside(&self.own))
    }

    fn openai(&self) -> &openai_chat::DeclaredTools {
        self.openai
            .get_or_init(|| openai_chat::DeclaredTools::new(&self.tools))
    }
}

/// The parts of a request for one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) system_instruction: &'a str,
    pub(super) window: Window<'a>,
    pub(super) tools: &'a TextTools,
    pub(super) tool_use: ToolUse,
}

/// Reads one answer.
pub(super) struct Decoder {
    stream: Stream,
    prose: Prose,
}

enum Stream {
    Gemini(gemini_text::Decoder),
    Openai(openai_chat::Decoder),
    Responses(openai_responses::Decoder),
    Interactions(gemini_interactions::Decoder),
}

impl TextModel {
    pub fn new(
        name: impl Into<String>,
        protocol: Protocol,
        client: Arc<HttpClient>,
        options: ModelOptions,
    ) -> Self {
        let name = name.into();
        // One client is one server with one key.
        let route = match protocol.transport() {
            TextTransport::GenerateContent => format!("gemini {client:?} {name}"),
            TextTransport::ChatCompletions => format!("openai {client:?} {name}"),
            TextTransport::Responses => format!("responses {client:?} {name}"),
            // The service wants one model's thoughts back in requests to another of its models, too.
            TextTransport::Interactions => format!("interactions {client:?}"),
        };
        Self {
            route: Route::new(route),
            profile: Arc::new(protocol.profile().model.clone()),
            name,
            protocol,
            client,
            options,
            refuses_cache: AtomicBool::new(false),
            begins_in_thought: AtomicBool::new(false),
            body_bytes: AtomicUsize::new(8 * 1024),
            instruction: Mutex::default(),
        }
    }

    fn written(&self, instruction: &str) -> Arc<WrittenInstruction> {
        let mut latest = self
            .instruction
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match &*latest {
            Some(written) if written.text() == instruction => written.clone(),
            Some(_) | None => {
                let written = Arc::new(WrittenInstruction::new(instruction));
                *latest = Some(written.clone());
                written
            }
        }
    }

    pub fn sees(&self) -> bool {
        self.profile.vision
    }

    /// The usage of one exchange with this model, for the core, whose session may be another model's.
    pub(crate) fn used(&self, usage: Usage) -> ModelEvent {
        ModelEvent::UsageOf {
            model: self.name.as_str().into(),
            context_tokens_max: self.profile.context_tokens_max,
            usage,
        }
    }

    /// The advice for a refusal, if the server was sent no key.
    pub(super) fn missing_key(&self) -> Option<&'static str> {
        let told = "no key was sent to the model's provider; set text.api_key, or the variable that text.api_key_env names";
        (!self.client.sends_key()).then_some(told)
    }

    pub(super) fn route(&self) -> &Route {
        &self.route
    }

    /// Takes the fields of the prompt cache out of every later request. Returns false if they were out already.
    pub(super) fn stop_caching(&self) -> bool {
        !self.refuses_cache.swap(true, Ordering::Relaxed)
    }

    /// The path of a request for an answer.
    pub(super) fn path(&self) -> String {
        match (&self.protocol, self.protocol.transport()) {
            (_, TextTransport::Interactions) => gemini_interactions::PATH.to_owned(),
            (Protocol::Gemini { resource, .. }, _) => {
                format!("/{}", gemini_text::path(resource, Delivery::Stream))
            }
            (Protocol::Openai { .. }, TextTransport::Responses) => "/responses".to_owned(),
            (Protocol::Openai { .. }, _) => "/chat/completions".to_owned(),
        }
    }

    pub(super) fn encode(&self, question: &Question<'_>) -> Vec<u8> {
        let options = self.options;
        let instruction = self.written(question.system_instruction);
        let mut body = Vec::with_capacity(self.body_bytes.load(Ordering::Relaxed));
        let profile = self.protocol.profile();
        let prompt_cache = || {
            let caches = !self.refuses_cache.load(Ordering::Relaxed);
            caches.then_some(PromptCache {
                key: &question.tools.cache_key,
                retention: None,
            })
        };
        match self.protocol.transport() {
            TextTransport::GenerateContent => gemini_text::encode_request(
                &gemini_text::Request {
                    system_instruction: (&*instruction).into(),
                    window: question.window,
                    route: &self.route,
                    tools: question.tools.gemini(&profile.model),
                    tool_use: question.tool_use,
                    temperature: options.temperature,
                    output_tokens_max: options.output_tokens_max,
                    thinking_level: options.thinking_level,
                    thinking_budget: options.thinking_budget,
                    cached_content: None,
                },
                profile,
                &mut body,
            ),
            TextTransport::Interactions => gemini_interactions::encode_request(
                &gemini_interactions::Request {
                    model: self.name.strip_prefix("models/").unwrap_or(&self.name),
                    system_instruction: (&*instruction).into(),
                    window: question.window,
                    route: &self.route,
                    tools: question.tools.interactions(),
                    tool_use: question.tool_use,
                    delivery: Delivery::Stream,
                    temperature: options.temperature,
                    output_tokens_max: options.output_tokens_max,
                    thinking_level: options.thinking_level,
                },
                profile,
                &mut body,
            ),
            TextTransport::Responses => openai_responses::encode_request(
                &openai_responses::Request {
                    model: &self.name,
                    system_instruction: (&*instruction).into(),
                    window: question.window,
                    route: &self.route,
                    tools: question.tools.responses(),
                    tool_use: question.tool_use,
                    parallel_calls: None,
                    delivery: Delivery::Stream,
                    temperature: options.temperature,
                    output_tokens_max: options.output_tokens_max,
                    reasoning_effort: options.thinking_level.map(ReasoningEffort::from),
                    prompt_cache: prompt_cache(),
                },
                profile,
                &mut body,
            ),
            TextTransport::ChatCompletions => openai_chat::encode_request(
                &openai_chat::Request {
                    model: &self.name,
                    system_instruction: (&*instruction).into(),
                    window: question.window,
                    route: &self.route,
                    tools: question.tools.openai(),
                    tool_use: question.tool_use,
                    parallel_calls: None,
                    delivery: Delivery::Stream,
                    temperature: options.temperature,
                    output_tokens_max: options.output_tokens_max,
                    reasoning_effort: options.thinking_level.map(ReasoningEffort::from),
                    prompt_cache: prompt_cache(),
                },
                profile,
                &mut body,
            ),
        }
        let room = (body.len() + body.len() / 8).min(BODY_BYTES_EXPECTED_MAX);
        self.body_bytes.store(room, Ordering::Relaxed);
        body
    }

    /// `tools` are the tools of the request.
    pub(super) fn decoder(
        &self,
        answer_number: u32,
        limits: AnswerLimits,
        tools: &TextTools,
    ) -> Decoder {
        let profile = self.protocol.profile();
        let stream = match self.protocol.transport() {
            TextTransport::GenerateContent => Stream::Gemini(gemini_text::Decoder::new(limits)),
            TextTransport::Interactions => {
                Stream::Interactions(gemini_interactions::Decoder::new(answer_number, limits))
            }
            TextTransport::ChatCompletions => {
                Stream::Openai(openai_chat::Decoder::new(profile, answer_number, limits))
            }
            TextTransport::Responses => {
                Stream::Responses(openai_responses::Decoder::new(answer_number, limits))
            }
        };
        let prose = Prose::new(ProseRules {
            thoughts: profile.request.thought_tags,
            begins_in_thought: self.begins_in_thought.load(Ordering::Relaxed),
            tools: tools.names.clone(),
        });
        Decoder { stream, prose }
    }

    /// The failed answer for a response with another status than 200.
    pub(super) fn refusal(
        &self,
        status: u16,
        headers: &http::HeaderMap,
        body: &[u8],
    ) -> ModelAnswer {
        let failure = self.failure(status, headers, body);
        let blocked = match self.protocol.transport() {
            TextTransport::Interactions => gemini_interactions::blocked(&failure),
            TextTransport::ChatCompletions
            | TextTransport::Responses
            | TextTransport::GenerateContent => None,
        };
        let answer = no_answer(failure);
        match blocked {
            Some(ending) => ModelAnswer { ending, ..answer },
            None => answer,
        }
    }

    fn failure(&self, status: u16, headers: &http::HeaderMap, body: &[u8]) -> Failure {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let head = ResponseHead {
            status,
            should_retry: header("x-should-retry"),
            retry_after_ms: header("retry-after-ms"),
            retry_after: header("retry-after"),
            now_unix_seconds: since_epoch.unwrap_or_default().as_secs(),
        };
        match &self.protocol {
            Protocol::Gemini { .. } => gemini_text::failure(&head, body),
            Protocol::Openai { .. } => openai_chat::failure(&head, body),
        }
    }
}

impl Decoder {
    pub(super) fn push(&mut self, bytes: &[u8], events: &mut Vec<ModelEvent>) {
        let from = events.len();
        match &mut self.stream {
            Stream::Gemini(decoder) => decoder.push(bytes, events),
            Stream::Openai(decoder) => decoder.push(bytes, events),
            Stream::Responses(decoder) => decoder.push(bytes, events),
            Stream::Interactions(decoder) => decoder.push(bytes, events),
        }
        self.prose.hear(events, from);
    }

    pub(super) fn is_finished(&self) -> bool {
        match &self.stream {
            Stream::Gemini(decoder) => decoder.is_finished(),
            Stream::Openai(decoder) => decoder.is_finished(),
            Stream::Responses(decoder) => decoder.is_finished(),
            Stream::Interactions(decoder) => decoder.is_finished(),
        }
    }

    pub(super) fn finish(mut self, model: &TextModel, events: &mut Vec<ModelEvent>) -> ModelAnswer {
        let from = events.len();
        let mut answer = match self.stream {
            Stream::Gemini(decoder) => decoder.finish(events),
            Stream::Openai(decoder) => decoder.finish(events),
            Stream::Responses(decoder) => decoder.finish(events),
            Stream::Interactions(decoder) => decoder.finish(events),
        };
        self.prose.hear(events, from);
        if self.prose.finish(&mut answer, events) {
            model.begins_in_thought.store(true, Ordering::Relaxed);
        }
        answer
    }
}

/// An answer that never began.
pub(super) fn no_answer(failure: Failure) -> ModelAnswer {
    ModelAnswer {
        pieces: Vec::new(),
        opaque: None,
        calls: Vec::new(),
        usage: None,
        ending: Ending::Failed(failure),
        passed_on: false,
    }
}

/// The failure of a request whose server cannot be reached.
pub(super) fn unreachable(error: &HttpError) -> Failure {
    let class = match error {
        HttpError::Silent { .. } => FailureClass::Timeout,
        HttpError::Connect(error) if error.is_lasting() => FailureClass::NoWay,
        HttpError::Connect(_) | HttpError::Broken { .. } => FailureClass::ServerFault,
        HttpError::Path { .. } => FailureClass::InvalidRequest,
    };
    Failure {
        status: None,
        retryable: !matches!(class, FailureClass::InvalidRequest | FailureClass::NoWay),
        class,
        retry_after: None,
        code: None,
        param: None,
        message: error.to_string(),
    }
}

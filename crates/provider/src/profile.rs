//! The abilities of each model and each compatible server: one table for all codecs, with a row for each family. The
//! configuration can change a few fields of a row. Behaviour differs more by model than by version of an API, and each new model
//! has changed the rules. Knows nothing of a session.

use crate::provider_tools::ProviderTool;
use serde::{Deserialize, Serialize};
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// Models of sessions for which none is configured.
pub const GEMINI_LIVE_MODEL: &str = "gemini-3.8-live";
pub const OPENAI_REALTIME_MODEL: &str = "gpt-realtime-2.1";
pub const GPT_LIVE_MODEL: &str = "gpt-live-1";
pub const GEMINI_TEXT_MODEL: &str = "gemini-3.5-flash";
pub const OPENAI_TEXT_MODEL: &str = "gpt-5.4-mini";

/// The abilities of a model, and the rules of its server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Profile {
    #[serde(flatten)]
    pub model: ModelProfile,
    #[serde(flatten)]
    pub request: RequestRules,
    /// The provider's own tools that the model takes beside our functions.
    pub provider_tools: &'static [ProviderTool],
    pub realtime: RealtimeForm,
}

/// The realtime protocol of a server, among those like OpenAI's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RealtimeForm {
    #[default]
    Openai,
    Xai,
    /// The protocol of OpenAI's beta, which the dated versions of Azure Voice Live still speak.
    VoiceLive,
    /// OpenAI's own with the kind of voice beside its name, which version `v1` of Azure Voice Live speaks.
    VoiceLiveV1,
}

impl RealtimeForm {
    /// The protocol of this version of the service's interface, if a version is named.
    pub fn of_version(self, version: Option<&str>) -> Self {
        match (self, version) {
            (Self::VoiceLive, Some("v1")) => Self::VoiceLiveV1,
            (other, _) => other,
        }
    }
}

/// Rules for a request over HTTP. A live codec uses none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestRules {
    pub transport: TextTransport,
    pub output_limit: OutputLimit,
    /// Whether usage has to be requested with `stream_options`; some servers send it anyway and refuse the field.
    pub stream_usage: bool,
    pub tool_choice: bool,
    pub parallel_tool_calls: bool,
    /// Whether the server knows `prompt_cache_key` and `prompt_cache_retention`.
    pub prompt_cache: bool,
    /// Whether a call that comes back without a thought signature is refused.
    pub thought_signatures: bool,
    pub reasoning: Reasoning,
    /// Whether Responses returns the reasoning of its models encrypted, although their levels of reasoning are unknown.
    pub encrypted_reasoning: bool,
    /// Whether text between `<think>` and `</think>` in an answer is a thought. Servers whose models think elsewhere have no such
    /// tags, and their users may write about the tags.
    pub thought_tags: bool,
    /// Whether the server takes a temperature.
    pub temperature: bool,
    pub call_ids: CallIds,
    /// Whether a user's message may follow the answers to calls.
    pub user_after_tool: bool,
}

/// The protocol in which a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextTransport {
    /// OpenAI's.
    ChatCompletions,
    /// OpenAI's.
    Responses,
    /// Gemini's.
    GenerateContent,
    /// Gemini's.
    Interactions,
}

impl TextTransport {
    /// The protocol's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat_completions",
            Self::Responses => "responses",
            Self::GenerateContent => "generate_content",
            Self::Interactions => "interactions",
        }
    }
}

/// The field for the limit of an answer's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    MaxCompletionTokens,
    /// Deprecated by OpenAI, and the only one that many servers know.
    MaxTokens,
}

/// The handling of a model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// The reasoning is dropped; some servers refuse to see it again.
    Dropped,
    /// An answer with calls must bring its `reasoning_content` back, even an empty one.
    ReturnedWithCalls,
    /// The `reasoning_details` of an answer go back with it, unread (LibreChat-AI/agents issue 37).
    DetailsReturned,
}

/// The ids of calls that a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Letters, digits, `_` and `-`, at most 40 (vercel/ai issue 5171).
    Short,
    /// Nine letters and digits.
    Nine,
    /// Any id, and one for every call: a missing one has ended in an empty answer (BerriAI/litellm pull request 34603).
    Always,
    /// Only ids that the model gave: elsewhere the field has been refused as unknown (looplj/axonhub issue 874).
    AsGiven,
}

/// The protocol by which a model is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    GeminiLive,
    OpenaiRealtime,
    GptLive,
    GeminiText,
    OpenaiChat,
}

struct Row {
    transport: Transport,
    /// A model's id, or the common beginning of a family's ids; over Chat Completions the host, or its end after a dot. Empty for
    /// the row of unknown models.
    name: &'static str,
    profile: Profile,
    /// A note for operators, for the log.
    note: Option<&'static str>,
}

/// Stable since September 2026. Calls are non-blocking unless `behavior` says otherwise; a thinking level closes the
/// setup; new input while a blocking call runs makes the service cancel it.
const LIVE_3_8: ModelProfile = ModelProfile {
    calls: CallSupport::Both,
    scheduling: true,
    declaration: DeclarationForm::GeminiNative,
    answers: AnswerBatching::Together,
    text_input: TextInput::RealtimeInput,
    history: HistoryInput::ClientContent,
    resumption: true,
    hold_microphone: true,
    thinking: Thinking::Omit,
    vision: true,
    context_tokens_max: 131_072,
};

/// Refuses blocking calls; `scheduling` in a result has closed the session with 1007 (openclaw/openclaw pull request
/// 152413); reads only the native form of declarations.
const LIVE_3_8_EXTENDED_THINKING: ModelProfile = ModelProfile {
    calls: CallSupport::NonBlockingOnly,
    scheduling: false,
    answers: AnswerBatching::AsReady,
    hold_microphone: false,
    thinking: Thinking::Level,
    ..LIVE_3_8
};

/// Synchronous calls only. Content after the start closes the session with 1007 unless it is history that the setup
/// announced; microphone audio during a call has had the call cancelled and asked for again.
const LIVE_3_1: ModelProfile = ModelProfile {
    calls: CallSupport::BlockingOnly,
    scheduling: false,
    history: HistoryInput::InitialClientContent,
    thinking: Thinking::Level,
    ..LIVE_3_8
};

/// Input during an unanswered call has closed the session with 1008.
const NATIVE_AUDIO_2_5: ModelProfile = ModelProfile {
    text_input: TextInput::ClientContent,
    thinking: Thinking::Budget,
    ..LIVE_3_8
};

/// Takes speech during a call and its result afterwards. Its thinking is undocumented.
const VERTEX_2_5: ModelProfile = ModelProfile {
    hold_microphone: false,
    thinking: Thinking::Omit,
    ..NATIVE_AUDIO_2_5
};

/// Only features that every Live model has taken so far. Calls are declared without `behavior` and treated as blocking, results
/// go without `scheduling`, and the smallest window of any Live model is assumed.
const UNKNOWN_LIVE: ModelProfile = ModelProfile {
    thinking: Thinking::Omit,
    vision: false,
    context_tokens_max: 32_768,
    ..LIVE_3_1
};

/// The models that translate or transcribe take no tools, no text and no pictures.
const SPEECH_ONLY: ModelProfile = ModelProfile {
    hold_microphone: false,
    ..UNKNOWN_LIVE
};

/// Reasons, takes 128k tokens, and speaks while calls are open. No call is declared as non-blocking, because the protocol has no
/// word for it: the model is asked to go on when the results are there.
const REALTIME_2: ModelProfile = ModelProfile {
    calls: CallSupport::BlockingOnly,
    scheduling: false,
    declaration: DeclarationForm::OpenaiRealtime,
    text_input: TextInput::ClientContent,
    resumption: false,
    hold_microphone: false,
    thinking: Thinking::Level,
    context_tokens_max: 128_000,
    ..LIVE_3_8
};

/// A window of 32,768 tokens, and no `reasoning`.
const REALTIME_1: ModelProfile = ModelProfile {
    thinking: Thinking::Omit,
    context_tokens_max: 32_768,
    ..REALTIME_2
};

const UNKNOWN_REALTIME: ModelProfile = ModelProfile {
    vision: false,
    ..REALTIME_1
};

/// The model makes no call itself: the calls of the model behind it block. Its window's size is undocumented; it forgets by
/// itself.
const GPT_LIVE: ModelProfile = UNKNOWN_REALTIME;

/// Only features that nearly every server of Chat Completions takes.
const UNKNOWN_CHAT: Profile = Profile {
    provider_tools: &[],
    realtime: RealtimeForm::Openai,
    model: ModelProfile {
        declaration: DeclarationForm::Openai,
        ..UNKNOWN_REALTIME
    },
    request: RequestRules {
        transport: TextTransport::ChatCompletions,
        output_limit: OutputLimit::MaxTokens,
        stream_usage: true,
        tool_choice: true,
        parallel_tool_calls: false,
        prompt_cache: false,
        thought_signatures: false,
        reasoning: Reasoning::Dropped,
        encrypted_reasoning: false,
        thought_tags: true,
        temperature: true,
        call_ids: CallIds::Short,
        user_after_tool: true,
    },
};

/// The prompt cache's fields: <https://developers.openai.com/docs/guides/prompt-caching>. Over Chat Completions its models
/// refuse tools while they reason (openai/openai-openapi issue 541).
const OPENAI: Profile = Profile {
    provider_tools: &[ProviderTool::WebSearch, ProviderTool::CodeInterpreter],
    model: chat(Thinking::Level, true, 128_000),
    request: RequestRules {
        transport: TextTransport::Responses,
        output_limit: OutputLimit::MaxCompletionTokens,
        parallel_tool_calls: true,
        prompt_cache: true,
        thought_tags: false,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

/// The service's own tools on Azure are unknown.
const AZURE: Profile = Profile {
    provider_tools: &[],
    ..OPENAI
};

/// Its models reason by themselves, and the newest take no effort. Its tools:
/// <https://docs.x.ai/developers/tools/overview>; its reasoning: <https://docs.x.ai/docs/guides/reasoning>.
const XAI: Profile = Profile {
    provider_tools: &[ProviderTool::WebSearch],
    model: chat(Thinking::Omit, true, 131_072),
    request: RequestRules {
        transport: TextTransport::Responses,
        parallel_tool_calls: true,
        encrypted_reasoning: true,
        thought_tags: false,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

/// Gemini's compatibility layer. Since Gemini 3 a call must come back with its signature.
const GEMINI_CHAT: Profile = Profile {
    model: chat(Thinking::Level, true, 1_048_576),
    request: RequestRules {
        thought_signatures: true,
        thought_tags: false,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

const OPENROUTER: Profile = Profile {
    model: chat(Thinking::Omit, false, 128_000),
    request: RequestRules {
        parallel_tool_calls: true,
        reasoning: Reasoning::DetailsReturned,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

/// Thinks by default, and then refuses answers with calls that come back without their reasoning (anomalyco/opencode
/// issue 24722), the empty one included (deepseek-ai/deepseek-harness discussion 739).
const DEEPSEEK: Profile = Profile {
    model: chat(Thinking::Level, false, 128_000),
    request: RequestRules {
        reasoning: Reasoning::ReturnedWithCalls,
        thought_tags: false,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

/// Refuses fields that it does not know, `stream_options` (openai/openai-agents-python issue 442) and
/// `max_completion_tokens` (editor-code-assistant/eca issue 231) among them; ids of other forms than its own
/// (langchain-ai/langchain pull request 24668); and a user's message behind the answer to a call (aaif-goose/goose issue
/// 5998).
const MISTRAL: Profile = Profile {
    model: chat(Thinking::Omit, false, 128_000),
    request: RequestRules {
        stream_usage: false,
        parallel_tool_calls: true,
        call_ids: CallIds::Nine,
        user_after_tool: false,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

/// Its documentation lists `tool_choice` as not supported (ollama/ollama:docs/api/openai-compatibility.mdx).
const OLLAMA: Profile = Profile {
    model: chat(Thinking::Level, false, 32_768),
    request: RequestRules {
        tool_choice: false,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

/// Levels of thinking, signed calls, ids on everything. The models take the service's own tools beside functions
/// (<https://ai.google.dev/gemini-api/docs/tool-combination>); their predecessors take such tools alone.
const GEMINI_3: Profile = Profile {
    provider_tools: &[ProviderTool::GoogleSearch, ProviderTool::CodeExecution],
    model: ModelProfile {
        declaration: DeclarationForm::GeminiJson,
        ..chat(Thinking::Level, true, 1_048_576)
    },
    request: RequestRules {
        transport: TextTransport::GenerateContent,
        thought_signatures: true,
        thought_tags: false,
        call_ids: CallIds::Always,
        ..UNKNOWN_CHAT.request
    },
    ..UNKNOWN_CHAT
};

/// A budget of thinking; signatures are optional.
const GEMINI_2_5: Profile = Profile {
    provider_tools: &[],
    model: ModelProfile {
        thinking: Thinking::Budget,
        ..GEMINI_3.model
    },
    request: RequestRules {
        thought_signatures: false,
        call_ids: CallIds::AsGiven,
        ..GEMINI_3.request
    },
    ..GEMINI_3
};

const GEMINI_2_0: Profile = Profile {
    model: ModelProfile {
        declaration: DeclarationForm::GeminiNative,
        thinking: Thinking::Omit,
        ..GEMINI_2_5.model
    },
    ..GEMINI_2_5
};

/// The row for a name that stands for another model every few months: the rules of the newest model, without fields that depend
/// on the model.
const GEMINI_NEWEST: Profile = Profile {
    model: ModelProfile {
        thinking: Thinking::Omit,
        ..GEMINI_3.model
    },
    ..GEMINI_3
};

/// The signature that stands for a missing one is a field that every version of the API knows.
const UNKNOWN_GEMINI: Profile = Profile {
    model: ModelProfile {
        declaration: DeclarationForm::GeminiNative,
        vision: false,
        context_tokens_max: 131_072,
        ..GEMINI_NEWEST.model
    },
    provider_tools: &[],
    ..GEMINI_3
};

const NO_TOOLS: &str = "this model takes no tools: a session with tools will be refused";
/// OpenAI's announcement; the model is served until then.
const ENDS: &str = "OpenAI ends this model on 2027-01-20: choose gpt-realtime-2.1";
const OLLAMA_NOTE: &str = "ollama drops the front of a prompt that is longer than its own context length without saying so: set OLLAMA_CONTEXT_LENGTH to no less than the profile's context_tokens_max";

const OPENAI_ROW: &str = "api.openai.com";

const AZURE_ROW: &str = "openai.azure.com";
/// Prefixes of OpenAI's models that reason.
const REASONING: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

const XAI_ROW: &str = "api.x.ai";
/// The row of addresses with this path.
const VOICE_LIVE_ROW: &str = "voice-live";
const VOICE_LIVE_PATH: &str = "/voice-live/";

/// The row for a server on this port, whatever its host.
const OLLAMA_ROW: &str = "ollama";
const OLLAMA_PORT: &str = "11434";

/// Mistral's models keep their chat template's rules on every server (mistralai/mistral-vibe issue 578).
const MISTRAL_MODELS: [&str; 5] = ["mistral", "ministral", "magistral", "devstral", "codestral"];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    searching(live("gemini-3.8-live", LIVE_3_8, None)),
    searching(live("gemini-3.8-live-extended-thinking", LIVE_3_8_EXTENDED_THINKING, None)),
    searching(live("gemini-3.1-flash-live", LIVE_3_1, None)),
    live("gemini-2.5-flash-native-audio", NATIVE_AUDIO_2_5, None),
    live("gemini-live-2.5-flash", VERTEX_2_5, None),
    live("gemini-3.5-live-translate-preview", SPEECH_ONLY, Some(NO_TOOLS)),
    live("gemini-3.5-transcribe-live-preview", SPEECH_ONLY, Some(NO_TOOLS)),
    live("", UNKNOWN_LIVE, Some("makes blocking calls only")),
    realtime("gpt-realtime-2.1", REALTIME_2, None),
    realtime("gpt-realtime-2", REALTIME_2, None),
    realtime("gpt-realtime-1.5", REALTIME_1, None),
    realtime("gpt-realtime-mini", REALTIME_1, Some(ENDS)),
    realtime("gpt-realtime", REALTIME_1, Some(ENDS)),
    of_form(RealtimeForm::Xai, realtime(XAI_ROW, UNKNOWN_REALTIME, None)),
    of_form(RealtimeForm::VoiceLive, realtime(VOICE_LIVE_ROW, UNKNOWN_REALTIME, None)),
    realtime("", UNKNOWN_REALTIME, Some("has a window of 32,768 tokens and neither reasons nor sees")),
    row(Transport::GptLive, "", beside_http(GPT_LIVE), None),
    row(Transport::GeminiText, "gemini-4", GEMINI_NEWEST, None),
    row(Transport::GeminiText, "gemini-3", GEMINI_3, None),
    row(Transport::GeminiText, "gemini-2.5", GEMINI_2_5, None),
    row(Transport::GeminiText, "gemini-2.0", GEMINI_2_0, None),
    row(Transport::GeminiText, "gemini-1.5", GEMINI_2_0, None),
    row(Transport::GeminiText, "gemini-pro-latest", GEMINI_NEWEST, None),
    row(Transport::GeminiText, "gemini-flash-latest", GEMINI_NEWEST, None),
    row(Transport::GeminiText, "gemini-flash-lite-latest", GEMINI_NEWEST, None),
    row(Transport::GeminiText, "", UNKNOWN_GEMINI, Some("is a Gemini 3 model that neither sees nor takes a thinking level")),
    row(Transport::OpenaiChat, OPENAI_ROW, OPENAI, None),
    row(Transport::OpenaiChat, AZURE_ROW, AZURE, None),
    row(Transport::OpenaiChat, XAI_ROW, XAI, None),
    row(Transport::OpenaiChat, "generativelanguage.googleapis.com", GEMINI_CHAT, None),
    row(Transport::OpenaiChat, "openrouter.ai", OPENROUTER, None),
    row(Transport::OpenaiChat, "api.deepseek.com", DEEPSEEK, None),
    row(Transport::OpenaiChat, "api.mistral.ai", MISTRAL, None),
    row(Transport::OpenaiChat, OLLAMA_ROW, OLLAMA, Some(OLLAMA_NOTE)),
    row(Transport::OpenaiChat, "", UNKNOWN_CHAT, None),
];

const fn row(
    transport: Transport,
    name: &'static str,
    profile: Profile,
    note: Option<&'static str>,
) -> Row {
    Row {
        transport,
        name,
        profile,
        note,
    }
}

const fn live(name: &'static str, model: ModelProfile, note: Option<&'static str>) -> Row {
    row(Transport::GeminiLive, name, beside_http(model), note)
}

const fn of_form(form: RealtimeForm, mut row: Row) -> Row {
    row.profile.realtime = form;
    row
}

const fn searching(mut row: Row) -> Row {
    row.profile.provider_tools = &[ProviderTool::GoogleSearch];
    row
}

const fn realtime(name: &'static str, model: ModelProfile, note: Option<&'static str>) -> Row {
    row(Transport::OpenaiRealtime, name, beside_http(model), note)
}

const fn beside_http(model: ModelProfile) -> Profile {
    Profile {
        model,
        ..UNKNOWN_CHAT
    }
}

const fn chat(thinking: Thinking, vision: bool, context_tokens_max: u64) -> ModelProfile {
    ModelProfile {
        thinking,
        vision,
        context_tokens_max,
        ..UNKNOWN_CHAT.model
    }
}

/// A profile, and the row that it comes from.
#[derive(Clone, Debug)]
pub struct FoundProfile {
    pub profile: Profile,
    /// The name of the row; empty if the model or its server is unknown.
    pub row: &'static str,
    /// A note for operators, for the log.
    pub note: Option<String>,
    transport: Transport,
    model: String,
}

/// Finds the abilities of a model of Gemini Live, by its id or its resource name.
pub fn gemini_live(model: &str) -> FoundProfile {
    by_id(Transport::GeminiLive, model)
}

/// Finds the abilities of a model of OpenAI Realtime, by its id; or those of the server at an address, if it speaks a protocol
/// like OpenAI's.
pub fn openai_realtime(url: Option<&str>, model: &str) -> FoundProfile {
    let found = by_id(Transport::OpenaiRealtime, model);
    let url = url.unwrap_or_default();
    match host_and_port(url).0.as_str() {
        XAI_ROW => found.like(XAI_ROW),
        _ if url.contains(VOICE_LIVE_PATH) => found.like(VOICE_LIVE_ROW),
        _ => found,
    }
}

/// Finds the abilities of a model of GPT-Live: the same for all, as far as is known.
pub fn gpt_live(model: &str) -> FoundProfile {
    by_id(Transport::GptLive, model)
}

/// Finds the abilities of a model of Gemini by text, by its id or its resource name.
pub fn gemini_text(model: &str) -> FoundProfile {
    by_id(Transport::GeminiText, model)
}

/// Finds the rules of the server at a base URL for a model.
pub fn openai_chat(base_url: &str, model: &str) -> FoundProfile {
    let (host, port) = host_and_port(base_url);
    let found = found(Transport::OpenaiChat, model, |name| {
        let rest = host.strip_suffix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    match found.row {
        "" if port == OLLAMA_PORT => found.like(OLLAMA_ROW),
        _ => found,
    }
}

/// Whether the table has a row of this name.
pub fn is_row(name: &str) -> bool {
    !name.is_empty() && ROWS.iter().any(|row| row.name == name)
}

fn by_id(transport: Transport, model: &str) -> FoundProfile {
    let id = model.rsplit('/').next().unwrap_or(model);
    found(transport, id, |name| {
        let rest = id.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
    })
}

/// The profile of the longest fitting name, or the row of unknown models.
fn found(transport: Transport, model: &str, fits: impl Fn(&str) -> bool) -> FoundProfile {
    let rows = ROWS.iter().filter(|row| row.transport == transport);
    let row = rows
        .filter(|row| row.name.is_empty() || fits(row.name))
        .max_by_key(|row| row.name.len())
        .expect("each transport has a row for what nobody knows");
    row.found(model)
}

impl Row {
    fn found(&self, model: &str) -> FoundProfile {
        let mut profile = self.profile.clone();
        let name = model.to_ascii_lowercase();
        if self.transport == Transport::OpenaiChat
            && MISTRAL_MODELS.iter().any(|own| name.contains(own))
        {
            profile.request.call_ids = CallIds::Nine;
            profile.request.user_after_tool = false;
        }
        if name.contains("non-reasoning") {
            profile.request.encrypted_reasoning = false;
        }
        // Models before GPT-5 do not reason, and refuse settings of reasoning.
        let is_old = ["gpt-3", "gpt-4", "chatgpt-4"]
            .iter()
            .any(|old| name.starts_with(old));
        let is_openai = self.transport == Transport::OpenaiChat && self.name == OPENAI_ROW;
        if is_openai && is_old {
            profile.model.thinking = Thinking::Omit;
        }
        // Reasoning models refuse every temperature but 1 (bolna-ai/bolna pull request 1019). On Azure a deployment may have any
        // name.
        let is_azure = self.transport == Transport::OpenaiChat && self.name == AZURE_ROW;
        let is_newer_gpt = is_openai && name.starts_with("gpt-") && !is_old;
        let is_named = (is_openai || is_azure) && REASONING.iter().any(|own| name.starts_with(own));
        if (is_newer_gpt || is_named) && !name.contains("-chat") {
            profile.request.temperature = false;
        }
        FoundProfile {
            profile,
            row: self.name,
            note: self.note.map(|note| match self.name {
                "" => format!(
                    "nothing is known of the model {model:?}: it is treated as one that {note}; say in the configuration which known one it is like"
                ),
                _ => note.to_owned(),
            }),
            transport: self.transport,
            model: model.to_owned(),
        }
    }
}

/// The configuration's changes to a model's profile. A missing field changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileChange {
    /// The row whose profile the model gets.
    pub like: Option<String>,
    pub calls: Option<CallSupport>,
    pub hold_microphone: Option<bool>,
    pub thinking: Option<Thinking>,
    pub vision: Option<bool>,
    pub context_tokens_max: Option<u64>,
    pub thought_tags: Option<bool>,
    pub temperature: Option<bool>,
    pub transport: Option<TextTransport>,
}

impl FoundProfile {
    /// The profile of another row, if that row has the model's transport.
    fn like(self, name: &str) -> Self {
        let mut rows = ROWS.iter();
        match rows.find(|row| (row.transport, row.name) == (self.transport, name)) {
            Some(row) => row.found(&self.model),
            None => self,
        }
    }

    /// The profile with the changes.
    pub fn changed(self, change: &ProfileChange) -> Self {
        let mut found = match &change.like {
            Some(name) => self.like(name),
            None => self,
        };
        let model = &mut found.profile.model;
        model.calls = change.calls.unwrap_or(model.calls);
        model.scheduling &= model.calls != CallSupport::BlockingOnly;
        model.hold_microphone = change.hold_microphone.unwrap_or(model.hold_microphone);
        model.thinking = change.thinking.unwrap_or(model.thinking);
        model.vision = change.vision.unwrap_or(model.vision);
        model.context_tokens_max = change
            .context_tokens_max
            .unwrap_or(model.context_tokens_max);
        let request = &mut found.profile.request;
        request.transport = change.transport.unwrap_or(request.transport);
        request.thought_tags = change.thought_tags.unwrap_or(request.thought_tags);
        request.temperature = change.temperature.unwrap_or(request.temperature);
        found
    }
}

/// Host and port of `https://host:port/path`, in lower case; empty strings for missing ones.
fn host_and_port(url: &str) -> (String, String) {
    let behind_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = behind_scheme
        .find(['/', '?', '#'])
        .unwrap_or(behind_scheme.len());
    let authority = &behind_scheme[..end];
    let authority = authority
        .rsplit_once('@')
        .map_or(authority, |(_, rest)| rest);
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        Some(_) | None => (authority, ""),
    };
    (host.to_ascii_lowercase(), port.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_model_is_found_by_its_family_or_not_at_all() {
        for (model, row, profile) in [
            ("gemini-3.8-live", "gemini-3.8-live", LIVE_3_8),
            ("models/gemini-3.8-live", "gemini-3.8-live", LIVE_3_8),
            (
                "projects/p/locations/l/publishers/google/models/gemini-live-2.5-flash-native-audio",
                "gemini-live-2.5-flash",
                VERTEX_2_5,
            ),
            (
                "gemini-3.8-live-extended-thinking-002",
                "gemini-3.8-live-extended-thinking",
                LIVE_3_8_EXTENDED_THINKING,
            ),
            (
                "gemini-3.1-flash-live-preview",
                "gemini-3.1-flash-live",
                LIVE_3_1,
            ),
            (
                "gemini-2.5-flash-native-audio-preview-09-2025",
                "gemini-2.5-flash-native-audio",
                NATIVE_AUDIO_2_5,
            ),
            ("gemini-3.8-lively", "", UNKNOWN_LIVE),
            ("gemini-9", "", UNKNOWN_LIVE),
            ("", "", UNKNOWN_LIVE),
        ] {
            let found = gemini_live(model);
            assert_eq!((found.row, found.profile.model), (row, profile), "{model}");
            assert_eq!(found.note.is_some(), row.is_empty(), "{model}");
        }
        assert!(
            gemini_live("gemini-3.5-live-translate-preview")
                .note
                .is_some()
        );
        for (model, row, profile) in [
            ("gpt-realtime-2.1", "gpt-realtime-2.1", REALTIME_2),
            (
                "gpt-realtime-2.1-2026-09-01",
                "gpt-realtime-2.1",
                REALTIME_2,
            ),
            ("gpt-realtime-2025-08-28", "gpt-realtime", REALTIME_1),
            (
                "gpt-realtime-mini-2025-12-15",
                "gpt-realtime-mini",
                REALTIME_1,
            ),
            ("gpt-realtime2", "", UNKNOWN_REALTIME),
            ("", "", UNKNOWN_REALTIME),
        ] {
            let found = openai_realtime(None, model);
            assert_eq!((found.row, found.profile.model), (row, profile), "{model}");
        }
        assert!(openai_realtime(None, "gpt-realtime").note.is_some());
        for (url, form) in [
            ("https://api.x.ai/v1", RealtimeForm::Xai),
            ("wss://api.x.ai/v1/realtime", RealtimeForm::Xai),
            (
                "https://r.services.ai.azure.com/voice-live/realtime",
                RealtimeForm::VoiceLive,
            ),
            ("https://r.openai.azure.com/openai/v1", RealtimeForm::Openai),
            ("wss://notapi.x.ai.example/v1", RealtimeForm::Openai),
        ] {
            let found = openai_realtime(Some(url), "gpt-realtime").profile;
            assert_eq!(found.realtime, form, "{url}");
        }
    }

    #[test]
    fn a_gemini_model_by_text_is_found_by_its_family_or_not_at_all() {
        for (model, row, profile) in [
            (GEMINI_TEXT_MODEL, "gemini-3", GEMINI_3),
            ("models/gemini-3-pro-preview", "gemini-3", GEMINI_3),
            ("gemini-2.5-flash-lite", "gemini-2.5", GEMINI_2_5),
            (
                "projects/p/locations/l/publishers/google/models/gemini-2.0-flash-001",
                "gemini-2.0",
                GEMINI_2_0,
            ),
            ("gemini-flash-latest", "gemini-flash-latest", GEMINI_NEWEST),
            ("gemini-4-carbon", "gemini-4", GEMINI_NEWEST),
            ("models/gemini-4-hydrogen-001", "gemini-4", GEMINI_NEWEST),
            ("gemini-4.5-argon", "gemini-4", GEMINI_NEWEST),
            ("gemini-30-pro", "", UNKNOWN_GEMINI),
            ("gemini-40-pro", "", UNKNOWN_GEMINI),
            ("", "", UNKNOWN_GEMINI),
        ] {
            let found = gemini_text(model);
            assert_eq!((found.row, found.profile), (row, profile), "{model}");
            assert_eq!(found.note.is_some(), row.is_empty(), "{model}");
        }
    }

    #[test]
    fn a_server_is_known_by_its_host_and_ollama_by_its_port() {
        for (url, row, profile) in [
            ("https://api.openai.com/v1", "api.openai.com", OPENAI),
            ("https://API.OpenAI.com:443/v1", "api.openai.com", OPENAI),
            (
                "https://mine.openai.azure.com/openai/v1",
                "openai.azure.com",
                AZURE,
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai/",
                "generativelanguage.googleapis.com",
                GEMINI_CHAT,
            ),
            ("https://api.x.ai/v1", "api.x.ai", XAI),
            ("https://openrouter.ai/api/v1", "openrouter.ai", OPENROUTER),
            ("https://api.deepseek.com", "api.deepseek.com", DEEPSEEK),
            ("https://api.mistral.ai/v1", "api.mistral.ai", MISTRAL),
            ("http://127.0.0.1:11434/v1", "ollama", OLLAMA),
            ("http://127.0.0.1:8000/v1", "", UNKNOWN_CHAT),
            ("http://[::1]/v1", "", UNKNOWN_CHAT),
            ("https://notopenrouter.ai/v1", "", UNKNOWN_CHAT),
            ("https://evil.com/?https://api.openai.com", "", UNKNOWN_CHAT),
            ("", "", UNKNOWN_CHAT),
        ] {
            let found = openai_chat(url, "some-model");
            assert_eq!((found.row, found.profile), (row, profile), "{url}");
        }
    }

    #[test]
    fn a_temperature_is_for_models_that_take_one() {
        const OPENAI: &str = "https://api.openai.com/v1";
        const AZURE: &str = "https://mine.openai.azure.com/openai/v1";
        for (url, model, takes) in [
            (OPENAI, "gpt-5.4-mini", false),
            (OPENAI, "gpt-6.2", false),
            (OPENAI, "o3", false),
            (OPENAI, "gpt-4.1", true),
            (OPENAI, "gpt-5-chat-latest", true),
            (AZURE, "gpt-5", false),
            (AZURE, "my-deployment", true),
            ("http://127.0.0.1:8000/v1", "gpt-5", true),
        ] {
            let found = openai_chat(url, model);
            assert_eq!(found.profile.request.temperature, takes, "{model}");
            let change = ProfileChange {
                temperature: Some(!takes),
                thought_tags: Some(true),
                ..ProfileChange::default()
            };
            let changed = found.changed(&change).profile.request;
            assert_eq!((changed.temperature, changed.thought_tags), (!takes, true));
        }
    }

    #[test]
    fn mistrals_models_keep_their_rules_on_other_servers() {
        let rules = openai_chat("http://127.0.0.1:8000/v1", "mistralai/Mistral-Small-4").profile;
        let rules = rules.request;
        assert_eq!(
            (rules.call_ids, rules.user_after_tool, rules.stream_usage),
            (CallIds::Nine, false, true)
        );
    }

    #[test]
    fn every_row_keeps_the_rules_of_its_kind_of_calls() {
        for row in ROWS {
            let profile = &row.profile.model;
            if profile.calls == CallSupport::BlockingOnly {
                assert!(!profile.scheduling, "{}", row.name);
            }
            if profile.calls == CallSupport::NonBlockingOnly {
                assert!(!profile.hold_microphone, "{}", row.name);
            }
        }
        assert_eq!(gemini_live(GEMINI_LIVE_MODEL).row, GEMINI_LIVE_MODEL);
        assert_eq!(
            openai_realtime(None, OPENAI_REALTIME_MODEL).row,
            OPENAI_REALTIME_MODEL
        );
    }

    #[test]
    fn a_model_that_is_like_another_has_its_row_but_for_what_is_changed() {
        let change = ProfileChange {
            like: Some("gemini-3.8-live".to_owned()),
            context_tokens_max: Some(262_144),
            ..ProfileChange::default()
        };
        let found = gemini_live("gemini-4-live-preview").changed(&change);
        let expected = ModelProfile {
            context_tokens_max: 262_144,
            ..LIVE_3_8
        };
        assert_eq!((found.profile.model, found.note), (expected, None));
        // A row of another transport does not apply.
        let found = gemini_text("gemini-9-pro").changed(&change).profile;
        assert_eq!(found.request, UNKNOWN_GEMINI.request);
        let change = ProfileChange {
            calls: Some(CallSupport::BlockingOnly),
            hold_microphone: Some(false),
            ..ProfileChange::default()
        };
        let expected = ModelProfile {
            calls: CallSupport::BlockingOnly,
            scheduling: false,
            hold_microphone: false,
            ..LIVE_3_8
        };
        let found = gemini_live("gemini-3.8-live").changed(&change);
        assert_eq!(found.profile.model, expected);
        let change = ProfileChange {
            like: Some("ollama".to_owned()),
            ..ProfileChange::default()
        };
        let found = openai_chat("http://10.0.0.1/v1", "mistral-small").changed(&change);
        let rules = found.profile.request;
        assert_eq!((rules.tool_choice, rules.call_ids), (false, CallIds::Nine));
        assert!(is_row("ollama") && !is_row("") && !is_row("llama"));
    }
}

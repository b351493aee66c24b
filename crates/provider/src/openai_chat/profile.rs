//! What each compatible server takes: built-in rows, found by the server's address and the model's name, which
//! configuration can change field by field. Knows nothing of a conversation.

use serde::{Deserialize, Serialize};
use windlass_session::model::{
    AnswerBatching, CallSupport, DeclarationForm, HistoryInput, ModelProfile, TextInput, Thinking,
};

/// What may be sent to a server, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub struct Profile {
    pub output_limit: OutputLimit,
    /// Whether usage is to be asked for with `stream_options`; some servers send it unasked and refuse the field.
    pub stream_usage: bool,
    pub tool_choice: bool,
    pub parallel_tool_calls: bool,
    /// Whether `prompt_cache_key` and `prompt_cache_retention` are known.
    pub prompt_cache: bool,
    pub reasoning_effort: bool,
    /// Whether calls without a thought signature are refused.
    pub thought_signatures: bool,
    pub reasoning: Reasoning,
    pub call_ids: CallIds,
    /// Whether a user's message may follow the answers to calls.
    pub user_after_tool: bool,
    pub vision: bool,
    pub context_tokens_max: u64,
}

/// The name under which the limit of an answer's tokens is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputLimit {
    MaxCompletionTokens,
    /// Deprecated by OpenAI, and the only one that many servers know.
    MaxTokens,
}

/// What becomes of a model's reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reasoning {
    /// It is dropped; some servers refuse to see it again.
    Dropped,
    /// An answer with calls must bring its `reasoning_content` back, be it empty.
    ReturnedWithCalls,
}

/// Which ids of calls a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Letters, digits, `_` and `-`, at most 40 (vercel/ai issue 5171).
    Short,
    /// Nine letters and digits.
    Nine,
}

impl Profile {
    /// The same as the core sees it.
    pub fn model_profile(&self) -> ModelProfile {
        ModelProfile {
            calls: CallSupport::BlockingOnly,
            scheduling: false,
            declaration: DeclarationForm::Openai,
            answers: AnswerBatching::Together,
            text_input: TextInput::ClientContent,
            history: HistoryInput::ClientContent,
            resumption: false,
            hold_microphone: false,
            thinking: if self.reasoning_effort {
                Thinking::Level
            } else {
                Thinking::Omit
            },
            vision: self.vision,
            context_tokens_max: self.context_tokens_max,
        }
    }
}

/// For a server that nothing is known of: only what nearly every one takes.
const UNKNOWN: Profile = Profile {
    output_limit: OutputLimit::MaxTokens,
    stream_usage: true,
    tool_choice: true,
    parallel_tool_calls: false,
    prompt_cache: false,
    reasoning_effort: false,
    thought_signatures: false,
    reasoning: Reasoning::Dropped,
    call_ids: CallIds::Short,
    user_after_tool: true,
    vision: false,
    context_tokens_max: 32_768,
};

/// The prompt cache's fields: <https://developers.openai.com/docs/guides/prompt-caching>.
const OPENAI: Profile = Profile {
    output_limit: OutputLimit::MaxCompletionTokens,
    parallel_tool_calls: true,
    prompt_cache: true,
    reasoning_effort: true,
    vision: true,
    context_tokens_max: 128_000,
    ..UNKNOWN
};

/// Gemini's compatibility layer. Since Gemini 3 a call must come back with its signature.
const GEMINI: Profile = Profile {
    reasoning_effort: true,
    thought_signatures: true,
    vision: true,
    context_tokens_max: 1_048_576,
    ..UNKNOWN
};

const OPENROUTER: Profile = Profile {
    parallel_tool_calls: true,
    context_tokens_max: 128_000,
    ..UNKNOWN
};

/// Thinks by default, and then refuses answers with calls that come back without their reasoning (anomalyco/opencode
/// issue 24722), the empty one included (deepseek-ai/deepseek-harness discussion 739).
const DEEPSEEK: Profile = Profile {
    reasoning_effort: true,
    reasoning: Reasoning::ReturnedWithCalls,
    context_tokens_max: 128_000,
    ..UNKNOWN
};

/// Refuses fields that it does not know, `stream_options` (openai/openai-agents-python issue 442) and
/// `max_completion_tokens` (editor-code-assistant/eca issue 231) among them; ids of other forms than its own
/// (langchain-ai/langchain pull request 24668); and a user's message behind the answer to a call (aaif-goose/goose issue
/// 5998).
const MISTRAL: Profile = Profile {
    stream_usage: false,
    parallel_tool_calls: true,
    call_ids: CallIds::Nine,
    user_after_tool: false,
    context_tokens_max: 128_000,
    ..UNKNOWN
};

/// Its documentation lists `tool_choice` as not supported (ollama/ollama:docs/api/openai-compatibility.mdx).
const OLLAMA: Profile = Profile {
    tool_choice: false,
    reasoning_effort: true,
    ..UNKNOWN
};

const OLLAMA_NOTE: &str = "ollama drops the front of a prompt that is longer than its own context length without saying so: set OLLAMA_CONTEXT_LENGTH to no less than the profile's context_tokens_max";

struct Row {
    /// The host, or its end after a dot.
    host: &'static str,
    profile: Profile,
}

const ROWS: [Row; 6] = [
    row("api.openai.com", OPENAI),
    row("openai.azure.com", OPENAI),
    row("generativelanguage.googleapis.com", GEMINI),
    row("openrouter.ai", OPENROUTER),
    row("api.deepseek.com", DEEPSEEK),
    row("api.mistral.ai", MISTRAL),
];

const OLLAMA_PORT: &str = "11434";

/// Mistral's models keep their chat template's rules on every server (mistralai/mistral-vibe issue 578).
const MISTRAL_MODELS: [&str; 5] = ["mistral", "ministral", "magistral", "devstral", "codestral"];

const fn row(host: &'static str, profile: Profile) -> Row {
    Row { host, profile }
}

/// A profile, and how it was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProfile {
    pub profile: Profile,
    pub matched: ProfileMatch,
    /// What an operator should know, for the log.
    pub note: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileMatch {
    /// The server of this host.
    Server(&'static str),
    Ollama,
    /// Nothing is known of the server.
    Default,
}

/// Finds what the server at a base URL takes for a model.
pub fn find(base_url: &str, model: &str) -> FoundProfile {
    let (host, port) = host_and_port(base_url);
    let row = ROWS.iter().find(|row| {
        host.strip_suffix(row.host)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let mut found = match row {
        Some(row) => FoundProfile {
            profile: row.profile.clone(),
            matched: ProfileMatch::Server(row.host),
            note: None,
        },
        None if port == OLLAMA_PORT => FoundProfile {
            profile: OLLAMA,
            matched: ProfileMatch::Ollama,
            note: Some(OLLAMA_NOTE),
        },
        None => FoundProfile {
            profile: UNKNOWN,
            matched: ProfileMatch::Default,
            note: None,
        },
    };
    let model = model.to_ascii_lowercase();
    if MISTRAL_MODELS.iter().any(|name| model.contains(name)) {
        found.profile.call_ids = CallIds::Nine;
        found.profile.user_after_tool = false;
    }
    found
}

/// Of `https://host:port/path`, in lower case; both empty where there are none.
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

/// What configuration says of a server; fields that it leaves out stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileOverride {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_limit: Option<OutputLimit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_usage: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cache: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought_signatures: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_ids: Option<CallIds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_after_tool: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vision: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens_max: Option<u64>,
}

impl ProfileOverride {
    /// The profile with what is overridden.
    pub fn apply(&self, profile: Profile) -> Profile {
        Profile {
            output_limit: self.output_limit.unwrap_or(profile.output_limit),
            stream_usage: self.stream_usage.unwrap_or(profile.stream_usage),
            tool_choice: self.tool_choice.unwrap_or(profile.tool_choice),
            parallel_tool_calls: self
                .parallel_tool_calls
                .unwrap_or(profile.parallel_tool_calls),
            prompt_cache: self.prompt_cache.unwrap_or(profile.prompt_cache),
            reasoning_effort: self.reasoning_effort.unwrap_or(profile.reasoning_effort),
            thought_signatures: self
                .thought_signatures
                .unwrap_or(profile.thought_signatures),
            reasoning: self.reasoning.unwrap_or(profile.reasoning),
            call_ids: self.call_ids.unwrap_or(profile.call_ids),
            user_after_tool: self.user_after_tool.unwrap_or(profile.user_after_tool),
            vision: self.vision.unwrap_or(profile.vision),
            context_tokens_max: self
                .context_tokens_max
                .unwrap_or(profile.context_tokens_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_server_is_known_by_its_host_and_ollama_by_its_port() {
        for (url, matched, profile) in [
            (
                "https://api.openai.com/v1",
                ProfileMatch::Server("api.openai.com"),
                OPENAI,
            ),
            (
                "https://API.OpenAI.com:443/v1",
                ProfileMatch::Server("api.openai.com"),
                OPENAI,
            ),
            (
                "https://mine.openai.azure.com/openai/v1",
                ProfileMatch::Server("openai.azure.com"),
                OPENAI,
            ),
            (
                "https://generativelanguage.googleapis.com/v1beta/openai/",
                ProfileMatch::Server("generativelanguage.googleapis.com"),
                GEMINI,
            ),
            (
                "https://openrouter.ai/api/v1",
                ProfileMatch::Server("openrouter.ai"),
                OPENROUTER,
            ),
            (
                "https://api.deepseek.com",
                ProfileMatch::Server("api.deepseek.com"),
                DEEPSEEK,
            ),
            (
                "https://api.mistral.ai/v1",
                ProfileMatch::Server("api.mistral.ai"),
                MISTRAL,
            ),
            ("http://127.0.0.1:11434/v1", ProfileMatch::Ollama, OLLAMA),
            ("http://127.0.0.1:8000/v1", ProfileMatch::Default, UNKNOWN),
            ("http://[::1]/v1", ProfileMatch::Default, UNKNOWN),
            (
                "https://notopenrouter.ai/v1",
                ProfileMatch::Default,
                UNKNOWN,
            ),
            (
                "https://evil.com/?https://api.openai.com",
                ProfileMatch::Default,
                UNKNOWN,
            ),
            ("", ProfileMatch::Default, UNKNOWN),
        ] {
            let found = find(url, "some-model");
            assert_eq!((found.matched, found.profile), (matched, profile), "{url}");
        }
    }

    #[test]
    fn mistrals_models_keep_their_rules_on_other_servers() {
        let found = find("http://127.0.0.1:8000/v1", "mistralai/Mistral-Small-4").profile;
        assert_eq!(
            (found.call_ids, found.user_after_tool, found.stream_usage),
            (CallIds::Nine, false, true)
        );
    }

    #[test]
    fn configuration_overrides_field_by_field_and_knows_no_others() {
        let change: ProfileOverride =
            serde_json::from_value(json!({"output_limit": "max_tokens", "vision": false})).unwrap();
        assert_eq!(
            change.apply(OPENAI),
            Profile {
                output_limit: OutputLimit::MaxTokens,
                vision: false,
                ..OPENAI
            }
        );
        assert_eq!(ProfileOverride::default().apply(GEMINI), GEMINI);
        assert!(serde_json::from_value::<ProfileOverride>(json!({"seeing": true})).is_err());
    }
}

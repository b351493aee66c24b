//! The typed tree: what each section holds once it has been read and checked. Knows the rules between keys; opens
//! nothing that it names.

use super::error::ConfigError;
use super::knowledge::{Knowledge, knowledge};
use super::layers::Values;
use super::models::{ModelChange, models};
use super::path::KeyPath;
use super::text::Text;
use super::values::{
    AllowedOrigin, Header, ListenAddress, Name, Problem, ProviderUrl, Secret, Setting, Temperature,
    Whole, Words, choices,
};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use toml::{Table, Value};
use windlass_provider::gemini_live::{Sensitivity, ThinkingLevel};
use windlass_session::limits::{LIMIT_MAX, Limits};
use windlass_store::StoreLimits;
use windlass_tool::artifact::Tightening;
use windlass_tool::id::ToolId;
use windlass_tool::kind::RateLimit;

/// Everything that can be configured.
#[derive(Clone, Debug)]
pub struct Config {
    pub server: Server,
    pub folders: Folders,
    pub knowledge: Knowledge,
    pub provider: Provider,
    pub voice: Voice,
    pub text: Text,
    /// By model id.
    pub models: BTreeMap<String, ModelChange>,
    /// Makes tools stricter.
    pub tools: BTreeMap<ToolId, Tightening>,
    pub audit: Audit,
    pub store: StoreLimits,
    pub journal: Journal,
    pub log: Log,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub listen: ListenAddress,
    /// Besides the server's own.
    pub allowed_origins: BTreeSet<AllowedOrigin>,
    /// In which a proxy says who has signed in.
    pub user_header: Option<Header>,
    pub sessions_max: Whole<1, 1_000_000>,
    pub connections_max: Whole<1, 1_000_000>,
    pub shutdown_seconds: Whole<0, 3_600>,
    /// `None` for one per core.
    pub worker_threads: Option<Whole<1, 1_024>>,
}

/// Relative ones are relative to the working directory.
#[derive(Clone, Debug)]
pub struct Folders {
    pub tools: PathBuf,
    pub knowledge: PathBuf,
    pub data: PathBuf,
    pub prompts: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// Gemini Live where there are credentials or an address of its own, else the demo model.
    Auto,
    GeminiLive,
    OpenaiRealtime,
    Demo,
}

choices!(ProviderKind {
    "auto" => Self::Auto,
    "gemini-live" => Self::GeminiLive,
    "openai-realtime" => Self::OpenaiRealtime,
    "demo" => Self::Demo,
});

#[derive(Clone, Debug)]
pub struct Provider {
    pub kind: ProviderKind,
    pub model: Name,
    pub url: Option<ProviderUrl>,
    pub api_version: Option<Name>,
    pub api_key: Option<Secret>,
    /// `provider.api_key_env` names a variable that holds nothing, and the key is nowhere else.
    pub is_named_variable_empty: bool,
    pub ephemeral_token: Option<Secret>,
    /// Set where sessions go to Vertex AI.
    pub vertex: Option<Vertex>,
    pub temperature: Option<Temperature>,
    pub output_tokens_max: Option<Whole<1, 1_000_000>>,
    pub thinking_level: Option<ThinkingLevel>,
    pub thinking_budget_tokens: Option<Whole<0, 1_000_000>>,
    pub context_compression: bool,
    pub compression_trigger_tokens: Option<Whole<1, 10_000_000>>,
    pub compression_target_tokens: Option<Whole<1, 10_000_000>>,
}

#[derive(Clone, Debug)]
pub struct Vertex {
    pub location: Name,
    pub project: Option<Name>,
    pub access_token: Option<Secret>,
    pub quota_project: Option<Name>,
}

#[derive(Clone, Debug)]
pub struct Voice {
    pub name: Option<Words>,
    /// A BCP 47 tag.
    pub language: Option<Name>,
    pub transcribe_input: bool,
    pub transcribe_output: bool,
    /// Whether speech interrupts the model.
    pub barge_in: bool,
    pub speech: SpeechSettings,
    /// Of one picture that a client shows.
    pub image_bytes_max: Whole<1_024, 2_097_152>,
    pub guides_tokens_max: Whole<0, 1_000_000>,
    pub limits: Limits,
}

/// How speech is found; `None` leaves a value to the provider.
#[derive(Clone, Copy, Debug)]
pub struct SpeechSettings {
    pub start_sensitivity: Option<Sensitivity>,
    pub end_sensitivity: Option<Sensitivity>,
    pub prefix_padding_ms: Option<Whole<0, 10_000>>,
    pub silence_ms: Option<Whole<0, 10_000>>,
}

#[derive(Clone, Debug)]
pub struct Audit {
    pub enabled: bool,
    /// `None` for `audit.jsonl` in the data folder.
    pub path: Option<PathBuf>,
    /// Whether arguments are written, without the sensitive ones.
    pub arguments: bool,
    /// Bytes of a file before the next one begins.
    pub file_bytes_max: Whole<1_000, 1_000_000_000_000>,
}

#[derive(Clone, Debug)]
pub struct Journal {
    /// Whether sessions are recorded, with what people say in them.
    pub enabled: bool,
    /// `None` for `journal` in the data folder.
    pub folder: Option<PathBuf>,
    /// Bytes of one session's journal.
    pub file_bytes_max: Whole<1_000, 1_000_000_000_000>,
    pub files_max: Whole<1, 1_000_000>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

choices!(LogLevel {
    "error" => Self::Error,
    "warn" => Self::Warn,
    "info" => Self::Info,
    "debug" => Self::Debug,
    "trace" => Self::Trace,
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

choices!(LogFormat {
    "text" => Self::Text,
    "json" => Self::Json,
});

#[derive(Clone, Copy, Debug)]
pub struct Log {
    pub level: LogLevel,
    pub format: LogFormat,
}

impl Config {
    pub(super) fn read(values: &mut Values) -> Result<Self, ConfigError> {
        Ok(Self {
            provider: provider(values)?,
            server: Server {
                listen: values.need("server.listen")?,
                allowed_origins: values.need("server.allowed_origins")?,
                user_header: set(values, "server.user_header")?,
                sessions_max: values.need("server.sessions_max")?,
                connections_max: values.need("server.connections_max")?,
                shutdown_seconds: values.need("server.shutdown_seconds")?,
                worker_threads: set(values, "server.worker_threads")?,
            },
            folders: Folders {
                tools: values.need("folders.tools")?,
                knowledge: values.need("folders.knowledge")?,
                data: values.need("folders.data")?,
                prompts: values.need("folders.prompts")?,
            },
            knowledge: knowledge(values)?,
            voice: voice(values)?,
            text: super::text::read(values)?,
            models: models(values)?,
            tools: tools(values)?,
            audit: Audit {
                enabled: values.need("audit.enabled")?,
                path: set(values, "audit.path")?,
                arguments: values.need("audit.arguments")?,
                file_bytes_max: values.need("audit.file_bytes_max")?,
            },
            store: store(values)?,
            journal: Journal {
                enabled: values.need("journal.enabled")?,
                folder: set(values, "journal.folder")?,
                file_bytes_max: values.need("journal.file_bytes_max")?,
                files_max: values.need("journal.files_max")?,
            },
            log: Log {
                level: values.need("log.level")?,
                format: values.need("log.format")?,
            },
        })
    }
}

fn store(values: &Values) -> Result<StoreLimits, ConfigError> {
    const HOUR_MS: u64 = 60 * 60 * 1_000;
    // A shorter memory than a day could let an effect happen twice.
    let effect_hours: Whole<24, 8_760> = values.need("store.effect_hours")?;
    let conversation_hours: Whole<1, 8_760> = values.need("store.conversation_hours")?;
    let landing_ms: Whole<0, 3_600_000> = values.need("store.landing_ms")?;
    let bound = |key| -> Result<usize, ConfigError> {
        let bound: Whole<1, 100_000_000> = values.need(key)?;
        Ok(bound.count())
    };
    Ok(StoreLimits {
        effect_ms: effect_hours.get() * HOUR_MS,
        effects_max: bound("store.effects_max")?,
        receipt_bytes_max: bound("store.receipt_bytes_max")?,
        questions_max: bound("store.questions_max")?,
        question_bytes_max: bound("store.question_bytes_max")?,
        conversation_ms: conversation_hours.get() * HOUR_MS,
        conversations_max: bound("store.conversations_max")?,
        entries_max: bound("store.entries_max")?,
        entry_bytes_max: bound("store.entry_bytes_max")?,
        leg_bytes_max: bound("store.leg_bytes_max")?,
        landing_ms: landing_ms.get(),
    })
}

pub(super) fn set<T: Setting>(values: &Values, path: &str) -> Result<Option<T>, ConfigError> {
    values.get(&path.into())
}

fn voice(values: &Values) -> Result<Voice, ConfigError> {
    Ok(Voice {
        name: set(values, "voice.name")?,
        language: set(values, "voice.language")?,
        transcribe_input: values.need("voice.transcribe_input")?,
        transcribe_output: values.need("voice.transcribe_output")?,
        barge_in: values.need("voice.barge_in")?,
        speech: SpeechSettings {
            start_sensitivity: set(values, "voice.start_sensitivity")?,
            end_sensitivity: set(values, "voice.end_sensitivity")?,
            prefix_padding_ms: set(values, "voice.prefix_padding_ms")?,
            silence_ms: set(values, "voice.silence_ms")?,
        },
        image_bytes_max: values.need("voice.image_bytes_max")?,
        guides_tokens_max: values.need("voice.guides_tokens_max")?,
        limits: limits(values, "voice.limits")?,
    })
}

fn provider(values: &mut Values) -> Result<Provider, ConfigError> {
    let named = set::<Name>(values, "provider.api_key_env")?;
    if let Some(variable) = &named {
        values.fall_back_to_variable("provider.api_key", variable.as_str())?;
    }
    // A key never goes to another company than the one that gave it.
    let variables: &[&str] = match values.need("provider.kind")? {
        ProviderKind::OpenaiRealtime => &["OPENAI_API_KEY"],
        ProviderKind::Auto | ProviderKind::GeminiLive | ProviderKind::Demo => {
            &["GEMINI_API_KEY", "GOOGLE_API_KEY"]
        }
    };
    for variable in variables {
        values.fall_back_to_variable("provider.api_key", variable)?;
    }
    let api_key: Option<Secret> = set(values, "provider.api_key")?;
    let provider = Provider {
        kind: values.need("provider.kind")?,
        model: values.need("provider.model")?,
        url: set(values, "provider.url")?,
        api_version: set(values, "provider.api_version")?,
        is_named_variable_empty: named.is_some() && api_key.is_none(),
        api_key,
        ephemeral_token: set(values, "provider.ephemeral_token")?,
        vertex: vertex(values)?,
        temperature: set(values, "provider.temperature")?,
        output_tokens_max: set(values, "provider.output_tokens_max")?,
        thinking_level: set(values, "provider.thinking_level")?,
        thinking_budget_tokens: set(values, "provider.thinking_budget_tokens")?,
        context_compression: values.need("provider.context_compression")?,
        compression_trigger_tokens: set(values, "provider.compression_trigger_tokens")?,
        compression_target_tokens: set(values, "provider.compression_target_tokens")?,
    };
    if let (Some(trigger), Some(target)) = (
        provider.compression_trigger_tokens,
        provider.compression_target_tokens,
    ) && target.get() >= trigger.get()
    {
        let problem = Problem::new(
            "is not below provider.compression_trigger_tokens",
            "make it smaller, or leave it out",
        );
        return Err(values.refuse_found("provider.compression_target_tokens", problem));
    }
    if provider.vertex.is_some() && provider.ephemeral_token.is_some() {
        let problem = Problem::new(
            "cannot be used with Vertex AI",
            "set provider.vertex.access_token in its place",
        );
        return Err(values.refuse_found("provider.ephemeral_token", problem));
    }
    Ok(provider)
}

fn vertex(values: &Values) -> Result<Option<Vertex>, ConfigError> {
    let location = set(values, "provider.vertex.location")?;
    let project = set(values, "provider.vertex.project")?;
    let access_token = set(values, "provider.vertex.access_token")?;
    let quota_project = set(values, "provider.vertex.quota_project")?;
    let Some(location) = location else {
        let stray = [
            ("provider.vertex.project", project.is_some()),
            ("provider.vertex.access_token", access_token.is_some()),
            ("provider.vertex.quota_project", quota_project.is_some()),
        ];
        return match stray.into_iter().find(|(_, is_set)| *is_set) {
            Some((path, _)) => {
                let problem = Problem::new(
                    "is of no use without provider.vertex.location",
                    "set the location too, such as europe-west4",
                );
                Err(values.refuse_found(path, problem))
            }
            None => Ok(None),
        };
    };
    Ok(Some(Vertex {
        location,
        project,
        access_token,
        quota_project,
    }))
}

/// The core's limits: each a number that its key's own rule passes, put together as the core names them.
pub(super) fn limits(values: &Values, section: &str) -> Result<Limits, ConfigError> {
    let mut whole = Table::new();
    let prefix = KeyPath::from(section);
    let paths: Vec<KeyPath> = values
        .found()
        .keys()
        .filter(|path| path.behind(&prefix).is_some())
        .cloned()
        .collect();
    for path in paths {
        let rest = path.behind(&prefix).unwrap_or_default();
        let Some((name, tables)) = rest.split_last() else {
            continue;
        };
        let limit = match Limits::least(name) {
            0 => values.get::<Whole<0, LIMIT_MAX>>(&path)?.map(Whole::get),
            _ => values.get::<Whole<1, LIMIT_MAX>>(&path)?.map(Whole::get),
        };
        let number = limit.unwrap_or_default();
        let mut table = &mut whole;
        for name in tables {
            table = table
                .entry(name.clone())
                .or_insert_with(|| Value::Table(Table::new()))
                .as_table_mut()
                .expect("no key of the limits is beneath another one");
        }
        let number = i64::try_from(number).expect("the rule above keeps limits below this");
        table.insert(name.clone(), Value::Integer(number));
    }
    Ok(Limits::deserialize(Value::Table(whole))
        .expect("the keys of the limits are those of the core, each with a small whole number"))
}

fn tools(values: &Values) -> Result<BTreeMap<ToolId, Tightening>, ConfigError> {
    let mut tools = BTreeMap::new();
    for name in values.names("tools") {
        let section = KeyPath::from("tools").child(&name);
        let Some(id) = ToolId::parse(&name) else {
            let key = section.to_string();
            return Err(ConfigError::BadTool { key });
        };
        let rate_limit = section.child("rate_limit");
        let calls: Option<Whole<1, 1_000_000>> = values.get(&rate_limit.child("calls"))?;
        let window: Option<Whole<1, 86_400_000>> = values.get(&rate_limit.child("window_ms"))?;
        let rate_limit = match (calls, window) {
            (Some(calls), Some(window)) => Some(RateLimit {
                calls: calls.narrow(),
                window_ms: window.get(),
            }),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                return Err(ConfigError::HalfRateLimit {
                    key: rate_limit.to_string(),
                });
            }
        };
        let timeout: Option<Whole<1, 60_000>> = values.get(&section.child("timeout_ms"))?;
        let tightening = Tightening {
            requires_confirmation: values.get(&section.child("requires_confirmation"))?,
            allowed_modes: values.get(&section.child("allowed_modes"))?,
            timeout_ms: timeout.map(Whole::get),
            rate_limit,
        };
        tools.insert(id, tightening);
    }
    Ok(tools)
}

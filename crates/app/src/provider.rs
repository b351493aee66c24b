//! The model that sessions talk to: decides between the providers and the demo model, and makes the settings that all sessions share.
//! Knows no session.

use crate::failure::Failure;
use crate::simulator::{Service, Simulator};
use crate::toolbox::ModeTools;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use windlass_config::{Config, Provider, ProviderKind, Vertex};
use windlass_contract::sensitive::Sensitive;
use windlass_provider::gemini_live::address::{Backend, Credentials};
use windlass_provider::gemini_live::{Compression, SpeechDetection, ThinkingLevel};
use windlass_provider::openai_chat::ReasoningEffort;
use windlass_provider::profile::{
    FoundProfile, GEMINI_LIVE_MODEL, GPT_LIVE_MODEL, OPENAI_REALTIME_MODEL, Profile,
};
use windlass_provider::provider_tools::ProviderTool;
use windlass_provider::{gpt_live, openai_realtime, profile};
use windlass_runtime::codec::LiveProvider;
use windlass_runtime::gemini_live::{GeminiLive, GeminiLiveSettings, target};
use windlass_runtime::gpt_live::{GptLive, GptLiveSettings};
use windlass_runtime::openai_realtime::{OpenaiRealtime, OpenaiRealtimeSettings};
use windlass_runtime::text::TextSettings;
use windlass_session::model::ModelProfile;
use windlass_sim::runner::Options;

/// The time from the first byte to the provider's upgrade.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Stands for a key where none is needed: simulators and proxies take any, and some insist on one.
const ANY_KEY: &str = "none";

/// The provider, after `auto` has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    GeminiLive,
    OpenaiRealtime,
    GptLive,
    Demo,
}

impl Choice {
    pub(crate) fn of(provider: &Provider) -> Result<Self, Failure> {
        let has_credentials = provider.api_key.is_some()
            || provider.ephemeral_token.is_some()
            || provider.vertex.is_some();
        let is_reachable = has_credentials || provider.url.is_some();
        match provider.kind {
            ProviderKind::Auto if is_reachable => Ok(Self::GeminiLive),
            ProviderKind::Auto => Ok(Self::Demo),
            ProviderKind::GeminiLive if is_reachable => Ok(Self::GeminiLive),
            ProviderKind::GeminiLive => Err(lacks_key(provider, "gemini-live", "GEMINI_API_KEY")),
            ProviderKind::OpenaiRealtime if provider.api_key.is_some() || provider.url.is_some() => {
                Ok(Self::OpenaiRealtime)
            }
            ProviderKind::OpenaiRealtime => {
                Err(lacks_key(provider, "openai-realtime", "OPENAI_API_KEY"))
            }
            ProviderKind::GptLive if provider.api_key.is_some() || provider.url.is_some() => {
                Ok(Self::GptLive)
            }
            ProviderKind::GptLive => Err(lacks_key(provider, "gpt-live", "OPENAI_API_KEY")),
            ProviderKind::Demo if provider.url.is_some() => Err(Failure::Failed(
                "the demo model runs inside this process and has no address: leave provider.url (--provider-url) out, \
                 or choose another provider"
                    .to_owned(),
            )),
            ProviderKind::Demo => Ok(Self::Demo),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GeminiLive => "gemini-live",
            Self::OpenaiRealtime => "openai-realtime",
            Self::GptLive => "gpt-live",
            Self::Demo => "demo",
        }
    }
}

fn lacks_key(provider: &Provider, name: &str, variable: &str) -> Failure {
    let cure = match provider.names_empty_variable() {
        true => EMPTY_VARIABLE.to_owned(),
        false => format!("set {variable}"),
    };
    Failure::Failed(format!(
        "the provider {name} needs a key: {cure}, or choose the demo model with --provider demo"
    ))
}

/// The variable's name is left out: if a user puts the key itself there, no log shows it.
const EMPTY_VARIABLE: &str =
    "the environment variable that provider.api_key_env names is not set; set it";

/// Why sessions by voice talk to the demo model, and how to change that; `None` where they do not.
pub(crate) fn demo_notice(provider: &Provider, choice: Choice) -> Option<String> {
    match choice {
        Choice::GeminiLive | Choice::OpenaiRealtime | Choice::GptLive => return None,
        Choice::Demo => {}
    }
    let what = "this is the demo model, rules without AI";
    Some(match provider.kind {
        ProviderKind::Demo => {
            format!(
                "provider.kind (--provider) is demo: {what}; choose gemini-live or openai-realtime for another"
            )
        }
        ProviderKind::Auto
        | ProviderKind::GeminiLive
        | ProviderKind::OpenaiRealtime
        | ProviderKind::GptLive => {
            let no_key = "no provider is configured";
            match provider.names_empty_variable() {
                true => format!("{no_key}: {what}; {EMPTY_VARIABLE} for Gemini Live"),
                false => format!(
                    "{no_key}: {what}; set OPENAI_API_KEY for OpenAI Realtime, or GEMINI_API_KEY for Gemini Live"
                ),
            }
        }
    })
}

/// A line that says which model speaks by voice, why, and how to choose another.
pub(crate) fn voice_line(config: &Config, choice: Choice) -> String {
    let name = match choice {
        Choice::GeminiLive => "Gemini Live",
        Choice::OpenaiRealtime => "OpenAI Realtime",
        Choice::GptLive => "GPT-Live",
        Choice::Demo => {
            let notice = demo_notice(&config.provider, choice);
            return format!("voice: {}", notice.unwrap_or_default());
        }
    };
    format!(
        "voice: {name}, model {}, because {}; --provider chooses another",
        model_of(config),
        config.reasons.voice
    )
}

/// The model's id. The default is the provider's own.
pub(crate) fn model_of(config: &Config) -> &str {
    let model = config.provider.model.as_str();
    let is_preset = model == GEMINI_LIVE_MODEL;
    match config.provider.kind {
        ProviderKind::OpenaiRealtime if is_preset => OPENAI_REALTIME_MODEL,
        ProviderKind::GptLive if is_preset => GPT_LIVE_MODEL,
        _ => model,
    }
}

/// The model's capabilities: its row of the built-in table, with the configuration's changes.
pub(crate) fn profile_of(config: &Config) -> Arc<ModelProfile> {
    Arc::new(configured(config, model_of(config), found_profile(config)).model)
}

fn found_profile(config: &Config) -> FoundProfile {
    let model = model_of(config);
    match config.provider.kind {
        ProviderKind::OpenaiRealtime => {
            let url = config.provider.url.as_ref().map(|url| url.as_str());
            profile::openai_realtime(url, model)
        }
        ProviderKind::GptLive => profile::gpt_live(model),
        ProviderKind::Auto | ProviderKind::GeminiLive | ProviderKind::Demo => {
            profile::gemini_live(model)
        }
    }
}

/// A profile with the configuration's changes. Notes on the model for the operator go into the log.
pub(crate) fn configured(config: &Config, model: &str, found: FoundProfile) -> Profile {
    let found = changed(config, model, found);
    if let Some(note) = &found.note {
        tracing::warn!(model, note, "a note on this model");
    }
    found.profile
}

fn changed(config: &Config, model: &str, found: FoundProfile) -> FoundProfile {
    let id = model.strip_prefix("models/").unwrap_or(model);
    let change = config.models.get(model).or_else(|| config.models.get(id));
    match change {
        Some(change) => found.changed(&change.profile_change()),
        None => found,
    }
}

/// Refuses tools of the provider that a model does not take beside functions.
pub(crate) fn check_provider_tools(
    section: &str,
    model: &str,
    wanted: &BTreeSet<ProviderTool>,
    taken: &[ProviderTool],
) -> Result<(), Failure> {
    let Some(refused) = wanted.iter().find(|tool| !taken.contains(tool)) else {
        return Ok(());
    };
    let names: Vec<_> = taken.iter().map(|tool| tool.name()).collect();
    let cure = match names.is_empty() {
        true => "it takes none: leave the key out, or choose another model".to_owned(),
        false => format!("it takes {}", names.join(" and ")),
    };
    Err(Failure::Failed(format!(
        "{section}.provider_tools: the model {model:?} does not take {} beside functions; {cure}",
        refused.name()
    )))
}

/// The settings that all sessions with the provider share.
#[derive(Clone, Debug)]
pub(crate) enum Settings {
    GeminiLive(Arc<GeminiLiveSettings>),
    OpenaiRealtime(Arc<OpenaiRealtimeSettings>),
    GptLive(Arc<GptLiveSettings>),
}

impl Settings {
    /// The provider of one session.
    pub(crate) fn open(
        &self,
        system_instruction: Arc<str>,
        tools: &ModeTools,
    ) -> Box<dyn LiveProvider> {
        match self {
            Self::GeminiLive(settings) => Box::new(GeminiLive {
                settings: settings.clone(),
                system_instruction,
                tools: tools.declared().gemini_live.clone(),
            }),
            Self::OpenaiRealtime(settings) => Box::new(OpenaiRealtime {
                settings: settings.clone(),
                system_instruction,
                tools: tools.declared().openai_realtime.clone(),
            }),
            Self::GptLive(settings) => Box::new(GptLive {
                settings: settings.clone(),
                system_instruction,
                tools: tools.text_declared.clone(),
            }),
        }
    }
}

/// The settings of the provider that was chosen.
pub(crate) async fn settings(
    config: &Config,
    choice: Choice,
    text: &Arc<TextSettings>,
    shutdown: watch::Receiver<bool>,
) -> Result<Settings, Failure> {
    let model = model_of(config);
    let found = changed(config, model, found_profile(config));
    let taken = found.profile.provider_tools;
    check_provider_tools("provider", model, &config.provider.provider_tools, taken)?;
    Ok(match choice {
        Choice::GeminiLive | Choice::Demo => {
            Settings::GeminiLive(gemini_live(config, choice, shutdown).await?)
        }
        Choice::OpenaiRealtime => Settings::OpenaiRealtime(openai_realtime(config)?),
        Choice::GptLive => Settings::GptLive(gpt_live(config, text.clone())?),
    })
}

fn gpt_live(config: &Config, text: Arc<TextSettings>) -> Result<Arc<GptLiveSettings>, Failure> {
    if text.models.is_empty() {
        return Err(Failure::Failed(
            "the provider gpt-live has no tools and hands every task over to a text model: set text.provider, and its key"
                .to_owned(),
        ));
    }
    let (provider, voice) = (&config.provider, &config.voice);
    let key = provider.api_key.as_ref().map(|key| key.sensitive());
    let key = key.unwrap_or_else(|| Sensitive(ANY_KEY.to_owned()));
    let url = provider.url.as_ref().map(|url| url.as_str());
    let address = gpt_live::address(Some(&key), url).map_err(Failure::of)?;
    Ok(Arc::new(GptLiveSettings {
        has_key: provider.api_key.is_some(),
        target: target(&address).map_err(Failure::of)?,
        model: model_of(config).to_owned(),
        connect_timeout: CONNECT_TIMEOUT,
        voice: voice.name.as_ref().map(|name| name.as_str().to_owned()),
        text,
    }))
}

fn openai_realtime(config: &Config) -> Result<Arc<OpenaiRealtimeSettings>, Failure> {
    let (provider, voice) = (&config.provider, &config.voice);
    let key = provider.api_key.as_ref().map(|key| key.sensitive());
    let key = key.unwrap_or_else(|| Sensitive(ANY_KEY.to_owned()));
    let url = provider.url.as_ref().map(|url| url.as_str());
    let model = model_of(config);
    let version = provider
        .api_version
        .as_ref()
        .map(|version| version.as_str());
    let address =
        openai_realtime::address::address(Some(&key), url, model, version).map_err(Failure::of)?;
    let found = changed(config, model, found_profile(config));
    Ok(Arc::new(OpenaiRealtimeSettings {
        form: found.profile.realtime.of_version(version),
        model: model.to_owned(),
        transcription_model: voice
            .transcription_model
            .as_ref()
            .map(|name| name.as_str().to_owned()),
        has_key: provider.api_key.is_some(),
        target: target(&address).map_err(Failure::of)?,
        connect_timeout: CONNECT_TIMEOUT,
        voice: voice.name.as_ref().map(|name| name.as_str().to_owned()),
        language: voice.language.as_ref().map(|tag| tag.as_str().to_owned()),
        output_tokens_max: provider.output_tokens_max.map(|max| max.narrow()),
        reasoning_effort: provider.thinking_level.map(ReasoningEffort::from),
        transcribe_input: voice.transcribe_input,
        speech_detection: speech_detection(config),
        barge_in: voice.barge_in,
        truncate: provider.context_compression,
    }))
}

fn speech_detection(config: &Config) -> SpeechDetection {
    let speech = &config.voice;
    SpeechDetection {
        start_sensitivity: speech.start_sensitivity,
        end_sensitivity: speech.end_sensitivity,
        prefix_padding_ms: speech.prefix_padding_ms.map(|ms| ms.narrow()),
        silence_ms: speech.silence_ms.map(|ms| ms.narrow()),
    }
}

/// Gemini's models have no level without thinking.
pub(crate) fn check_thinking(section: &str, level: Option<ThinkingLevel>) -> Result<(), Failure> {
    match level {
        Some(ThinkingLevel::None) => Err(Failure::Failed(format!(
            "{section}.thinking_level none is for OpenAI's protocols: choose minimal, or set {section}.thinking_budget_tokens = 0 \
             for a model that takes budgets"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The settings of Gemini Live, or of the demo model behind the same protocol; starts the latter inside this process.
async fn gemini_live(
    config: &Config,
    choice: Choice,
    shutdown: watch::Receiver<bool>,
) -> Result<Arc<GeminiLiveSettings>, Failure> {
    let demo_url;
    let provider = &config.provider;
    check_thinking("provider", provider.thinking_level)?;
    let (backend, credentials, url) = match choice {
        Choice::GeminiLive | Choice::OpenaiRealtime | Choice::GptLive => (
            backend(provider),
            Some(credentials(provider).unwrap_or_else(any_key)),
            provider.url.as_ref().map(|url| url.as_str()),
        ),
        Choice::Demo => {
            demo_url = start_demo(async |address| {
                let simulator =
                    Simulator::bind(address, Service::GeminiLive, Options::demo()).await?;
                let url = format!("ws://{}", simulator.address()?);
                tokio::spawn(simulator.serve(shutdown));
                Ok(url)
            })
            .await?;
            let backend = Backend::DeveloperApi { version: None };
            (backend, Some(any_key()), Some(demo_url.as_str()))
        }
    };
    let address = backend
        .address(credentials.as_ref(), url)
        .map_err(Failure::of)?;
    let voice = &config.voice;
    Ok(Arc::new(GeminiLiveSettings {
        has_key: choice == Choice::Demo || self::credentials(provider).is_some(),
        target: target(&address).map_err(Failure::of)?,
        model: backend.model_name(provider.model.as_str()),
        connect_timeout: CONNECT_TIMEOUT,
        voice: voice.name.as_ref().map(|name| name.as_str().to_owned()),
        language: voice.language.as_ref().map(|tag| tag.as_str().to_owned()),
        temperature: provider.temperature.map(|temperature| temperature.get()),
        output_tokens_max: provider.output_tokens_max.map(|max| max.narrow()),
        thinking_level: provider.thinking_level,
        thinking_budget: provider.thinking_budget_tokens.map(|max| max.narrow()),
        transcribe_input: voice.transcribe_input,
        transcribe_output: voice.transcribe_output,
        speech_detection: speech_detection(config),
        barge_in: voice.barge_in,
        compression: provider.context_compression.then(|| Compression {
            trigger_tokens: provider
                .compression_trigger_tokens
                .map(|tokens| tokens.get()),
            target_tokens: provider
                .compression_target_tokens
                .map(|tokens| tokens.get()),
        }),
    }))
}

fn backend(provider: &Provider) -> Backend {
    let version = provider
        .api_version
        .as_ref()
        .map(|version| version.as_str().to_owned());
    match &provider.vertex {
        Some(Vertex {
            location, project, ..
        }) => Backend::Vertex {
            location: location.as_str().to_owned(),
            project: project.as_ref().map(|project| project.as_str().to_owned()),
            version,
        },
        None => Backend::DeveloperApi { version },
    }
}

fn credentials(provider: &Provider) -> Option<Credentials> {
    if let Some(Vertex {
        access_token: Some(token),
        quota_project,
        ..
    }) = &provider.vertex
    {
        return Some(Credentials::Bearer {
            token: token.sensitive(),
            quota_project: quota_project
                .as_ref()
                .map(|project| project.as_str().to_owned()),
        });
    }
    if let Some(token) = &provider.ephemeral_token {
        return Some(Credentials::EphemeralToken(token.sensitive()));
    }
    let key = provider.api_key.as_ref()?;
    Some(match key.is_ephemeral_token() {
        true => Credentials::EphemeralToken(key.sensitive()),
        false => Credentials::ApiKey(key.sensitive()),
    })
}

fn any_key() -> Credentials {
    Credentials::ApiKey(Sensitive(ANY_KEY.to_owned()))
}

/// Starts a demo model on a loopback socket of this process, so that it is reached as a provider is; its address.
pub(crate) async fn start_demo(
    serve: impl AsyncFnOnce(SocketAddr) -> std::io::Result<String>,
) -> Result<String, Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    serve(address).await.map_err(|error| {
        Failure::Failed(format!(
            "the demo model cannot listen on {address}: {error}"
        ))
    })
}

//! The configuration: one typed tree from defaults, `windlass.toml`, the environment and flags. Owns the rules between keys,
//! and whose key goes to which provider; opens no socket and reads no file but its own.

mod editor;
mod key;
mod overlay;
mod sections;
mod values;

pub use editor::schema;
pub use key::{Key, Kind};
pub use overlay::{ConfigError, Environment, Flag, Sources};
pub use sections::{
    Access, ApprovalPlace, Audit, AuthKind, Calendar, CalendarAccess, CalendarService,
    ConferenceService, Config, Connection, EmbedderKind, Folders, GoogleAccount, HandlerSecret,
    Handlers, ImageService, Images, Journal, Knowledge, Log, LogFormat, LogLevel, McpEndpoint,
    McpServer, ModelChange, Namespace, NamespaceReaders, Oidc, Provider, ProviderKind,
    RateLimitChange, ReadersKind, Reasons, Scripts, Search, SearchService, Server, Shares, Store,
    Tasks, Text, TextProvider, TextProviderKind, Threads, ToolChange, VersionChange, Vertex, Voice,
    ZoomAccount,
};
pub use values::{
    AddressRange, AllowedHost, AllowedOrigin, Argument, CalendarName, ConditionValue,
    ConnectionName, FetchPlace, FilePath, Header, HeaderLabel, IssuerAddress, ListenAddress,
    McpName, McpUrl, ModelId, Name, NamespaceName, NoMcpName, NoNamespace, NoSecretName, NoVersion,
    ProfileRow, ProviderUrl, ProxyAddress, RoleName, Secret, SecretName, Temperature, TokenScope,
    Unfit, ValueName, VariableName, VersionName, WebAddress, Whole, Words, WorkingTimes, ZoneName,
};

use overlay::Overlay;
use std::collections::BTreeMap;
use std::sync::Arc;
use windlass_contract::condition::{VALUES_MAX, Values};
use windlass_provider::profile::{GEMINI_LIVE_MODEL, RealtimeForm, openai_realtime};

/// All keys, section by section.
pub fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    <Config as key::Setting>::keys("", None, "", &mut keys);
    keys
}

/// The name of the file that is read from the working directory where no other one is named.
pub const FILE_NAME: &str = "windlass.toml";

/// Variables that hold a key of Google's, and of OpenAI's.
const GOOGLE: &[&str] = &["GEMINI_API_KEY", "GOOGLE_API_KEY"];
const OPENAI: &[&str] = &["OPENAI_API_KEY"];
/// Variables that hold a key of a service that searches the web.
const BRAVE: &[&str] = &["BRAVE_SEARCH_API_KEY", "BRAVE_API_KEY"];
const TAVILY: &[&str] = &["TAVILY_API_KEY"];

/// A configuration, and where each of its values comes from.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    /// Variables that begin with `WINDLASS_` and mean nothing here.
    pub ignored_variables: Vec<String>,
    overlay: Overlay,
}

impl Loaded {
    /// Merges the sources and checks every value.
    ///
    /// # Errors
    ///
    /// All problems: a file that cannot be read, unknown keys, values that their keys refuse, and values that make no sense together.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let mut overlay = Overlay::new(keys(), sources);
        let mut config: Config = overlay.read();
        while let Some((path, cause)) = contradiction(&config).filter(|_| !overlay.is_full()) {
            if !overlay.refuse_value(&path, cause) {
                break;
            }
            config = overlay.read();
        }
        find_keys(&mut config, &mut overlay);
        if let Some(port) = config.server.port
            && overlay.outranks("server.port", "server.listen")
        {
            config.server.listen = config.server.listen.at(port.narrow());
        }
        let tools = config.tools.iter();
        config.tightenings = tools
            .map(|(id, change)| (id.clone(), change.tightening()))
            .collect();
        let tools = config.tools.iter();
        let rollouts = tools.filter_map(|(id, change)| Some((id.clone(), change.rollout()?)));
        config.rollouts = rollouts.collect();
        let listed = config.condition_values.iter();
        let listed = listed.map(|(name, value)| (name.as_str().to_owned(), value.get().clone()));
        config.condition_facts = Arc::new(Values::new(listed));
        let mut overlay = overlay.into_error()?;
        Ok(Self {
            config,
            ignored_variables: std::mem::take(&mut overlay.ignored_variables),
            overlay,
        })
    }

    /// Whether no source has set a key.
    pub fn is_default(&self, path: &str) -> bool {
        self.overlay.is_default(path)
    }

    /// Every key that has a value, by its path: the value, masked where it is secret, and where it comes from.
    pub fn values(&self) -> BTreeMap<String, (toml::Value, String)> {
        self.overlay.values()
    }

    /// The effective tree as TOML, each value with its origin as a comment, and secrets masked.
    pub fn to_toml(&self) -> String {
        self.overlay.to_toml()
    }
}

/// A key whose value makes no sense beside others, and why; without a reason where it is out of its limits.
fn contradiction(config: &Config) -> Option<(Vec<String>, Option<&'static str>)> {
    let path = |path: &str| path.split('.').map(str::to_owned).collect();
    let provider = &config.provider;
    let (trigger, target) = (
        provider.compression_trigger_tokens,
        provider.compression_target_tokens,
    );
    if target
        .zip(trigger)
        .is_some_and(|(target, trigger)| target.get() >= trigger.get())
    {
        let cause =
            "is not below provider.compression_trigger_tokens; make it smaller, or leave it out";
        return Some((path("provider.compression_target_tokens"), Some(cause)));
    }
    if provider.vertex.is_some() && provider.ephemeral_token.is_some() {
        let cause = "cannot be used with Vertex AI; set provider.vertex.access_token in its place";
        return Some((path("provider.ephemeral_token"), Some(cause)));
    }
    // A chat that is still known here goes on in the store's log.
    let hours = config.store.conversation_hours.get();
    let kept_seconds = hours.max(config.store.effect_hours.get()) * 3_600;
    if config.text.conversation_idle_seconds.get() > kept_seconds {
        let cause = "is longer than store.conversation_hours keeps a conversation; make it shorter, or raise \
                     store.conversation_hours";
        return Some((path("text.conversation_idle_seconds"), Some(cause)));
    }
    let names = || config.condition_values.keys();
    let too_many = names().nth(VALUES_MAX).map(|name| {
        let cause =
            "is one more value of conditions than the 200 that there may be; leave some out";
        (name, cause)
    });
    let unreadable = names().find(|name| !name.is_good()).map(|name| {
        let cause = "has a name that no condition can read; use at most 64 letters, digits and underscores, and begin with no \
                     digit";
        (name, cause)
    });
    if let Some((name, cause)) = too_many.or(unreadable) {
        let mut path: Vec<String> = path("condition_values");
        path.push(name.as_str().to_owned());
        return Some((path, Some(cause)));
    }
    for (name, namespace) in &config.knowledge.namespaces {
        if let Err((key, cause)) = namespace.check() {
            let mut path: Vec<String> = path("knowledge.namespaces");
            path.extend([name.as_str().to_owned(), key.to_owned()]);
            return Some((path, Some(cause)));
        }
    }
    for (id, change) in &config.tools {
        if let Some((version, key)) = change.second_of_number() {
            let cause = "is of a version that another one has the number of; what stands behind a + makes no other version";
            let mut path: Vec<String> = path("tools");
            path.extend([id.as_str(), "versions", version.as_str(), key].map(str::to_owned));
            return Some((path, Some(cause)));
        }
        let flaw = change.rollout().and_then(|rollout| rollout.flaw(None));
        if let Some(flaw) = flaw {
            let mut path: Vec<String> = path("tools");
            let version = flaw.version.as_str();
            path.extend([id.as_str(), "versions", version, flaw.key].map(str::to_owned));
            return Some((path, Some(flaw.cause)));
        }
    }
    for (name, server) in &config.mcp {
        if let Err((key, cause)) = server.check() {
            let mut path: Vec<String> = path("mcp");
            path.push(name.as_str().to_owned());
            path.extend(key);
            return Some((path, Some(cause)));
        }
    }
    for (name, connection) in &config.connections {
        if let Err((key, cause)) = connection.check() {
            let mut path: Vec<String> = path("connections");
            path.extend([name.as_str(), key].map(str::to_owned));
            return Some((path, Some(cause)));
        }
    }
    if let Err((key, cause)) = config.calendar.check() {
        return Some((path(&format!("calendar.{key}")), Some(cause)));
    }
    let limits = [
        ("voice", &config.voice.limits),
        ("text", &config.text.limits),
    ];
    let mut unkept = limits.into_iter().filter_map(|(section, limits)| {
        let limit = limits.check().err()?;
        Some((path(&format!("{section}.limits.{}", limit.name)), None))
    });
    unkept.next()
}

/// Fills keys that are not set from the variables of their provider, and decides who answers by text. A key never goes to another
/// provider than its own, and a self-hosted server gets no provider's key.
fn find_keys(config: &mut Config, overlay: &mut Overlay) {
    let (provider, text) = (&mut config.provider, &mut config.text);
    let own_variable = |name: &Option<Name>| name.as_ref().map(|name| name.as_str().to_owned());
    let mut owner = match provider.kind {
        ProviderKind::OpenaiRealtime | ProviderKind::GptLive => TextProvider::Openai,
        ProviderKind::Auto | ProviderKind::GeminiLive | ProviderKind::Demo => TextProvider::Gemini,
    };
    let mut fall_back = |slot: &mut Option<Secret>, path: &str, variables: &[&str]| {
        overlay.fall_back(slot, path, variables);
    };
    if let Some(variable) = own_variable(&provider.api_key_env) {
        fall_back(&mut provider.api_key, "provider.api_key", &[&variable]);
    }
    let url = provider.url.as_ref().map(|url| url.as_str());
    // The addresses of other companies that speak like OpenAI are known.
    let is_owners = openai_realtime(url, "").profile.realtime == RealtimeForm::Openai;
    if is_owners {
        fall_back(&mut provider.api_key, "provider.api_key", variables(owner));
    }
    if is_anybodys(provider) {
        fall_back(&mut provider.api_key, "provider.api_key", OPENAI);
        if provider.api_key.is_some() {
            provider.kind = ProviderKind::OpenaiRealtime;
            owner = TextProvider::Openai;
        }
    }
    if let Some(variable) = own_variable(&text.api_key_env) {
        fall_back(&mut text.api_key, "text.api_key", &[&variable]);
    }
    // A key for a self-hosted server opens no provider's server, and an ephemeral token opens only live sessions.
    let is_of_company = |key: &&Secret| provider.url.is_none() && !key.is_ephemeral_token();
    let voice = provider.api_key.as_ref().filter(is_of_company);
    let opens_text =
        |key: &Option<Secret>| key.as_ref().is_some_and(|key| !key.is_ephemeral_token());
    let mut fall_back_to = |provider, slot: &mut Option<Secret>| {
        if text.url.is_none() {
            fall_back(slot, "text.api_key", variables(provider));
        }
    };
    let decided = match text.provider {
        TextProviderKind::Gemini => TextProvider::Gemini,
        TextProviderKind::Openai => TextProvider::Openai,
        TextProviderKind::Demo => TextProvider::Demo,
        TextProviderKind::Auto if text.url.is_some() => TextProvider::Openai,
        TextProviderKind::Auto if voice.is_some() => owner,
        TextProviderKind::Auto => {
            if owner == TextProvider::Gemini {
                fall_back_to(TextProvider::Gemini, &mut text.api_key);
            }
            if opens_text(&text.api_key) {
                TextProvider::Gemini
            } else {
                fall_back_to(TextProvider::Openai, &mut text.api_key);
                match opens_text(&text.api_key) {
                    true => TextProvider::Openai,
                    false => TextProvider::Demo,
                }
            }
        }
    };
    fall_back_to(decided, &mut text.api_key);
    if text.api_key.is_none() && decided == owner && text.url.is_none() {
        text.api_key = voice.cloned();
    }
    text.api_key.take_if(|key| key.is_ephemeral_token());
    config.text_provider = decided;
    let knowledge = &mut config.knowledge;
    let companys = match knowledge.embedder {
        _ if knowledge.embedder_url.is_some() => &[],
        EmbedderKind::OpenAi => OPENAI,
        EmbedderKind::Gemini => GOOGLE,
        EmbedderKind::Auto | EmbedderKind::None | EmbedderKind::Local => &[],
    };
    fall_back(
        &mut knowledge.embedder_key,
        "knowledge.embedder_key",
        companys,
    );
    find_keys_of_tools(config, overlay);
    config.reasons = reasons(overlay);
}

/// The same for the services that built-in tools ask.
fn find_keys_of_tools(config: &mut Config, overlay: &mut Overlay) {
    let images = &mut config.images;
    let companys = match images.service {
        _ if images.url.is_some() => &[],
        ImageService::Gemini => GOOGLE,
        ImageService::OpenAi => OPENAI,
        ImageService::Local => &[],
    };
    overlay.fall_back(&mut images.api_key, "images.api_key", companys);
    let search = &mut config.search;
    let companys = match search.service {
        _ if search.url.is_some() => &[],
        SearchService::Brave => BRAVE,
        SearchService::Tavily => TAVILY,
        SearchService::OpenAi => OPENAI,
        SearchService::None => &[],
    };
    overlay.fall_back(&mut search.api_key, "search.api_key", companys);
}

/// Whether nothing says whose models speak by voice, so that the key that is there may say it.
fn is_anybodys(provider: &Provider) -> bool {
    let is_usual = provider.model.as_str() == GEMINI_LIVE_MODEL;
    provider.kind == ProviderKind::Auto
        && provider.url.is_none()
        && provider.vertex.is_none()
        && provider.ephemeral_token.is_none()
        && provider.api_key.is_none()
        && provider.api_key_env.is_none()
        && (is_usual || !provider.model.as_str().contains("gemini"))
}

/// The first key of each mode that a source has set decides.
fn reasons(overlay: &Overlay) -> Reasons {
    let voice = [
        "provider.kind",
        "provider.url",
        "provider.vertex",
        "provider.ephemeral_token",
        "provider.api_key",
    ];
    let text = [
        "text.provider",
        "text.url",
        "text.api_key",
        "provider.api_key",
    ];
    let first = |paths: &[&str]| {
        let why = paths.iter().find_map(|path| overlay.why(path));
        why.unwrap_or_else(|| "no key is set".to_owned())
    };
    Reasons {
        voice: first(&voice),
        text: first(&text),
    }
}

/// The variables that hold a key of the provider whose models these are.
fn variables(provider: TextProvider) -> &'static [&'static str] {
    match provider {
        TextProvider::Gemini => GOOGLE,
        TextProvider::Openai => OPENAI,
        TextProvider::Demo => &[],
    }
}

#[cfg(test)]
mod tests;

//! The section of text conversations: which model answers, how patient the server is with it, and how much is kept. Knows
//! the rules between its keys; opens nothing that it names.

use super::error::ConfigError;
use super::layers::Values;
use super::settings::{ProviderKind, limits, set};
use super::values::{Name, Problem, ProviderUrl, Secret, Setting, Temperature, Whole, choices};
use http::Uri;
use toml::Value;
use windlass_provider::gemini_live::ThinkingLevel;
use windlass_session::limits::Limits;

#[derive(Clone, Debug)]
pub struct Text {
    pub provider: TextProvider,
    /// `None` for the provider's own default.
    pub model: Option<Name>,
    /// Asked in this order where the model fails.
    pub fallback_models: Vec<Name>,
    /// Of the same server, too; `None` where older turns are left out unsummarised.
    pub summary_model: Option<Name>,
    pub url: Option<HttpUrl>,
    pub api_key: Option<Secret>,
    pub temperature: Option<Temperature>,
    pub output_tokens_max: Option<Whole<1, 1_000_000>>,
    pub thinking_level: Option<ThinkingLevel>,
    pub thinking_budget_tokens: Option<Whole<0, 1_000_000>>,
    pub history_tokens_max: Whole<256, 10_000_000>,
    pub request_retries_max: Whole<0, 10>,
    pub requests_max: Whole<2, 1_000>,
    pub turn_seconds: Whole<1, 3_600>,
    pub request_bytes_max: Whole<1_024, 67_108_864>,
    /// Of one message.
    pub images_max: Whole<0, 64>,
    /// Of all pictures of one message.
    pub images_bytes_max: Whole<0, 33_554_432>,
    pub conversations_max: Whole<1, 1_000_000>,
    pub conversation_idle_seconds: Whole<1, 2_592_000>,
    pub guides_tokens_max: Whole<0, 1_000_000>,
    pub limits: Limits,
}

/// Who answers, after `auto` has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextProvider {
    Gemini,
    /// OpenAI, and every server that is compatible with its Chat Completions.
    Openai,
    /// Rules without AI.
    Demo,
}

/// As it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Auto,
    Of(TextProvider),
}

choices!(Written {
    "auto" => Self::Auto,
    "gemini" => Self::Of(TextProvider::Gemini),
    "openai" => Self::Of(TextProvider::Openai),
    "demo" => Self::Of(TextProvider::Demo),
});

/// The address of a server, and the path that stands before that of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl(String);

impl HttpUrl {
    /// Without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names more than a host.
    pub fn has_path(&self) -> bool {
        self.0
            .split_once("://")
            .is_some_and(|(_, rest)| rest.contains('/'))
    }
}

impl Setting for HttpUrl {
    fn read(value: &Value) -> Result<Self, Problem> {
        let text = value.as_str().unwrap_or_default().trim();
        let text = text.trim_end_matches('/');
        let is_good = text.parse::<Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && !text.contains(['@', '?', '#'])
        });
        if is_good {
            return Ok(Self(text.to_owned()));
        }
        Err(Problem::new(
            "is no address of a server",
            "write it as in https://host/v1, without user, query or fragment",
        ))
    }
}

impl Setting for Vec<Name> {
    fn read(value: &Value) -> Result<Self, Problem> {
        value
            .as_array()
            .ok_or_else(|| Problem::new("is no list", "write a list of model ids"))?
            .iter()
            .map(Name::read)
            .collect()
    }
}

pub(super) fn read(values: &mut Values) -> Result<Text, ConfigError> {
    if let Some(variable) = set::<Name>(values, "text.api_key_env")? {
        values.fall_back_to_variable("text.api_key", variable.as_str())?;
    }
    let url: Option<HttpUrl> = set(values, "text.url")?;
    let voice = voice_key(values)?;
    let provider = provider(
        values,
        url.as_ref(),
        voice.as_ref().map(|(owner, _)| *owner),
    )?;
    match provider {
        // A server of one's own gets the key that was set for it, and no company's.
        _ if url.is_some() => {}
        TextProvider::Openai => values.fall_back_to_variable("text.api_key", "OPENAI_API_KEY")?,
        TextProvider::Gemini => {
            for variable in ["GEMINI_API_KEY", "GOOGLE_API_KEY"] {
                values.fall_back_to_variable("text.api_key", variable)?;
            }
        }
        TextProvider::Demo => {}
    }
    let voice = voice.filter(|(owner, _)| *owner == provider && url.is_none());
    let own: Option<Secret> = set(values, "text.api_key")?;
    let key = own.or(voice.map(|(_, key)| key));
    Ok(Text {
        provider,
        url,
        model: set(values, "text.model")?,
        fallback_models: values.need("text.fallback_models")?,
        summary_model: set(values, "text.summary_model")?,
        // An ephemeral token opens live sessions alone.
        api_key: key.filter(|key| !key.is_ephemeral_token()),
        temperature: set(values, "text.temperature")?,
        output_tokens_max: set(values, "text.output_tokens_max")?,
        thinking_level: set(values, "text.thinking_level")?,
        thinking_budget_tokens: set(values, "text.thinking_budget_tokens")?,
        history_tokens_max: values.need("text.history_tokens_max")?,
        request_retries_max: values.need("text.request_retries_max")?,
        requests_max: values.need("text.requests_max")?,
        turn_seconds: values.need("text.turn_seconds")?,
        request_bytes_max: values.need("text.request_bytes_max")?,
        images_max: values.need("text.images_max")?,
        images_bytes_max: values.need("text.images_bytes_max")?,
        conversations_max: values.need("text.conversations_max")?,
        conversation_idle_seconds: values.need("text.conversation_idle_seconds")?,
        guides_tokens_max: values.need("text.guides_tokens_max")?,
        limits: limits(values, "text.limits")?,
    })
}

/// The voice sessions' key, and whose text models it opens, too. One that is for a server of one's own opens no company's.
fn voice_key(values: &Values) -> Result<Option<(TextProvider, Secret)>, ConfigError> {
    let owner = owner(values)?;
    if set::<ProviderUrl>(values, "provider.url")?.is_some() {
        return Ok(None);
    }
    let key: Option<Secret> = set(values, "provider.api_key")?;
    Ok(key
        .filter(|key| !key.is_ephemeral_token())
        .map(|key| (owner, key)))
}

/// The company that voice sessions speak to.
fn owner(values: &Values) -> Result<TextProvider, ConfigError> {
    Ok(match values.need("provider.kind")? {
        ProviderKind::OpenaiRealtime => TextProvider::Openai,
        ProviderKind::Auto | ProviderKind::GeminiLive | ProviderKind::Demo => TextProvider::Gemini,
    })
}

/// `auto` is the one that there is an address or a key for.
fn provider(
    values: &mut Values,
    url: Option<&HttpUrl>,
    voice: Option<TextProvider>,
) -> Result<TextProvider, ConfigError> {
    if let Written::Of(provider) = values.need("text.provider")? {
        return Ok(provider);
    }
    if url.is_some() {
        return Ok(TextProvider::Openai);
    }
    if let Some(provider) = voice {
        return Ok(provider);
    }
    let has_key = |values: &Values| {
        let key = set::<Secret>(values, "text.api_key")?;
        Ok(key.is_some_and(|key| !key.is_ephemeral_token()))
    };
    if owner(values)? == TextProvider::Gemini {
        for variable in ["GEMINI_API_KEY", "GOOGLE_API_KEY"] {
            values.fall_back_to_variable("text.api_key", variable)?;
        }
    }
    if has_key(values)? {
        return Ok(TextProvider::Gemini);
    }
    values.fall_back_to_variable("text.api_key", "OPENAI_API_KEY")?;
    Ok(match has_key(values)? {
        true => TextProvider::Openai,
        false => TextProvider::Demo,
    })
}

//! The model that text conversations talk to: decides addresses, keys and fallbacks from the configuration. Knows no conversation.

use crate::failure::Failure;
use crate::provider::{Choice, check_provider_tools, check_thinking, configured, start_demo};
use crate::text_simulator::TextSimulator;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use windlass_config::{Config, Name, Text, TextProvider, Vertex};
use windlass_contract::kind::Mode;
use windlass_contract::registry::{Registry, STEERING_TOOLS, Tool};
use windlass_contract::sensitive::Sensitive;
use windlass_provider::answer::AnswerLimits;
use windlass_provider::gemini_live::ThinkingLevel;
use windlass_provider::gemini_live::address::Backend;
use windlass_provider::profile::{GEMINI_TEXT_MODEL, OPENAI_TEXT_MODEL, Profile, TextTransport};
use windlass_provider::{gemini_interactions, log, profile};
use windlass_runtime::text::{ModelOptions, Protocol, TextLimits, TextModel, TextSettings};
use windlass_runtime::transport::http::{HttpClient, HttpLimits};
use windlass_session::model::Thinking;
use windlass_sim::runner::Options;
use windlass_sim::text as simulator;

const OPENAI_URL: &str = "https://api.openai.com/v1";
const GEMINI_URL: &str = "https://generativelanguage.googleapis.com";
const GEMINI_VERSION: &str = "v1beta";
const VERTEX_VERSION: &str = "v1beta1";
/// Google's own header for keys, which keeps them out of addresses.
const GEMINI_KEY_HEADER: &str = "x-goog-api-key";

/// Bytes of a conversation beside the pictures of one message.
const LOG_BYTES_BESIDE_IMAGES: usize = 1 << 20;

/// The provider's name on the page and in the log.
pub(crate) fn name(provider: TextProvider) -> &'static str {
    match provider {
        TextProvider::Gemini => "gemini",
        TextProvider::Openai => "openai",
        TextProvider::Demo => "demo",
    }
}

/// Whether typed text is answered while no voice session runs. The demo model answers it where there is a tool for text alone;
/// otherwise typed text begins a voice session, which shows more.
pub(crate) fn answers_typed(provider: TextProvider, registry: &Registry) -> bool {
    let is_for_writing = |tool: &Arc<Tool>| {
        let is_steering = STEERING_TOOLS.contains(&tool.id.as_str());
        !is_steering && tool.may_be_offered(Mode::Text) && !tool.may_be_offered(Mode::Voice)
    };
    provider != TextProvider::Demo || registry.tools().any(is_for_writing)
}

/// The first model's id.
pub(crate) fn model_name(config: &Config) -> String {
    let text = &config.text;
    let usual = match config.text_provider {
        TextProvider::Gemini => GEMINI_TEXT_MODEL,
        TextProvider::Openai => OPENAI_TEXT_MODEL,
        TextProvider::Demo => "demo model",
    };
    text.model
        .as_ref()
        .map_or(usual, |model| model.as_str())
        .to_owned()
}

/// A line that says which model answers by text, why, and how to choose another. `protocol` is that of the first model; `None` without
/// a model.
pub(crate) fn text_line(config: &Config, protocol: Option<&Protocol>) -> String {
    let more = "set OPENAI_API_KEY or GEMINI_API_KEY, or text.url for a server of your own";
    let name = match (config.text_provider, protocol) {
        (_, None) => return format!("text: nobody, because there is no key for it; {more}"),
        (TextProvider::Demo, Some(_)) => {
            return format!(
                "text: the demo model, rules without AI, because {}; {more}",
                config.reasons.text
            );
        }
        (_, Some(protocol)) => match protocol.transport() {
            TextTransport::GenerateContent => "Gemini",
            TextTransport::Interactions => "Gemini by Interactions",
            TextTransport::Responses => "OpenAI by Responses",
            TextTransport::ChatCompletions => "OpenAI's Chat Completions",
        },
    };
    format!(
        "text: {name}, model {}, because {}; --text-provider chooses another",
        model_name(config),
        config.reasons.text
    )
}

/// The address of the demo model for text, which is started here. `None` where another model speaks by text, or by voice:
/// rules must not answer in the place of a model that is paid for.
async fn demo_url(
    config: &Config,
    voice: Choice,
    shutdown: watch::Receiver<bool>,
) -> Result<Option<String>, Failure> {
    if (config.text_provider, voice) != (TextProvider::Demo, Choice::Demo) {
        return Ok(None);
    }
    let url = start_demo(async |address| {
        let protocol = simulator::Protocol::ChatCompletions;
        let simulator = TextSimulator::bind(address, protocol, Options::demo()).await?;
        let url = format!("http://{}/v1", simulator.address()?);
        tokio::spawn(simulator.serve(shutdown));
        Ok(url)
    });
    url.await.map(Some)
}

/// The settings of all text sessions; without models where there is none for text.
pub(crate) async fn settings(
    config: &Config,
    voice: Choice,
    shutdown: watch::Receiver<bool>,
) -> Result<Arc<TextSettings>, Failure> {
    let text = &config.text;
    let first = model_name(config);
    let names = || {
        let fallbacks = text.fallback_models.iter().map(Name::as_str);
        let summary = text.summary_model.iter().map(Name::as_str);
        [first.as_str()].into_iter().chain(fallbacks).chain(summary)
    };
    let mut models = match config.text_provider {
        TextProvider::Openai => openai(config, names())?,
        TextProvider::Gemini => gemini(config, names())?,
        TextProvider::Demo => match demo_url(config, voice, shutdown).await? {
            Some(url) => {
                // The demo model speaks the protocol to the letter, and so insists on a key.
                let key = Sensitive("Bearer none".to_owned());
                served(
                    config,
                    &url,
                    client(&url, Some((AUTHORIZATION, key)), &[])?,
                    names(),
                )
            }
            None => Vec::new(),
        },
    };
    let usual = TextLimits::default();
    let images_bytes_max = text.images_bytes_max.count();
    let log = log::Limits {
        image_bytes_max: images_bytes_max,
        // A message is remembered whole, with the answer to it.
        bytes_max: usual
            .log
            .bytes_max
            .max(images_bytes_max + LOG_BYTES_BESIDE_IMAGES),
        ..usual.log
    };
    let limits = TextLimits {
        log,
        history_tokens_max: text.history_tokens_max.get(),
        request_retries_max: text.request_retries_max.narrow(),
        requests_max: text.requests_max.narrow(),
        turn_timeout: Duration::from_secs(text.turn_seconds.get()),
        answer: AnswerLimits {
            line_bytes_max: text.answer_line_bytes_max.count(),
            ..usual.answer
        },
        ..usual
    };
    // It is named last, and asked for nothing else.
    let summary_model = text.summary_model.as_ref().and_then(|_| models.pop());
    for model in &models {
        let taken = model.protocol.provider_tools();
        check_provider_tools("text", &model.name, &text.provider_tools, taken)?;
    }
    Ok(Arc::new(TextSettings {
        models,
        summary_model,
        limits,
    }))
}

fn openai<'n>(
    config: &Config,
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<Arc<TextModel>>, Failure> {
    let text = &config.text;
    let key = text.api_key.as_ref();
    let url = text.url.as_ref().map_or(OPENAI_URL, |url| url.as_str());
    if key.is_none() && text.url.is_none() {
        return Err(Failure::Failed(
            "the text provider openai needs a key: set OPENAI_API_KEY, or point text.url (--text-provider-url) at a \
             server that needs none"
                .to_owned(),
        ));
    }
    let key = key.map(|key| key.sensitive());
    let bearer = key.map(|key| Sensitive(format!("Bearer {}", key.expose())));
    let client = client(url, bearer.map(|bearer| (AUTHORIZATION, bearer)), &[])?;
    let models = served(config, url, client, names);
    for model in &models {
        if let Protocol::Openai { profile } = &model.protocol {
            check_transport(&model.name, profile, "openai", &OPENAI_TRANSPORTS)?;
        }
        check_tools(model, url)?;
    }
    Ok(models)
}

const OPENAI_TRANSPORTS: [TextTransport; 2] =
    [TextTransport::Responses, TextTransport::ChatCompletions];
const GEMINI_TRANSPORTS: [TextTransport; 2] =
    [TextTransport::GenerateContent, TextTransport::Interactions];

/// Refuses a protocol that the provider does not speak.
fn check_transport(
    model: &str,
    profile: &Profile,
    provider: &str,
    spoken: &[TextTransport; 2],
) -> Result<(), Failure> {
    let asked = profile.request.transport;
    match spoken.contains(&asked) {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "models.{model:?}.transport is {}, which the text provider {provider} does not speak: it speaks {} and {}",
            asked.name(),
            spoken[0].name(),
            spoken[1].name()
        ))),
    }
}

/// OpenAI's own models refuse tools over Chat Completions while they reason. Better now than with every message.
fn check_tools(model: &TextModel, url: &str) -> Result<(), Failure> {
    let Protocol::Openai { profile } = &model.protocol else {
        return Ok(());
    };
    let is_refused = url.contains("api.openai.com")
        && profile.request.transport == TextTransport::ChatCompletions
        && profile.model.thinking == Thinking::Level
        && model.options.thinking_level != Some(ThinkingLevel::None);
    match is_refused {
        true => Err(Failure::Failed(format!(
            "the model {:?} takes no tools over Chat Completions while it reasons: leave its transport out, which makes it \
             responses, or set text.thinking_level to none",
            model.name
        ))),
        false => Ok(()),
    }
}

/// Models of a server that speaks one of OpenAI's protocols.
fn served<'n>(
    config: &Config,
    url: &str,
    client: Arc<HttpClient>,
    names: impl Iterator<Item = &'n str>,
) -> Vec<Arc<TextModel>> {
    names
        .map(|name| {
            let profile = configured(config, name, profile::openai_chat(url, name));
            model(&config.text, name, Protocol::Openai { profile }, &client)
        })
        .collect()
}

fn gemini<'n>(
    config: &Config,
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<Arc<TextModel>>, Failure> {
    let (text, vertex) = (&config.text, config.provider.vertex.as_ref());
    check_thinking("text", text.thinking_level)?;
    let key = text.api_key.as_ref();
    let token = vertex
        .and_then(|vertex| vertex.access_token.as_ref())
        .filter(|_| text.url.is_none());
    if key.is_none() && token.is_none() && text.url.is_none() {
        return Err(Failure::Failed(
            "the text provider gemini needs a key: set GEMINI_API_KEY, or point text.url (--text-provider-url) at a \
             server that needs none"
                .to_owned(),
        ));
    }
    let header = match (token, key) {
        (Some(token), _) => Some((
            AUTHORIZATION,
            Sensitive(format!("Bearer {}", token.sensitive().expose())),
        )),
        (None, Some(key)) => Some((HeaderName::from_static(GEMINI_KEY_HEADER), key.sensitive())),
        (None, None) => None,
    };
    let url = gemini_url(config, vertex);
    let (name, revision) = gemini_interactions::REVISION;
    let usual = client(&url, header.clone(), &[])?;
    let revised = client(&url, header, &[(name, revision)])?;
    let backend = match vertex {
        Some(vertex) => Backend::Vertex {
            location: vertex.location.as_str().to_owned(),
            project: vertex.project.as_ref().map(|name| name.as_str().to_owned()),
            version: None,
        },
        None => Backend::DeveloperApi { version: None },
    };
    let models = names.map(|name| {
        let profile = configured(config, name, profile::gemini_text(name));
        check_transport(name, &profile, "gemini", &GEMINI_TRANSPORTS)?;
        let by_interactions = profile.request.transport == TextTransport::Interactions;
        if by_interactions && vertex.is_some() {
            return Err(Failure::Failed(format!(
                "models.{name:?}.transport is interactions, which Windlass does not speak to Vertex AI: leave it out, or \
                 leave provider.vertex out and set a key of the Gemini API"
            )));
        }
        let client = if by_interactions { &revised } else { &usual };
        let resource = backend.model_name(name);
        let protocol = Protocol::Gemini { profile, resource };
        Ok(model(text, name, protocol, client))
    });
    models.collect()
}

/// An address with a path is taken as it is; one without gets the version of the API.
fn gemini_url(config: &Config, vertex: Option<&Vertex>) -> String {
    let usual = match vertex {
        Some(_) => VERTEX_VERSION,
        None => GEMINI_VERSION,
    };
    let version = config.provider.api_version.as_ref();
    let version = version.map_or(usual, |version| version.as_str());
    match (&config.text.url, vertex) {
        (Some(url), _) if url.has_path() => url.as_str().to_owned(),
        (Some(url), _) => format!("{}/{version}", url.as_str()),
        (None, None) => format!("{GEMINI_URL}/{version}"),
        (None, Some(vertex)) if vertex.location.as_str() == "global" => {
            format!("https://aiplatform.googleapis.com/{version}")
        }
        (None, Some(vertex)) => format!(
            "https://{}-aiplatform.googleapis.com/{version}",
            vertex.location.as_str()
        ),
    }
}

fn client(
    url: &str,
    credentials: Option<(HeaderName, Sensitive<String>)>,
    beside: &[(&'static str, &'static str)],
) -> Result<Arc<HttpClient>, Failure> {
    let agent = concat!("windlass/", env!("CARGO_PKG_VERSION"));
    let mut headers = vec![
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(agent)),
    ];
    headers.extend(beside.iter().map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    }));
    if let Some((name, value)) = credentials {
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| {
            Failure::Failed(
                "the key of the text provider holds characters that no header can carry".to_owned(),
            )
        })?;
        value.set_sensitive(true);
        headers.push((name, value));
    }
    HttpClient::new(url, headers, HttpLimits::default()).map_err(Failure::of)
}

fn model(text: &Text, name: &str, protocol: Protocol, client: &Arc<HttpClient>) -> Arc<TextModel> {
    let options = ModelOptions {
        temperature: text.temperature.map(|temperature| temperature.get()),
        output_tokens_max: text.output_tokens_max.map(|max| max.narrow()),
        thinking_level: text.thinking_level,
        thinking_budget: text.thinking_budget_tokens.map(|max| max.narrow()),
    };
    Arc::new(TextModel::new(name, protocol, client.clone(), options))
}

//! The services that make pictures and search the web for built-in tools, as the configuration names them: each has a way out to its own
//! place alone, whatever `handlers.allow_fetch` lists. Knows no tool.

use http::Uri;
use std::sync::Arc;
use std::time::Duration;
use windlass_config::{Config, ImageService, Name, SearchService, Secret, WebAddress};
use windlass_runtime::fetch::{
    Endpoint as Place, FetchLimits, Fetcher, Places, SystemResolver, WayOut,
};
use windlass_services::Endpoint;
use windlass_services::images::{GeminiImages, OpenaiImages, PlaceholderImages};
use windlass_services::search::{Brave, OpenaiSearch, Tavily};
use windlass_tool::handler::{
    CapabilityFuture, GeneratedImages, Http, ImageRequest, Images, ServiceError, WebSearch,
    WebSearchAnswer, WebSearchRequest,
};

/// Pictures that one call may ask for, as the tool's schema has it.
const PICTURES_MAX: usize = 4;
/// Bytes of an answer beside its pictures, and of one of a search.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The longest that a tool may wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// What makes pictures.
pub(crate) fn images(config: &Config) -> Arc<dyn Images> {
    let settings = &config.images;
    let (address, model) = match settings.service {
        ImageService::Local => return Arc::new(PlaceholderImages::default()),
        ImageService::Gemini => (GeminiImages::USUAL_ADDRESS, GeminiImages::USUAL_MODEL),
        ImageService::OpenAi => (OpenaiImages::USUAL_ADDRESS, OpenaiImages::USUAL_MODEL),
    };
    let bytes_max = settings.picture_bytes_max.count();
    // Base64 takes a third more.
    let answer_bytes_max = PICTURES_MAX * (bytes_max / 3 * 4) + ANSWER_BYTES_MAX;
    let opened = open(
        config,
        address,
        (settings.url.as_ref(), settings.api_key.as_ref()),
        answer_bytes_max,
    );
    let Some((http, endpoint)) = opened else {
        return Arc::new(Off(
            "the image service has no key: set images.api_key, or images.url to a server without one",
        ));
    };
    let model = named(settings.model.as_ref(), model);
    match settings.service {
        ImageService::Gemini => Arc::new(GeminiImages::new(http, endpoint, model, bytes_max)),
        ImageService::OpenAi | ImageService::Local => {
            Arc::new(OpenaiImages::new(http, endpoint, model, bytes_max))
        }
    }
}

/// What searches the web.
pub(crate) fn web_search(config: &Config) -> Arc<dyn WebSearch> {
    let settings = &config.search;
    let address = match settings.service {
        SearchService::None => {
            return Arc::new(Off(
                "nothing here searches the web: set search.service to brave, tavily or openai, and search.api_key",
            ));
        }
        SearchService::Brave => Brave::USUAL_ADDRESS,
        SearchService::Tavily => Tavily::USUAL_ADDRESS,
        SearchService::OpenAi => OpenaiSearch::USUAL_ADDRESS,
    };
    let opened = open(
        config,
        address,
        (settings.url.as_ref(), settings.api_key.as_ref()),
        ANSWER_BYTES_MAX,
    );
    let Some((http, endpoint)) = opened else {
        return Arc::new(Off(
            "the search service has no key: set search.api_key, or search.url to a server without one",
        ));
    };
    match settings.service {
        SearchService::Brave => Arc::new(Brave::new(http, endpoint)),
        SearchService::Tavily => Arc::new(Tavily::new(http, endpoint)),
        SearchService::OpenAi | SearchService::None => {
            let model = named(settings.model.as_ref(), OpenaiSearch::USUAL_MODEL);
            Arc::new(OpenaiSearch::new(http, endpoint, model))
        }
    }
}

fn named(model: Option<&Name>, usual: &str) -> String {
    model.map_or(usual, |model| model.as_str()).to_owned()
}

/// The way to a service; none where it cannot be asked without a key.
fn open(
    config: &Config,
    usual_address: &str,
    (url, key): (Option<&WebAddress>, Option<&Secret>),
    answer_bytes_max: usize,
) -> Option<(Arc<dyn Http>, Endpoint)> {
    let address = match (url, key) {
        (Some(url), _) => url.as_str(),
        (None, Some(_)) => usual_address,
        (None, None) => return None,
    };
    let limits = FetchLimits {
        timeout: ANSWER_TIMEOUT,
        body_bytes_max: answer_bytes_max,
        proxy_resolves_names: config.handlers.proxy_resolves_names,
    };
    let fetcher = Fetcher::new(
        Places::Named(place(address)?),
        limits,
        Arc::new(SystemResolver),
    );
    let endpoint = Endpoint {
        address: address.to_owned(),
        key: key.map(Secret::sensitive),
    };
    Some((Arc::new(WayOut(fetcher)), endpoint))
}

/// Host and port of an address that the configuration has checked.
fn place(address: &str) -> Option<Place> {
    let uri: Uri = address.parse().ok()?;
    let usual_port = match uri.scheme_str()? {
        "https" => 443,
        _ => 80,
    };
    let port = uri.port_u16().unwrap_or(usual_port);
    format!("{}:{port}", uri.host()?).parse().ok()
}

/// A service that cannot be asked; the text says what to set.
struct Off(&'static str);

impl Images for Off {
    fn generate(&self, _: ImageRequest) -> CapabilityFuture<Result<GeneratedImages, ServiceError>> {
        Box::pin(std::future::ready(Err(ServiceError::Off(
            self.0.to_owned(),
        ))))
    }
}

impl WebSearch for Off {
    fn search(
        &self,
        _: WebSearchRequest,
    ) -> CapabilityFuture<Result<WebSearchAnswer, ServiceError>> {
        Box::pin(std::future::ready(Err(ServiceError::Off(
            self.0.to_owned(),
        ))))
    }
}

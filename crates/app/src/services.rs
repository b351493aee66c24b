//! The services that make pictures and search the web for built-in tools, as the configuration names them: each has a way out to its own
//! place alone, whatever `handlers.allow_fetch` lists. Knows no tool.

use std::sync::Arc;
use std::time::Duration;
use windlass_config::{Config, ImageService, Name, SearchService, Secret, WebAddress};
use windlass_contract::handler::{
    CapabilityFuture, GeneratedImages, Http, ImageRequest, Images, ServiceError, WebSearch,
    WebSearchAnswer, WebSearchRequest,
};
use windlass_runtime::fetch::{
    Endpoint as Place, FetchLimits, Fetcher, Places, SystemResolver, WayOut,
};
use windlass_services::Endpoint;
use windlass_services::images::{GeminiImages, OpenaiImages, PlaceholderImages};
use windlass_services::search::{Brave, OpenaiSearch, Tavily};

/// Pictures that one call may ask for, as the tool's schema has it.
const PICTURES_MAX: usize = 4;
/// Bytes of an answer beside its pictures, and of one of a search.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The longest that a tool may wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// The service that makes pictures.
pub(crate) fn images(config: &Config) -> Arc<dyn Images> {
    let settings = &config.images;
    let bytes_max = settings.picture_bytes_max.count();
    let way = Way {
        config,
        url: settings.url.as_ref(),
        key: settings.api_key.as_ref(),
        // Base64 takes a third more.
        answer_bytes_max: PICTURES_MAX * (bytes_max / 3 * 4) + ANSWER_BYTES_MAX,
    };
    let named = |usual| named(settings.model.as_ref(), usual);
    let opened = match settings.service {
        ImageService::Local => return Arc::new(PlaceholderImages::default()),
        ImageService::Gemini => {
            way.open::<dyn Images>(GeminiImages::USUAL_ADDRESS, |http, endpoint| {
                let model = named(GeminiImages::USUAL_MODEL);
                Arc::new(GeminiImages::new(http, endpoint, model, bytes_max))
            })
        }
        ImageService::OpenAi => {
            way.open::<dyn Images>(OpenaiImages::USUAL_ADDRESS, |http, endpoint| {
                let model = named(OpenaiImages::USUAL_MODEL);
                Arc::new(OpenaiImages::new(http, endpoint, model, bytes_max))
            })
        }
    };
    opened.unwrap_or_else(|| {
        Arc::new(Off(
            "the image service has no key: set images.api_key, or images.url to a server without one",
        ))
    })
}

/// The service that searches the web.
pub(crate) fn web_search(config: &Config) -> Arc<dyn WebSearch> {
    let settings = &config.search;
    let way = Way {
        config,
        url: settings.url.as_ref(),
        key: settings.api_key.as_ref(),
        answer_bytes_max: ANSWER_BYTES_MAX,
    };
    let opened = match settings.service {
        SearchService::None => {
            return Arc::new(Off(
                "nothing here searches the web: set search.service to brave, tavily or openai, and search.api_key",
            ));
        }
        SearchService::Brave => way
            .open::<dyn WebSearch>(Brave::USUAL_ADDRESS, |http, endpoint| {
                Arc::new(Brave::new(http, endpoint))
            }),
        SearchService::Tavily => way
            .open::<dyn WebSearch>(Tavily::USUAL_ADDRESS, |http, endpoint| {
                Arc::new(Tavily::new(http, endpoint))
            }),
        SearchService::OpenAi => {
            way.open::<dyn WebSearch>(OpenaiSearch::USUAL_ADDRESS, |http, endpoint| {
                let model = named(settings.model.as_ref(), OpenaiSearch::USUAL_MODEL);
                Arc::new(OpenaiSearch::new(http, endpoint, model))
            })
        }
    };
    opened.unwrap_or_else(|| {
        Arc::new(Off(
            "the search service has no key: set search.api_key, or search.url to a server without one",
        ))
    })
}

fn named(model: Option<&Name>, usual: &str) -> String {
    model.map_or(usual, |model| model.as_str()).to_owned()
}

/// How a service is reached.
struct Way<'a> {
    config: &'a Config,
    url: Option<&'a WebAddress>,
    key: Option<&'a Secret>,
    answer_bytes_max: usize,
}

impl Way<'_> {
    /// The service at its own address or at the configured one; `None` if its key is missing.
    fn open<S: ?Sized>(
        &self,
        usual_address: &str,
        make: impl FnOnce(Arc<dyn Http>, Endpoint) -> Arc<S>,
    ) -> Option<Arc<S>> {
        let address = match (self.url, self.key) {
            (Some(url), _) => url.as_str(),
            (None, Some(_)) => usual_address,
            (None, None) => return None,
        };
        let limits = FetchLimits {
            timeout: ANSWER_TIMEOUT,
            body_bytes_max: self.answer_bytes_max,
            proxy_resolves_names: self.config.handlers.proxy_resolves_names,
        };
        let places = Places::Named(Place::of_url(address)?);
        let fetcher = Fetcher::new(places, limits, Arc::new(SystemResolver));
        let endpoint = Endpoint {
            address: address.to_owned(),
            key: self.key.map(Secret::sensitive),
        };
        Some(make(Arc::new(WayOut(fetcher)), endpoint))
    }
}

/// A service that cannot be asked; the text names the setting that is missing.
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

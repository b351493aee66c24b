//! The services behind built-in tools, as they are looked at: who makes pictures, who searches the web, whose calendar is kept. A
//! service with models is asked about one, and a calendar whether a minute of it is free. Knows no key's form and no answer's.

use super::Finding;
use super::services::{Plan, Service, Vendor};
use crate::{calendar_service, clock};
use std::time::Duration;
use windlass_calendar::PRIMARY;
use windlass_config::{
    CalendarService, Config, ImageService, Name, SearchService, Secret, WebAddress,
};
use windlass_contract::handler::{AvailabilityRequest, CalendarError, CalendarRange};
use windlass_contract::id::UserId;
use windlass_services::images::{GeminiImages, OpenaiImages};
use windlass_services::search::OpenaiSearch;

/// The plan for the service that makes pictures; `None` where there is no service.
pub(super) fn images(config: &Config) -> Option<Plan> {
    let settings = &config.images;
    let (vendor, address, model) = match settings.service {
        ImageService::Local => return None,
        ImageService::Gemini => (
            Vendor::Google,
            GeminiImages::USUAL_ADDRESS,
            GeminiImages::USUAL_MODEL,
        ),
        ImageService::OpenAi => (
            Vendor::Openai,
            OpenaiImages::USUAL_ADDRESS,
            OpenaiImages::USUAL_MODEL,
        ),
    };
    let built_in = BuiltIn {
        check: "images",
        lacks: settings.lacks(),
        url: settings.url.as_ref(),
        model: settings.model.as_ref(),
        model_key: "images.model",
        key: settings.api_key.as_ref(),
    };
    Some(built_in.plan(vendor, address, model, "images.service is set"))
}

/// The plan for the service that searches the web. A search costs money, so only a service that can be asked about a model is asked.
pub(super) fn search(config: &Config) -> Option<Plan> {
    let settings = &config.search;
    let built_in = BuiltIn {
        check: "search",
        lacks: settings.lacks(),
        url: settings.url.as_ref(),
        model: settings.model.as_ref(),
        model_key: "search.model",
        key: settings.api_key.as_ref(),
    };
    match settings.service {
        SearchService::None => None,
        SearchService::OpenAi => Some(built_in.plan(
            Vendor::Openai,
            OpenaiSearch::USUAL_ADDRESS,
            OpenaiSearch::USUAL_MODEL,
            "search.service is set",
        )),
        SearchService::Brave | SearchService::Tavily => Some(match built_in.lacks {
            Some(cure) => built_in.without_key(cure),
            None => Plan::Said(Finding::note(
                built_in.check,
                "the key was not tried, because a search is paid for",
                "ask the agent for something that is on the web to see whether it is right",
            )),
        }),
    }
}

/// A service behind a built-in tool, as the configuration names it.
struct BuiltIn<'a> {
    check: &'static str,
    /// The cure where a key is missing.
    lacks: Option<&'static str>,
    url: Option<&'a WebAddress>,
    model: Option<&'a Name>,
    model_key: &'static str,
    key: Option<&'a Secret>,
}

impl BuiltIn<'_> {
    fn without_key(&self, cure: &str) -> Plan {
        Plan::Said(Finding::wrong(self.check, "the service has no key", cure))
    }

    fn plan(&self, vendor: Vendor, address: &str, model: &str, reason: &str) -> Plan {
        if let Some(cure) = self.lacks {
            return self.without_key(cure);
        }
        Plan::Ask(Box::new(Service {
            check: self.check,
            vendor,
            is_own: self.url.is_some(),
            base: self.url.map_or(address, WebAddress::as_str).to_owned(),
            model: self.model.map_or(model, |model| model.as_str()).to_owned(),
            model_key: self.model_key,
            key: self.key.map(Secret::sensitive),
            reason: reason.to_owned(),
        }))
    }
}

/// Whether Google's calendar takes our account. Files of the data folder need no looking at.
pub(super) async fn calendar(config: &Config, patience: Duration) -> Option<Finding> {
    const CHECK: &str = "calendar";
    const CURE: &str = "compare calendar.google in the configuration with docs/built-in-tools.md";
    match config.calendar.service {
        CalendarService::Files => return None,
        CalendarService::Google => {}
    }
    let calendars = match calendar_service::open(config) {
        Ok(calendars) => calendars,
        Err(failure) => {
            return Some(Finding::wrong(
                CHECK,
                failure.line().unwrap_or_default(),
                CURE,
            ));
        }
    };
    let now = jiff::Timestamp::from_millisecond(clock::now_unix_ms().cast_signed()).ok()?;
    let end = now + jiff::SignedDuration::from_mins(1);
    let request = AvailabilityRequest {
        range: CalendarRange {
            start: now.to_string(),
            end: end.to_string(),
            calendars: vec![PRIMARY.to_owned()],
        },
        slot_minutes_min: 1,
        with_texts: false,
        user_id: UserId::new(CHECK),
    };
    let answer = tokio::time::timeout(patience, calendars.availability(request)).await;
    Some(match answer {
        Ok(Ok(_)) => Finding::good(CHECK, "Google's calendar takes the account"),
        Ok(Err(error @ CalendarError::Limited { .. })) => {
            Finding::note(CHECK, error.to_string(), "try again later")
        }
        Ok(Err(error)) => Finding::wrong(CHECK, error.to_string(), CURE),
        Err(_) => Finding::wrong(
            CHECK,
            format!(
                "Google's calendar did not answer within {} s",
                patience.as_secs()
            ),
            "look whether this machine reaches the internet; where it is only slow, give it more time with --timeout",
        ),
    })
}

//! The choice of the calendars that tools get, by the configuration: files of the data folder, or Google's, and which service makes
//! links of conferences. Opens the key file, and asks no service.

use crate::calendars::FileCalendars;
use crate::clock;
use crate::failure::Failure;
use jiff::SignedDuration;
use jiff::tz::TimeZone;
use std::sync::Arc;
use std::time::Duration;
use windlass_calendar::PRIMARY;
use windlass_config::{
    CalendarAccess, CalendarService, ConferenceService, Config, FilePath, Name, Secret, WebAddress,
};
use windlass_contract::handler::{
    Calendars, CapabilityFuture, FetchError, Http, HttpAnswer, HttpRequest,
};
use windlass_runtime::fetch::{Endpoint, FetchLimits, Fetcher, Places, SystemResolver, WayOut};
use windlass_services::conference::Conferences;
use windlass_services::{
    GoogleCalendars, GoogleSettings, Grant, Links, ServiceAccount, Zoom, ZoomSettings,
};

/// Bytes of an answer. A page of events with long descriptions has its place in it.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// No request may take longer, whatever its own time is.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a key file.
const KEY_FILE_BYTES_MAX: u64 = 64 << 10;

/// The calendars of the configuration.
///
/// # Errors
///
/// Where a key file cannot be read, or an address leads nowhere.
pub(crate) fn open(config: &Config) -> Result<Arc<dyn Calendars>, Failure> {
    let conferences = match config.calendar.conference {
        ConferenceService::Zoom => Some(zoom(config)?),
        ConferenceService::None | ConferenceService::Meet => None,
    };
    match config.calendar.service {
        CalendarService::Files => Ok(Arc::new(FileCalendars::new(config, conferences))),
        CalendarService::Google => google(config, conferences),
    }
}

fn google(
    config: &Config,
    conferences: Option<Arc<dyn Conferences>>,
) -> Result<Arc<dyn Calendars>, Failure> {
    let settings = &config.calendar;
    let account = &settings.google;
    let grant = match &account.service_account {
        Some(file) => {
            let subject = account
                .subject
                .as_ref()
                .map(|name| name.as_str().to_owned());
            Grant::ServiceAccount(Box::new(service_account(file, subject)?))
        }
        None => Grant::Refresh {
            client_id: required("calendar.google.client_id", account.client_id.as_ref())?
                .as_str()
                .to_owned(),
            client_secret: required(
                "calendar.google.client_secret",
                account.client_secret.as_ref(),
            )?
            .sensitive(),
            refresh_token: required(
                "calendar.google.refresh_token",
                account.refresh_token.as_ref(),
            )?
            .sensitive(),
        },
    };
    let others = account.calendars.iter();
    let mut calendars: std::collections::BTreeMap<String, String> = others
        .map(|(name, id)| (name.as_str().to_owned(), id.as_str().to_owned()))
        .collect();
    calendars.insert(PRIMARY.to_owned(), account.calendar_id.as_str().to_owned());
    let links = match (settings.conference, conferences) {
        (ConferenceService::Meet, _) => Links::Meet,
        (_, Some(service)) => Links::Service(service),
        (_, None) => Links::Nobody,
    };
    let buffer = i64::try_from(settings.buffer_minutes.get()).unwrap_or(0);
    let http = way_out(config, &[&account.url, &account.token_url])?;
    let settings = GoogleSettings {
        url: account.url.as_str().to_owned(),
        token_url: account.token_url.as_str().to_owned(),
        grant,
        calendars,
        zone: windlass_calendar::zone(settings.zone.as_str()).unwrap_or(TimeZone::UTC),
        zone_name: settings.zone.as_str().to_owned(),
        hours: settings.working_hours.get().clone(),
        buffer: SignedDuration::from_mins(buffer),
        overlaps: settings.overlaps,
        only_own: settings.access == CalendarAccess::Own,
        invites: account.invitations,
        links,
        timeout_ms: account.timeout_ms.get(),
    };
    let calendars = GoogleCalendars::new(settings, http, clock::now_unix_ms);
    Ok(Arc::new(calendars))
}

fn zoom(config: &Config) -> Result<Arc<dyn Conferences>, Failure> {
    let account = &config.calendar.zoom;
    let text =
        |key: &str, name: Option<&Name>| required(key, name).map(|name| name.as_str().to_owned());
    let secret: &Secret = required(
        "calendar.zoom.client_secret",
        account.client_secret.as_ref(),
    )?;
    let settings = ZoomSettings {
        url: account.url.as_str().to_owned(),
        token_url: account.token_url.as_str().to_owned(),
        account_id: text("calendar.zoom.account_id", account.account_id.as_ref())?,
        client_id: text("calendar.zoom.client_id", account.client_id.as_ref())?,
        client_secret: secret.sensitive(),
        timeout_ms: account.timeout_ms.get(),
    };
    let http = way_out(config, &[&account.url, &account.token_url])?;
    Ok(Arc::new(Zoom::new(settings, http, clock::now_unix_ms)))
}

/// The configuration refuses a service without its credentials, so that this is said where it was not read as a whole.
fn required<'a, T>(key: &str, value: Option<&'a T>) -> Result<&'a T, Failure> {
    value.ok_or_else(|| {
        Failure::Failed(format!(
            "{key} is not set; set it, or leave the service out"
        ))
    })
}

fn service_account(file: &FilePath, subject: Option<String>) -> Result<ServiceAccount, Failure> {
    let path: &std::path::Path = file;
    let failed = |cause: String| {
        Failure::Failed(format!(
            "calendar.google.service_account, the file {}, cannot be used: {cause}",
            path.display()
        ))
    };
    let length = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if length.len() > KEY_FILE_BYTES_MAX {
        return Err(failed("it is too long for a key file".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    ServiceAccount::read(&text, subject).map_err(|error| failed(error.to_string()))
}

/// The way out to services that the configuration names, and to nothing else.
fn way_out(config: &Config, addresses: &[&WebAddress]) -> Result<Arc<dyn Http>, Failure> {
    let limits = || FetchLimits {
        timeout: TIMEOUT,
        body_bytes_max: ANSWER_BYTES_MAX,
        proxy_resolves_names: config.handlers.proxy_resolves_names,
    };
    let ways = addresses.iter().map(|address| {
        let address = address.as_str();
        let place = Endpoint::of_url(address).ok_or_else(|| {
            Failure::Failed(format!(
                "{address} is no place that can be asked; name a host"
            ))
        })?;
        let places = Places::Named(place.clone());
        let fetcher = Fetcher::new(places, limits(), Arc::new(SystemResolver));
        Ok((place, WayOut(fetcher)))
    });
    Ok(Arc::new(ServicePlaces(
        ways.collect::<Result<_, Failure>>()?,
    )))
}

/// A way out to each place.
struct ServicePlaces(Vec<(Endpoint, WayOut)>);

impl Http for ServicePlaces {
    fn fetch(&self, request: HttpRequest) -> CapabilityFuture<Result<HttpAnswer, FetchError>> {
        let asked = Endpoint::of_url(&request.url);
        let known = self
            .0
            .iter()
            .find(|(known, _)| asked.as_ref() == Some(known));
        match known {
            Some((_, way)) => way.fetch(request),
            None => {
                let refusal = "this is not the service's address".to_owned();
                Box::pin(std::future::ready(Err(FetchError::Refused(refusal))))
            }
        }
    }
}

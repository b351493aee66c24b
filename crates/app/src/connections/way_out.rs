//! The way to authorization servers: to one host a request, within the limits of its connection. Knows no message.

use std::net::IpAddr;
use std::sync::Arc;
use windlass_contract::handler::Http;
use windlass_runtime::fetch::{Endpoint, FetchLimits, Fetcher, Places, SystemResolver, WayOut};
use windlass_services::oauth::Ways;

pub(super) struct ServerWays {
    pub(super) limits: FetchLimits,
}

impl Ways for ServerWays {
    fn to(&self, url: &str, is_of_operator: bool) -> Result<Arc<dyn Http>, String> {
        let place = Endpoint::of_url(url).ok_or_else(|| "its address is none".to_owned())?;
        let places = match is_of_operator {
            true => Places::Named(place),
            // A name with private addresses is refused there.
            false if names_address(url) => {
                return Err("its metadata lead to an address without a name".to_owned());
            }
            false => Places::listed([place]),
        };
        let fetcher = Fetcher::new(places, self.limits, Arc::new(SystemResolver));
        Ok(Arc::new(WayOut(fetcher)))
    }
}

/// Whether the host of a URL is an address, or this machine.
fn names_address(url: &str) -> bool {
    let host = url.parse::<http::Uri>().ok();
    let host = host.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let host = host.trim_matches(['[', ']']).trim_end_matches('.');
    host.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::names_address;

    #[test]
    fn metadata_lead_to_names_alone() {
        for (url, expected) in [
            ("https://a.example/token", false),
            ("https://127.0.0.1/token", true),
            ("https://[::1]:9000/token", true),
            ("https://LocalHost./token", true),
        ] {
            assert_eq!(names_address(url), expected, "{url}");
        }
    }
}

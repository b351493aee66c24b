//! The address and the headers of a Realtime session. Opens nothing, and keeps the key out of the URL, because URLs reach logs.

use crate::gemini_live::address::{Address, AddressError, without_secrets};
use windlass_contract::sensitive::Sensitive;

/// The service's own address.
pub const BASE_URL: &str = "https://api.openai.com/v1";

/// The path of Azure's Voice Live, its version, and its own header for the key:
/// <https://learn.microsoft.com/azure/ai-services/speech-service/voice-live-how-to>.
const VOICE_LIVE: &str = "/voice-live/realtime";
const VOICE_LIVE_VERSION: &str = "2026-04-10";

/// The address of a new session with a model. `base_url` replaces OpenAI's, for a simulator, a proxy or a compatible server; a
/// base without a path is taken to have `/v1`. Only with it may the key be missing. The header of the beta is never sent, because
/// the service refuses it (<https://github.com/api7/aisix/pull/1061>).
///
/// # Errors
///
/// A URL of another scheme, a model's name that cannot stand in a URL, a key that cannot stand in a header.
pub fn address(
    key: Option<&Sensitive<String>>,
    base_url: Option<&str>,
    model: &str,
    azure_version: Option<&str>,
) -> Result<Address, AddressError> {
    if base_url.is_none() && key.is_none() {
        return Err(AddressError::NoCredentials);
    }
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:/@".contains(&byte);
    if model.is_empty() || !model.bytes().all(sound) {
        return Err(AddressError::BadPart {
            part: "model",
            value: model.to_owned(),
            allowed: "the signs -._:/@",
        });
    }
    let endpoint = endpoint(base_url.unwrap_or(BASE_URL))?;
    let is_voice_live = endpoint.ends_with(VOICE_LIVE);
    let version = azure_version.unwrap_or(VOICE_LIVE_VERSION);
    if !version.bytes().all(sound) {
        return Err(AddressError::BadPart {
            part: "version",
            value: version.to_owned(),
            allowed: "the signs -._:/@",
        });
    }
    let headers = match key {
        None => Vec::new(),
        Some(key) => {
            let key = key.expose();
            if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(AddressError::BadCredentials { kind: "API key" });
            }
            match is_voice_live {
                true => vec![("api-key", Sensitive(key.clone()))],
                false => vec![("authorization", Sensitive(format!("Bearer {key}")))],
            }
        }
    };
    let url = match is_voice_live {
        true => format!("{endpoint}?api-version={version}&model={model}"),
        false => format!("{endpoint}?model={model}"),
    };
    Ok(Address { url, headers })
}

fn endpoint(base_url: &str) -> Result<String, AddressError> {
    let bad = || AddressError::BadUrl {
        url: without_secrets(base_url),
    };
    let (scheme, rest) = base_url.trim().split_once("://").ok_or_else(bad)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "ws" | "http" => "ws",
        "wss" | "https" => "wss",
        _ => return Err(bad()),
    };
    let printable = rest.bytes().all(|byte| byte.is_ascii_graphic());
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !printable || rest.contains(['@', '?', '#']) || host.is_empty() {
        return Err(bad());
    }
    let path = path.trim_matches('/');
    Ok(match path {
        "" => format!("{scheme}://{host}/v1/realtime"),
        path if path == "realtime" || path.ends_with("/realtime") => {
            format!("{scheme}://{host}/{path}")
        }
        path => format!("{scheme}://{host}/{path}/realtime"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_opened_where_it_is_meant_to_be() {
        let key = Sensitive("sk-1".to_owned());
        for (base_url, url) in [
            (None, "wss://api.openai.com/v1/realtime?model=m"),
            (
                Some("http://127.0.0.1:9"),
                "ws://127.0.0.1:9/v1/realtime?model=m",
            ),
            (
                Some("ws://127.0.0.1:9/v1/"),
                "ws://127.0.0.1:9/v1/realtime?model=m",
            ),
            (
                Some("https://proxy/a/v1/realtime"),
                "wss://proxy/a/v1/realtime?model=m",
            ),
        ] {
            let address = address(Some(&key), base_url, "m", None).unwrap();
            assert_eq!(address.url, url);
            assert_eq!(address.headers.len(), 1);
            assert_eq!(address.headers[0].0, "authorization");
            assert_eq!(address.headers[0].1.expose(), "Bearer sk-1");
        }
    }

    #[test]
    fn voice_live_has_a_version_and_a_header_of_its_own() {
        let key = Sensitive("k1".to_owned());
        let url = Some("https://r.services.ai.azure.com/voice-live/realtime");
        for (version, expected) in [(None, "2026-04-10"), (Some("2025-10-01"), "2025-10-01")] {
            let address = address(Some(&key), url, "gpt-4.1", version).unwrap();
            let endpoint = "wss://r.services.ai.azure.com/voice-live/realtime";
            let query = format!("api-version={expected}&model=gpt-4.1");
            assert_eq!(address.url, format!("{endpoint}?{query}"));
            assert_eq!(address.headers[0].0, "api-key");
            assert_eq!(address.headers[0].1.expose(), "k1");
        }
        assert!(address(Some(&key), url, "m", Some("1&agent_id=x")).is_err());
    }

    #[test]
    fn what_would_change_the_addresss_meaning_is_refused() {
        let key = Sensitive("sk-1".to_owned());
        for (base_url, model) in [
            (Some("ftp://host"), "m"),
            (Some("host"), "m"),
            (Some("ws://"), "m"),
            (Some("ws://user:secret@host"), "m"),
            (Some("ws://host/?x=1"), "m"),
            (None, ""),
            (None, "m&intent=transcription"),
            (None, "m\n"),
        ] {
            let error = address(Some(&key), base_url, model, None).unwrap_err();
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(address(None, None, "m", None).is_err());
        assert!(address(None, Some("ws://host"), "m", None).is_ok());
        assert!(address(Some(&Sensitive("a b".to_owned())), None, "m", None).is_err());
    }
}

//! The address and the credentials of a client: the service's paths, versions and keys. Knows nothing of the connection's messages.

use crate::runner::{Rejection, Upgrade};

/// The front of the service that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    GeminiApi,
    Vertex,
}

const NOT_FOUND: Rejection = Rejection {
    http_status: 404,
    cause: "no such method",
};
const UNAUTHENTICATED: Rejection = Rejection {
    http_status: 401,
    cause: "the request lacks a valid credential",
};
const EXHAUSTED: Rejection = Rejection {
    http_status: 429,
    cause: "the quota of this key is exhausted",
};

const GEMINI_SERVICE: &str = "google.ai.generativelanguage.";
const VERTEX_SERVICE: &str = "google.cloud.aiplatform.";

/// Every non-empty credential is accepted, with two exceptions: `bad-` is refused with 401, `quota-` with 429. An ephemeral token starts
/// with `auth_tokens/`.
pub(crate) fn admit(upgrade: &Upgrade) -> Result<Backend, Rejection> {
    let (path, query) = upgrade
        .target
        .split_once('?')
        .unwrap_or((&upgrade.target, ""));
    let endpoint = route(path).ok_or(NOT_FOUND)?;
    let header = |name: &str| {
        upgrade
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    };
    let authorization = |scheme: &str| {
        let (given, credential) = header("authorization")?.split_once(' ')?;
        given
            .eq_ignore_ascii_case(scheme)
            .then(|| credential.trim().to_owned())
    };
    let key = || parameter(query, "key").or_else(|| header("x-goog-api-key").map(str::to_owned));
    let token = || {
        parameter(query, "access_token")
            .or_else(|| authorization("token"))
            .filter(|token| token.starts_with("auth_tokens/"))
    };
    let (backend, credential) = match endpoint {
        Endpoint::Open => (Backend::GeminiApi, key().or_else(token)),
        Endpoint::Constrained => (Backend::GeminiApi, token()),
        Endpoint::Vertex => (Backend::Vertex, authorization("bearer").or_else(key)),
    };
    let credential = credential.filter(|credential| !credential.is_empty());
    let credential = credential.ok_or(UNAUTHENTICATED)?;
    let secret = credential
        .strip_prefix("auth_tokens/")
        .unwrap_or(&credential);
    if secret.is_empty() || secret.starts_with("bad-") {
        return Err(UNAUTHENTICATED);
    }
    if secret.starts_with("quota-") {
        return Err(EXHAUSTED);
    }
    Ok(backend)
}

enum Endpoint {
    Open,
    Constrained,
    Vertex,
}

/// Any prefix before `/ws/` belongs to a proxy, and the JavaScript SDK doubles a slash.
fn route(path: &str) -> Option<Endpoint> {
    let mut segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.by_ref().find(|segment| *segment == "ws")?;
    let service = segments.next()?;
    let method = segments.next();
    if segments.next().is_some() {
        return None;
    }
    if let Some(rest) = service.strip_prefix(GEMINI_SERVICE) {
        let (version, name) = rest.split_once('.')?;
        let known = ["v1alpha", "v1beta", "v1"].contains(&version) && method.is_none();
        return match name {
            "GenerativeService.BidiGenerateContent" if known => Some(Endpoint::Open),
            "GenerativeService.BidiGenerateContentConstrained" if known => {
                Some(Endpoint::Constrained)
            }
            _ => None,
        };
    }
    let (version, name) = service.strip_prefix(VERTEX_SERVICE)?.split_once('.')?;
    let known = ["v1beta1", "v1"].contains(&version) && name == "LlmBidiService";
    (known && method == Some("BidiGenerateContent")).then_some(Endpoint::Vertex)
}

fn parameter(query: &str, name: &str) -> Option<String> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| percent_decoded(value))
}

/// Undoes percent-encoding; invalid encodings stay as they are.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = (first == b'%').then(|| tail.get(..2)).flatten();
        let decoded = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match decoded {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str =
        "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";
    const CONSTRAINED: &str =
        "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained";
    const VERTEX: &str = "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent";

    fn check(target: String, headers: &[(&str, &str)], expected: Result<Backend, u16>) {
        let upgrade = Upgrade {
            target: target.clone(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let outcome = admit(&upgrade).map_err(|rejection| rejection.http_status);
        assert_eq!(outcome, expected, "{target} {headers:?}");
    }

    #[test]
    fn every_form_of_the_address_is_accepted() {
        let gemini = Ok(Backend::GeminiApi);
        for version in ["v1alpha", "v1beta", "v1"] {
            let path = OPEN.replace("v1beta", version);
            check(format!("{path}?key=k"), &[], gemini);
            check(format!("/{path}?key=k"), &[], gemini);
            check(format!("/prefix//{path}?alt=x&key=k"), &[], gemini);
        }
        for version in ["v1beta1", "v1"] {
            let path = VERTEX.replace("v1beta1", version);
            check(path, &[("Authorization", "Bearer t")], Ok(Backend::Vertex));
        }
        for path in [
            "/",
            "/ws",
            "/ws/",
            "/ws/other",
            &OPEN.replace("v1beta", "v9"),
            &format!("{OPEN}/more"),
        ] {
            check(format!("{path}?key=k"), &[], Err(404));
        }
        check(
            VERTEX.replace('B', "b"),
            &[("authorization", "Bearer t")],
            Err(404),
        );
    }

    #[test]
    fn a_credential_is_read_from_every_place_and_a_bad_one_is_refused_at_the_upgrade() {
        let gemini = Ok(Backend::GeminiApi);
        let key = "x-goog-api-key";
        check(OPEN.into(), &[(key, "k")], gemini);
        check(OPEN.into(), &[("X-Goog-Api-Key", "k")], gemini);
        check(OPEN.into(), &[], Err(401));
        check(format!("{OPEN}?key="), &[], Err(401));
        check(format!("{OPEN}?key=bad-key"), &[], Err(401));
        check(OPEN.into(), &[(key, "bad-key-2")], Err(401));
        check(OPEN.into(), &[(key, "quota-1")], Err(429));
        check(
            format!("{CONSTRAINED}?access_token=auth_tokens/a"),
            &[],
            gemini,
        );
        check(
            format!("{CONSTRAINED}?access_token=auth_tokens%2Fa"),
            &[],
            gemini,
        );
        check(
            CONSTRAINED.into(),
            &[
                ("authorization", "Token auth_tokens/a"),
                (key, "auth_tokens/a"),
            ],
            gemini,
        );
        check(format!("{CONSTRAINED}?access_token=abc"), &[], Err(401));
        check(
            format!("{CONSTRAINED}?access_token=auth_tokens/bad-1"),
            &[],
            Err(401),
        );
        check(format!("{CONSTRAINED}?key=k"), &[], Err(401));
        check(VERTEX.into(), &[(key, "k")], Ok(Backend::Vertex));
        check(
            VERTEX.into(),
            &[("authorization", "Bearer bad-token")],
            Err(401),
        );
        check(VERTEX.into(), &[("authorization", "Basic t")], Err(401));
        check(format!("{OPEN}?key=%zz%"), &[], gemini);
    }
}

//! The address and the credentials of a Live session: URL, headers and the model's resource name for each backend. Opens nothing,
//! and keeps every secret out of the URL, because URLs reach logs.

use windlass_contract::sensitive::Sensitive;

/// The service of Google that the session runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The Gemini Developer API, with an API key or an ephemeral token.
    DeveloperApi {
        /// `v1alpha`, `v1beta` or `v1`; `None` for [`DEVELOPER_API_VERSION`], or [`EPHEMERAL_TOKEN_VERSION`] with a token.
        version: Option<String>,
    },
    /// Vertex AI.
    Vertex {
        /// A region such as `europe-west4`, or `global`.
        location: String,
        /// `None` for models that are named without a project, as in express mode.
        project: Option<String>,
        /// `None` for [`VERTEX_VERSION`].
        version: Option<String>,
    },
}

/// The version under which every Live model has been seen to be served.
pub const DEVELOPER_API_VERSION: &str = "v1beta";
/// The only version documented for ephemeral tokens.
pub const EPHEMERAL_TOKEN_VERSION: &str = "v1alpha";
/// The official clients' default.
pub const VERTEX_VERSION: &str = "v1beta1";

/// The credentials for the service. `Debug` prints none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// Also Vertex in express mode.
    ApiKey(Sensitive<String>),
    /// The `name` that the token endpoint answered: `auth_tokens/…`.
    EphemeralToken(Sensitive<String>),
    /// An OAuth 2 access token, and the project that pays where it is not the token's own.
    Bearer {
        token: Sensitive<String>,
        quota_project: Option<String>,
    },
}

/// The WebSocket's address and headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The URL; holds no secret.
    pub url: String,
    pub headers: Vec<(&'static str, Sensitive<String>)>,
}

/// The reason why there is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "the provider URL {url:?} must begin with ws://, wss://, http:// or https:// and name a host"
    )]
    BadUrl { url: String },
    #[error(
        "the {part} {value:?} of the provider's address may hold only letters, digits and {allowed}"
    )]
    BadPart {
        part: &'static str,
        value: String,
        allowed: &'static str,
    },
    #[error("the {kind} for the provider is empty or holds characters that no header can carry")]
    BadCredentials { kind: &'static str },
    #[error("an ephemeral token opens sessions of the Gemini Developer API only, not of Vertex AI")]
    TokenOnVertex,
    #[error("no credentials for the provider: set an API key, or a provider URL that needs none")]
    NoCredentials,
}

impl Backend {
    /// The resource name of a model for this backend. A name that already is one stays.
    pub fn model_name(&self, model: &str) -> String {
        match self {
            Self::DeveloperApi { .. } if model.starts_with("models/") => model.to_owned(),
            Self::DeveloperApi { .. } => format!("models/{model}"),
            Self::Vertex { .. }
                if model.starts_with("projects/") || model.starts_with("publishers/") =>
            {
                model.to_owned()
            }
            Self::Vertex {
                location, project, ..
            } => {
                let model = model.strip_prefix("models/").unwrap_or(model);
                let publisher = format!("publishers/google/models/{model}");
                match project {
                    Some(project) => format!("projects/{project}/locations/{location}/{publisher}"),
                    None => publisher,
                }
            }
        }
    }

    /// The address of a new session. `base_url` replaces Google's host, for a simulator or a proxy. Its path is kept in front of
    /// the service's own, unless it already ends in the service's method. Credentials may be missing only with a `base_url`.
    ///
    /// # Errors
    ///
    /// A URL of another scheme, a part that would change the address's meaning, credentials that do not fit.
    pub fn address(
        &self,
        credentials: Option<&Credentials>,
        base_url: Option<&str>,
    ) -> Result<Address, AddressError> {
        let is_token = matches!(credentials, Some(Credentials::EphemeralToken(_)));
        let (host, path) = match self {
            Self::DeveloperApi { version } => developer_api(version.as_deref(), is_token)?,
            Self::Vertex { .. } if is_token => return Err(AddressError::TokenOnVertex),
            Self::Vertex {
                location, version, ..
            } => vertex(location, version.as_deref())?,
        };
        let url = match base_url {
            Some(base_url) => based_on(base_url, &path)?,
            None if credentials.is_none() => return Err(AddressError::NoCredentials),
            None => format!("wss://{host}{path}"),
        };
        let headers = match credentials {
            Some(credentials) => headers(credentials)?,
            None => Vec::new(),
        };
        Ok(Address { url, headers })
    }
}

fn developer_api(version: Option<&str>, is_token: bool) -> Result<(String, String), AddressError> {
    let (default, method) = if is_token {
        (EPHEMERAL_TOKEN_VERSION, "BidiGenerateContentConstrained")
    } else {
        (DEVELOPER_API_VERSION, "BidiGenerateContent")
    };
    let version = checked("version", version.unwrap_or(default), "dots", b".")?;
    Ok((
        "generativelanguage.googleapis.com".to_owned(),
        format!("/ws/google.ai.generativelanguage.{version}.GenerativeService.{method}"),
    ))
}

fn vertex(location: &str, version: Option<&str>) -> Result<(String, String), AddressError> {
    let location = checked("location", location, "hyphens", b"-")?;
    let version = checked("version", version.unwrap_or(VERTEX_VERSION), "dots", b".")?;
    let host = if location == "global" {
        "aiplatform.googleapis.com".to_owned()
    } else {
        format!("{location}-aiplatform.googleapis.com")
    };
    Ok((
        host,
        format!("/ws/google.cloud.aiplatform.{version}.LlmBidiService/BidiGenerateContent"),
    ))
}

fn checked<'v>(
    part: &'static str,
    value: &'v str,
    allowed: &'static str,
    also: &[u8],
) -> Result<&'v str, AddressError> {
    let good = !value.is_empty()
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || also.contains(&byte));
    good.then_some(value).ok_or_else(|| AddressError::BadPart {
        part,
        value: value.to_owned(),
        allowed,
    })
}

/// Joins a base and the service's path with single slashes. `http` is read as `ws`, as the official clients do.
fn based_on(base_url: &str, path: &str) -> Result<String, AddressError> {
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
    // A user name before the host would be a secret in a URL; a query or fragment cannot stand before a path.
    if !printable || rest.contains(['@', '?', '#']) {
        return Err(bad());
    }
    let (host, base_path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() {
        return Err(bad());
    }
    let is_whole = base_path.ends_with("BidiGenerateContent")
        || base_path.ends_with("BidiGenerateContentConstrained");
    let mut url = format!("{scheme}://{host}");
    let own = if is_whole { "" } else { path };
    for segment in base_path
        .split('/')
        .chain(own.split('/'))
        .filter(|segment| !segment.is_empty())
    {
        url.push('/');
        url.push_str(segment);
    }
    Ok(url)
}

/// The part of a refused URL that may be shown: neither user nor query.
pub(crate) fn without_secrets(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}://…{}", &url[..scheme], &url[at..])
        }
        (None, Some(at)) => format!("…{}", &url[at..]),
        (Some(_) | None, _) => url.to_owned(),
    }
}

fn headers(
    credentials: &Credentials,
) -> Result<Vec<(&'static str, Sensitive<String>)>, AddressError> {
    Ok(match credentials {
        Credentials::ApiKey(key) => {
            vec![("x-goog-api-key", header("API key", key.expose(), "")?)]
        }
        Credentials::EphemeralToken(token) => {
            let token = token.expose();
            let prefix = if token.starts_with("auth_tokens/") {
                "Token "
            } else {
                "Token auth_tokens/"
            };
            vec![("authorization", header("ephemeral token", token, prefix)?)]
        }
        Credentials::Bearer {
            token,
            quota_project,
        } => {
            let mut headers = vec![(
                "authorization",
                header("access token", token.expose(), "Bearer ")?,
            )];
            if let Some(project) = quota_project {
                headers.push(("x-goog-user-project", header("quota project", project, "")?));
            }
            headers
        }
    })
}

fn header(
    kind: &'static str,
    value: &str,
    prefix: &str,
) -> Result<Sensitive<String>, AddressError> {
    let good = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic());
    good.then(|| Sensitive(format!("{prefix}{value}")))
        .ok_or(AddressError::BadCredentials { kind })
}

#[cfg(test)]
mod tests;

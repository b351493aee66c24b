//! The page: its files, embedded in the program, each with its type and tag. Knows nothing of what they do.

use super::gate::ServedHost;
use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

/// What the page may load and speak to: this server, under the name by which it was asked, and nothing else.
fn policy(host: &Authority) -> String {
    format!(
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; \
         connect-src 'self' ws://{host} wss://{host}"
    )
}

struct File {
    path: &'static str,
    content: &'static [u8],
    content_type: &'static str,
    /// A browser asks again for what is not to be stored.
    cache: &'static str,
}

macro_rules! files {
    ($($path:literal => $name:literal),+ $(,)?) => {
        [$(File {
            path: $path,
            content: include_bytes!(concat!("../../ui/", $name)),
            content_type: content_type($name),
            cache: cache($name),
        }),+]
    };
}

static FILES: [File; 29] = files![
    "/" => "index.html",
    "/index.html" => "index.html",
    "/app.js" => "app.js",
    "/approvals.js" => "approvals.js",
    "/attachments.js" => "attachments.js",
    "/calls.js" => "calls.js",
    "/capture-worklet.js" => "capture-worklet.js",
    "/capture.js" => "capture.js",
    "/chat.js" => "chat.js",
    "/clock.js" => "clock.js",
    "/dom.js" => "dom.js",
    "/icon.svg" => "icon.svg",
    "/json.js" => "json.js",
    "/markdown.js" => "markdown.js",
    "/notices.js" => "notices.js",
    "/playback.js" => "playback.js",
    "/reach.js" => "reach.js",
    "/resample.js" => "resample.js",
    "/session.js" => "session.js",
    "/settings.js" => "settings.js",
    "/sign-in.js" => "sign-in.js",
    "/socket.js" => "socket.js",
    "/storage.js" => "storage.js",
    "/style.css" => "style.css",
    "/theme.js" => "theme.js",
    "/transcript.js" => "transcript.js",
    "/values.js" => "values.js",
    "/vendor/LICENSES.txt" => "vendor/LICENSES.txt",
    "/vendor/markdown.js" => "vendor/markdown.js",
];

const fn ends_with(name: &str, end: &str) -> bool {
    let (name, end) = (name.as_bytes(), end.as_bytes());
    if name.len() < end.len() {
        return false;
    }
    let mut index = 0;
    while index < end.len() {
        if name[name.len() - end.len() + index] != end[index] {
            return false;
        }
        index += 1;
    }
    true
}

const fn content_type(name: &str) -> &'static str {
    if ends_with(name, ".html") {
        "text/html; charset=utf-8"
    } else if ends_with(name, ".js") {
        "text/javascript; charset=utf-8"
    } else if ends_with(name, ".css") {
        "text/css; charset=utf-8"
    } else if ends_with(name, ".txt") {
        "text/plain; charset=utf-8"
    } else {
        "image/svg+xml"
    }
}

const fn cache(name: &str) -> &'static str {
    if ends_with(name, ".html") {
        "no-store"
    } else {
        "no-cache"
    }
}

/// A tag for each file, in their order. Equal contents have equal tags in every run of one build.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|file| {
            let mut hasher = DefaultHasher::new();
            file.content.hash(&mut hasher);
            let tag = format!("\"{:016x}\"", hasher.finish());
            HeaderValue::from_str(&tag).expect("a tag is quoted hexadecimal digits")
        })
        .collect()
});

/// Answers with the file that the path names.
pub(super) async fn serve(request: Request) -> Response<Body> {
    let found = FILES
        .iter()
        .zip(TAGS.iter())
        .find(|(file, _)| file.path == request.uri().path());
    let Some((file, tag)) = found else {
        return super::line(StatusCode::NOT_FOUND, "there is no such page here");
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = super::line(StatusCode::METHOD_NOT_ALLOWED, "this can only be read");
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    let host: Option<&ServedHost> = request.extensions().get();
    let policy = host.and_then(|ServedHost(host)| HeaderValue::from_str(&policy(host)).ok());
    let mut response = if is_known(request.headers(), tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        Response::new(Body::from(Bytes::from_static(file.content)))
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(file.cache));
    if let Some(policy) = policy {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(ETAG, tag.clone());
    response
}

fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|known| known.trim().trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_embedded() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/ui");
        for folder in ["", "/vendor"] {
            for entry in std::fs::read_dir(format!("{root}{folder}")).unwrap() {
                let entry = entry.unwrap();
                let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
                let is_embedded = FILES.iter().any(|file| file.path == path);
                assert!(is_embedded || entry.path().is_dir(), "{path}");
            }
        }
    }
}

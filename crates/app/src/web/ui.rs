//! The page: its files and those of the client package that it uses, embedded in the program, each with its type and tags, as it is and
//! compressed. Knows nothing of their content.

use super::gate::ServedHost;
use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, IF_NONE_MATCH, VARY,
};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{LazyLock, OnceLock};

/// The content policy: the page may load from and speak to this server alone, under the name by which it was asked.
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
    /// The caching rule. A browser requests a file that may not be stored each time.
    cache: &'static str,
}

macro_rules! files {
    ($($path:literal => $name:literal),+ $(,)?) => {
        &[$(File {
            path: $path,
            content: include_bytes!(concat!("../../../../", $name)),
            content_type: content_type($name),
            cache: cache($name),
        }),+]
    };
}

static FILES: &[File] = files![
    "/" => "crates/app/ui/index.html",
    "/app.js" => "crates/app/ui/app.js",
    "/approvals.js" => "crates/app/ui/approvals.js",
    "/attachments.js" => "crates/app/ui/attachments.js",
    "/calls.js" => "crates/app/ui/calls.js",
    "/chat.js" => "crates/app/ui/chat.js",
    "/client/capture-worklet.js" => "clients/javascript/src/capture-worklet.js",
    "/client/chat.js" => "clients/javascript/src/chat.js",
    "/client/connection.js" => "clients/javascript/src/connection.js",
    "/client/conversations.js" => "clients/javascript/src/conversations.js",
    "/client/index.js" => "clients/javascript/src/index.js",
    "/client/microphone.js" => "clients/javascript/src/microphone.js",
    "/client/playback.js" => "clients/javascript/src/playback.js",
    "/client/server.js" => "clients/javascript/src/server.js",
    "/client/storage.js" => "clients/javascript/src/storage.js",
    "/client/voice.js" => "clients/javascript/src/voice.js",
    "/client/zone.js" => "clients/javascript/src/zone.js",
    "/clock.js" => "crates/app/ui/clock.js",
    "/asked.js" => "crates/app/ui/asked.js",
    "/connections.js" => "crates/app/ui/connections.js",
    "/dom.js" => "crates/app/ui/dom.js",
    "/history.js" => "crates/app/ui/history.js",
    "/icon.svg" => "crates/app/ui/icon.svg",
    "/index.html" => "crates/app/ui/index.html",
    "/json.js" => "crates/app/ui/json.js",
    "/markdown.js" => "crates/app/ui/markdown.js",
    "/notices.js" => "crates/app/ui/notices.js",
    "/reach.js" => "crates/app/ui/reach.js",
    "/recalled.js" => "crates/app/ui/recalled.js",
    "/session.js" => "crates/app/ui/session.js",
    "/settings.js" => "crates/app/ui/settings.js",
    "/sign-in.js" => "crates/app/ui/sign-in.js",
    "/standing.js" => "crates/app/ui/standing.js",
    "/style.css" => "crates/app/ui/style.css",
    "/tabs.js" => "crates/app/ui/tabs.js",
    "/tasks.js" => "crates/app/ui/tasks.js",
    "/theme.js" => "crates/app/ui/theme.js",
    "/tool-stats.js" => "crates/app/ui/tool-stats.js",
    "/transcript.js" => "crates/app/ui/transcript.js",
    "/values.js" => "crates/app/ui/values.js",
    "/vendor/LICENSES.txt" => "crates/app/ui/vendor/LICENSES.txt",
    "/vendor/markdown.js" => "crates/app/ui/vendor/markdown.js",
    "/views.js" => "crates/app/ui/views.js",
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

/// Two tags for each file, in their order: as it is, and compressed. Equal contents have equal tags in every run of one build.
static TAGS: LazyLock<Vec<[HeaderValue; 2]>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|file| {
            let mut hasher = DefaultHasher::new();
            file.content.hash(&mut hasher);
            ["", "-gzip"].map(|form| {
                let tag = format!("\"{:016x}{form}\"", hasher.finish());
                HeaderValue::from_str(&tag).expect("a tag is quoted hexadecimal digits")
            })
        })
        .collect()
});

/// The same files, compressed: each once, at its first request.
static COMPRESSED: [OnceLock<Bytes>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];

fn compressed(place: usize) -> Bytes {
    let compress = || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let written = encoder.write_all(FILES[place].content);
        let bytes = written.and_then(|()| encoder.finish());
        bytes.expect("memory takes every file").into()
    };
    COMPRESSED[place].get_or_init(compress).clone()
}

/// Whether a client takes an answer that is compressed by gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let named = |coding: &str| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = matches!(parts.next(), Some("gzip" | "x-gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_gzip && weight.is_none_or(|weight| weight.parse().unwrap_or(0.0) > 0.0)
    };
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(named)
}

/// Answers with the file that the path names.
pub(super) async fn serve(request: Request) -> Response<Body> {
    let path = request.uri().path();
    let found = FILES.iter().position(|file| file.path == path);
    let Some((place, file)) = found.map(|place| (place, &FILES[place])) else {
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
    let is_compressed = takes_gzip(request.headers());
    // Each form has a tag of its own.
    let tag = &TAGS[place][usize::from(is_compressed)];
    let mut response = if is_known(request.headers(), tag) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        Response::new(Body::from(match is_compressed {
            true => compressed(place),
            false => Bytes::from_static(file.content),
        }))
    };
    let headers = response.headers_mut();
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
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
    fn who_takes_gzip_says_so() {
        for (accepted, takes) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, gzip;q=0.8", true),
            ("*", false),
            ("identity", false),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("gzip;q=x", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(takes_gzip(&headers), takes, "{accepted}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn a_compressed_file_is_the_file_and_the_page_is_small() {
        use std::io::Read;
        let mut bytes = 0;
        for (place, file) in FILES.iter().enumerate() {
            let compressed = compressed(place);
            let mut whole = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&compressed[..]);
            decoder.read_to_end(&mut whole).unwrap();
            assert_eq!(whole, file.content, "{}", file.path);
            // A file with two paths is loaded under one of them.
            let is_repeat = FILES[..place]
                .iter()
                .any(|other| other.content == file.content);
            // No page loads it: it is there for who asks whose work is in it.
            let is_read_apart = file.path.ends_with("/LICENSES.txt");
            bytes += match is_repeat || is_read_apart {
                true => 0,
                false => compressed.len(),
            };
        }
        assert!(bytes <= 150_000, "{bytes} bytes");
    }

    #[test]
    fn every_file_of_the_page_is_embedded() {
        let root = env!("CARGO_MANIFEST_DIR");
        for (served, folder) in [
            ("", "ui"),
            ("/vendor", "ui/vendor"),
            ("/client", "../../clients/javascript/src"),
        ] {
            for entry in std::fs::read_dir(format!("{root}/{folder}")).unwrap() {
                let entry = entry.unwrap();
                let path = format!("{served}/{}", entry.file_name().to_str().unwrap());
                let is_embedded = FILES.iter().any(|file| file.path == path);
                assert!(is_embedded || entry.path().is_dir(), "{path}");
            }
        }
    }
}

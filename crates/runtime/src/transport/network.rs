//! The program's way out of this machine: the authorities whose certificates it trusts, and the proxy of a connection. One home
//! for every HTTP and WebSocket connection that it opens. Knows no protocol that travels on them.

mod proxies;

pub(crate) use proxies::Proxy;
pub use proxies::ProxyError;

use proxies::Proxies;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, RwLock};

/// Variables that name authorities in place of the system's: a PEM file, and a folder of PEM files.
pub const ROOT_FILE_VARIABLE: &str = "SSL_CERT_FILE";
pub const ROOT_FOLDER_VARIABLE: &str = "SSL_CERT_DIR";

/// An operator's settings for the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkSettings {
    /// A PEM file of authorities that are trusted besides the others.
    pub ca_file: Option<PathBuf>,
    /// A file of authorities in place of the system's.
    pub root_file: Option<PathBuf>,
    pub root_folder: Option<PathBuf>,
    proxies: ProxySettings,
}

/// The variables of proxies, each with the name under which it was found.
#[derive(Clone, Default, PartialEq, Eq)]
struct ProxySettings {
    plain: Option<(&'static str, String)>,
    secure: Option<(&'static str, String)>,
    exceptions: Option<String>,
}

impl fmt::Debug for ProxySettings {
    /// Leaves the addresses out: they may hold credentials.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |set: &Option<(&'static str, String)>| set.as_ref().map(|(name, _)| *name);
        write!(
            formatter,
            "ProxySettings({:?}, {:?})",
            name(&self.plain),
            name(&self.secure)
        )
    }
}

impl NetworkSettings {
    /// The settings in an environment's variables.
    pub fn of_variables(variables: &BTreeMap<OsString, OsString>) -> Self {
        let value = |name: &str| {
            variables
                .get(OsStr::new(name))
                .filter(|set| !set.is_empty())
        };
        let first = |names: [&'static str; 4]| {
            let mut set = names.into_iter();
            set.find_map(|name| Some((name, value(name)?.to_string_lossy().into_owned())))
        };
        let exceptions = value("NO_PROXY").or_else(|| value("no_proxy"));
        Self {
            ca_file: None,
            root_file: value(ROOT_FILE_VARIABLE).map(PathBuf::from),
            root_folder: value(ROOT_FOLDER_VARIABLE).map(PathBuf::from),
            proxies: ProxySettings {
                plain: first(["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]),
                secure: first(["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
                exceptions: exceptions.map(|text| text.to_string_lossy().into_owned()),
            },
        }
    }
}

/// The reason why the network cannot be used with the operator's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    #[error("{name}: {} {problem}; name a PEM file with the certificates of authorities", .path.display())]
    Authorities {
        name: &'static str,
        path: PathBuf,
        problem: String,
    },
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// The trusted authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    pub origin: RootsOrigin,
    pub count: usize,
    /// The number from `tls.ca_file`.
    pub own: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootsOrigin {
    /// `SSL_CERT_FILE` or `SSL_CERT_DIR`.
    Variable(&'static str),
    System,
    /// The program's own list, because the system has none.
    BuiltIn,
}

/// The way out, made ready.
pub struct Network {
    tls: Arc<ClientConfig>,
    roots: Roots,
    proxies: Proxies,
}

type Made = Result<Arc<Network>, NetworkError>;

/// The settings of the process, and the network that is made of them at the first use.
struct OfProcess {
    settings: NetworkSettings,
    made: OnceLock<Made>,
}

static OF_PROCESS: RwLock<Option<Arc<OfProcess>>> = RwLock::new(None);

impl Network {
    /// Sets the way of every later connection of this process. Nothing is opened or read before the first connection. A program
    /// without settings trusts the system's authorities and uses no proxy.
    pub fn set_up(settings: NetworkSettings) {
        let mut place = OF_PROCESS.write().expect("nobody panics while it is held");
        *place = Some(Arc::new(OfProcess {
            settings,
            made: OnceLock::new(),
        }));
    }

    /// The network of this process.
    ///
    /// # Errors
    ///
    /// A file has no certificates, or a proxy's address is invalid.
    pub fn of_process() -> Made {
        let set_up = OF_PROCESS
            .read()
            .expect("nobody panics while it is held")
            .clone();
        let Some(set_up) = set_up else {
            Self::set_up(NetworkSettings::default());
            return Self::of_process();
        };
        let OfProcess { settings, made } = &*set_up;
        made.get_or_init(|| Self::new(settings).map(Arc::new))
            .clone()
    }

    fn new(settings: &NetworkSettings) -> Result<Self, NetworkError> {
        let (store, roots) = believed(settings)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| NetworkError::Tls(error.to_string()))?
            .with_root_certificates(store)
            .with_no_client_auth();
        let ProxySettings {
            plain,
            secure,
            exceptions,
        } = &settings.proxies;
        Ok(Self {
            tls: Arc::new(tls),
            roots,
            proxies: Proxies::new(
                plain.as_ref().map(|(name, url)| (*name, url.as_str())),
                secure.as_ref().map(|(name, url)| (*name, url.as_str())),
                exceptions.as_deref().unwrap_or_default(),
            )?,
        })
    }

    pub(super) fn tls(&self) -> Arc<ClientConfig> {
        self.tls.clone()
    }

    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The proxies, as `VARIABLE (HOST:PORT)`, without their credentials.
    pub fn proxies(&self) -> Vec<String> {
        self.proxies.shown()
    }

    /// The proxy through which a host is reached, if not directly.
    pub(crate) fn proxy(&self, host: &str, port: u16, is_secure: bool) -> Option<Arc<Proxy>> {
        self.proxies.of(host, port, is_secure)
    }
}

fn believed(settings: &NetworkSettings) -> Result<(RootCertStore, Roots), NetworkError> {
    let mut store = RootCertStore::empty();
    let named = match (&settings.root_file, &settings.root_folder) {
        (Some(file), _) => Some((ROOT_FILE_VARIABLE, file)),
        (None, Some(folder)) => Some((ROOT_FOLDER_VARIABLE, folder)),
        (None, None) => None,
    };
    let origin = match named {
        Some((name, path)) => {
            let found = rustls_native_certs::load_certs_from_paths(
                settings.root_file.as_deref(),
                settings.root_folder.as_deref(),
            );
            let problem = found.errors.first().map(ToString::to_string);
            if add(&mut store, found) == 0 {
                return Err(NetworkError::Authorities {
                    name,
                    path: path.clone(),
                    problem: problem.map_or_else(
                        || "holds no certificate".to_owned(),
                        |problem| format!("holds no certificate ({problem})"),
                    ),
                });
            }
            RootsOrigin::Variable(name)
        }
        None if add(&mut store, rustls_native_certs::load_native_certs()) > 0 => {
            RootsOrigin::System
        }
        None => {
            store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
            RootsOrigin::BuiltIn
        }
    };
    let own = match &settings.ca_file {
        Some(path) => add_own(&mut store, path)?,
        None => 0,
    };
    let count = store.len();
    Ok((store, Roots { origin, count, own }))
}

/// Adds the system's certificates. Systems carry unreadable ones, which are passed over.
fn add(store: &mut RootCertStore, found: CertificateResult) -> usize {
    let (added, _unread) = store.add_parsable_certificates(found.certs);
    added
}

/// Adds the operator's certificates. A file that cannot be read as a whole is refused.
fn add_own(store: &mut RootCertStore, path: &Path) -> Result<usize, NetworkError> {
    let refuse = |problem: String| NetworkError::Authorities {
        name: "tls.ca_file",
        path: path.to_owned(),
        problem,
    };
    let file = std::fs::read(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&file) {
        let certificate =
            certificate.map_err(|error| refuse(format!("is no PEM file: {error}")))?;
        store
            .add(certificate)
            .map_err(|error| refuse(format!("holds a broken certificate: {error}")))?;
        count += 1;
    }
    match count {
        0 => Err(refuse("holds no certificate".to_owned())),
        count => Ok(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_none_of_authorities_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (path, problem) in [
            (at("text", "hello"), "holds no certificate"),
            (at("empty", ""), "holds no certificate"),
            (at("key", key), "holds no certificate"),
            (at("broken", broken), "holds a broken certificate"),
            (folder.path().join("missing"), "cannot be read"),
            (folder.path().to_owned(), "cannot be read"),
        ] {
            let own = NetworkSettings {
                ca_file: Some(path.clone()),
                ..NetworkSettings::default()
            };
            let error = Network::new(&own).err().unwrap().to_string();
            let expected = format!("tls.ca_file: {} {problem}", path.display());
            assert!(error.starts_with(&expected), "{error}");
            assert!(error.ends_with("name a PEM file with the certificates of authorities"));
            let variables = [(ROOT_FILE_VARIABLE.into(), path.clone().into_os_string())];
            let named = NetworkSettings::of_variables(&variables.into());
            if path.is_file() || !path.exists() {
                let error = Network::new(&named).err().unwrap().to_string();
                let expected = format!("SSL_CERT_FILE: {} holds no certificate", path.display());
                assert!(error.starts_with(&expected), "{error}");
            }
        }
    }
}

//! What the tests share: the program as a process, a server of the library, an HTTP client and a voice client. Knows no rule
//! that is tested.

pub(crate) mod change;
pub(crate) mod held_store;
pub(crate) mod http;
pub(crate) mod live_model;
pub(crate) mod live_provider;
pub(crate) mod mcp_client;
pub(crate) mod model_server;
pub(crate) mod program;
pub(crate) mod provider_peer;
pub(crate) mod voice_client;

use std::path::{Path, PathBuf};
use windlass_app::server::config::{Config, Flag, Loaded, Sources};

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The configuration of a server on a free port, with the repository's tools and records, and keys set on top.
pub(crate) fn config(data: &Path, keys: &[(&'static str, &str)]) -> Config {
    let root = root();
    let folder = |name: &str| root.join(name).display().to_string();
    let data = data.display().to_string();
    let usual = [
        ("server.listen", "127.0.0.1:0".to_owned()),
        ("folders.tools", folder("tools")),
        ("folders.knowledge", folder("kb")),
        ("folders.prompts", folder("prompts")),
        ("folders.data", data),
    ];
    let own = keys.iter().map(|(key, value)| (*key, (*value).to_owned()));
    let flags = usual.into_iter().chain(own).map(|(key, value)| Flag {
        name: "--test",
        key,
        value,
    });
    let sources = Sources {
        working_directory: root.join("target/no-such-folder"),
        flags: flags.collect(),
        ..Sources::default()
    };
    Loaded::load(&sources).unwrap().config
}

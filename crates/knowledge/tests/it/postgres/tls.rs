//! Databases that are spoken to in secret: whose word is taken for who they are, and what is said where it is not taken.

use super::outage::Way;
use super::server::{self, Published, connect, settings, wait};
use crate::support::{index_records, record, request};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use windlass_contract::handler::Knowledge;
use windlass_contract::sensitive::Sensitive;
use windlass_knowledge::Options;
use windlass_knowledge::postgres::{PostgresBase, PostgresError, PostgresSettings};

/// What a client sends first that wants to speak in secret.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/postgres/certificates")
        .join(name)
}

/// The server, behind one that speaks in secret with a certificate; its port. Nothing else gets through.
fn secret_server(certificate: &str) -> u16 {
    let chain = vec![CertificateDer::from_pem_file(path(certificate)).unwrap()];
    let key = PrivateKeyDer::from_pem_file(path("server.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    wait(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                tokio::spawn(carry(acceptor.clone(), near));
            }
        });
        port
    })
}

async fn carry(acceptor: TlsAcceptor, mut near: TcpStream) -> io::Result<()> {
    let mut first = [0; 8];
    near.read_exact(&mut first).await?;
    assert_eq!(first, REQUEST, "somebody speaks for everybody to hear");
    near.write_all(b"S").await?;
    let mut near = acceptor.accept(near).await?;
    let mut far = connect().await?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

fn secret(host: &str, port: u16, root: Option<&str>, of: &PostgresSettings) -> PostgresSettings {
    PostgresSettings {
        address: Sensitive(format!(
            "postgres://windlass:hunter2@{host}:{port}/postgres?hostaddr=127.0.0.1&sslmode=require"
        )),
        root_certificate: root.map(path),
        ..of.clone()
    }
}

#[test]
fn a_database_is_trusted_on_the_word_of_the_authority_that_was_named() {
    if !server::is_there() {
        return;
    }
    let records = vec![record("doc:a", "Fram", "A ship of oak.")];
    let published = Published::of(
        &index_records(records, &Options::default()),
        &Options::default(),
    );
    for (certificate, root) in [("server.pem", "authority.pem"), ("alone.pem", "alone.pem")] {
        let settings = secret(
            "localhost",
            secret_server(certificate),
            Some(root),
            &published.settings,
        );
        // What other programs call the strictest check is the usual one here.
        for mode in ["require", "verify-ca", "verify-full"] {
            let mut settings = settings.clone();
            settings.address.0 = settings.address.0.replace("require", mode);
            let base = wait(PostgresBase::open(&settings, &Options::default())).unwrap();
            let found = wait(base.search(request("oak"))).unwrap();
            assert_eq!(found.hits.len(), 1, "{certificate} {mode}");
        }
    }
}

#[test]
fn a_database_that_nobody_vouches_for_is_refused_with_the_cure() {
    if !server::is_there() {
        return;
    }
    let settings = settings(server::address());
    let authority = Some("authority.pem");
    for (certificate, host, root, said) in [
        (
            "server.pem",
            "localhost",
            None,
            "signed by nobody who is believed here: name the certificate of your own authority in knowledge.postgres_root_certificate",
        ),
        (
            "alone.pem",
            "localhost",
            authority,
            "signed by nobody who is believed here",
        ),
        (
            "server.pem",
            "127.0.0.1",
            authority,
            "for another name than that in the address: write the name",
        ),
        (
            "expired.pem",
            "localhost",
            authority,
            "has expired: renew it",
        ),
        (
            "own.pem",
            "localhost",
            Some("own.pem"),
            "that of an authority: give the server one that the authority has signed",
        ),
    ] {
        let settings = secret(host, secret_server(certificate), root, &settings);
        check(&settings, said);
    }
    // A server that only speaks for everybody to hear is told nothing, the password least of all.
    let port = Way::to_server().port;
    check(
        &secret("localhost", port, authority, &settings),
        "it does not encrypt its connections: turn `ssl` on there, or write `?sslmode=disable`",
    );
}

fn check(settings: &PostgresSettings, said: &str) {
    let refused = wait(PostgresBase::open(settings, &Options::default()));
    let error = refused.err().unwrap();
    assert!(matches!(error, PostgresError::Untrusted(_)), "{error:?}");
    let line = error.to_string();
    assert!(
        line.starts_with("the PostgreSQL database cannot be trusted: ") && line.contains(said),
        "{line}"
    );
    assert!(!line.contains("hunter2"), "{line}");
}

#[test]
fn a_file_that_holds_no_certificates_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (name, text, said) in [
        ("none.pem", None, "No such file"),
        ("empty.pem", Some(""), "there is no certificate in it"),
        ("damaged.pem", Some(damaged), ""),
    ] {
        let file = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        // Nobody listens there, which would be said in other words.
        let mut settings = settings("postgres://windlass@127.0.0.1:1/postgres".to_owned());
        settings.root_certificate = Some(file.clone());
        let error = wait(PostgresBase::open(&settings, &Options::default()))
            .err()
            .unwrap();
        let line = error.to_string();
        assert!(matches!(error, PostgresError::Authorities { .. }), "{line}");
        assert!(line.contains(said) && line.contains(name), "{line}");
    }
}

//! `windlass healthcheck`: asks the server of this machine whether it takes sessions. For containers and service managers, whose images
//! have no other program for it.

use super::{HealthcheckArguments, load_config};
use crate::failure::Failure;
use crate::printer::Printer;
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// A server that does not answer in this time is not well.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than the first line of an answer.
const LINE_BYTES_MAX: u64 = 64;

pub(super) fn run(arguments: &HealthcheckArguments) -> Result<(), Failure> {
    let config = load_config(&arguments.file, arguments.place.keys())?;
    let address = reached_at(config.server.listen.get());
    let line = first_line(address).map_err(|error| {
        Failure::Failed(format!(
            "the server at {address} does not answer: {error}; look whether it runs, and name its address with --listen"
        ))
    })?;
    match line.split(' ').nth(1) {
        Some("200") => {
            Printer.outcome(
                &format!("the server at {address} takes sessions"),
                &json!({ "ready": address.to_string() }),
            );
            Ok(())
        }
        Some("503") => Err(Failure::Failed(format!(
            "the server at {address} is shutting down"
        ))),
        _ => Err(Failure::Failed(format!(
            "what answers at {address} is no windlass: {line:?}"
        ))),
    }
}

/// A server that listens on every address is asked on the loopback one.
pub(super) fn reached_at(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listen.port())
}

fn first_line(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /ready HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )?;
    let mut beginning = Vec::new();
    stream.take(LINE_BYTES_MAX).read_to_end(&mut beginning)?;
    let text = String::from_utf8_lossy(&beginning);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

//! `windlass connections`: lists and ends the connections of users in a data folder. A running server sees a change at once.

use super::{
    ConnectionsArguments, ConnectionsCommand, ListConnectionsArguments, RevokeConnectionArguments,
    flags, load_config,
};
use crate::access::oidc::tenant_of;
use crate::connections::{ConnectionDesk, ConnectionId, Listed};
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use crate::records::open_audit;
use serde_json::json;
use std::sync::Arc;
use windlass_config::Config;
use windlass_contract::envelope::rfc3339;
use windlass_contract::id::{ClientId, TenantId};
use windlass_contract::template::escaped;
use windlass_runtime::audit::Audit;

pub(super) fn run(arguments: &ConnectionsArguments) -> Result<(), Failure> {
    match &arguments.command {
        ConnectionsCommand::List(arguments) => list(arguments),
        ConnectionsCommand::Revoke(arguments) => revoke(arguments),
    }
}

fn desk(config: &Config, audit: Option<Arc<Audit>>) -> Result<Arc<ConnectionDesk>, Failure> {
    ConnectionDesk::open(config, audit)?.ok_or_else(|| {
        Failure::Failed(
            "the configuration has no connections: write [connections.NAME] in windlass.toml"
                .to_owned(),
        )
    })
}

fn list(arguments: &ListConnectionsArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let listed = desk(&config, None)?.list().map_err(Failure::of)?;
    if Printer.format() == Format::Json {
        let of_one = |listed: &Listed| {
            json!({
                "name": listed.id.connection,
                "user": listed.id.owner,
                "tenant": listed.id.tenant,
                "connectedAt": rfc3339(listed.connected_unix_ms),
            })
        };
        let listed: Vec<_> = listed.iter().map(of_one).collect();
        Printer.result(&json!({ "connections": listed }).to_string());
        return Ok(());
    }
    if listed.is_empty() {
        Printer.hint("nobody has connected anything");
    }
    for Listed {
        id,
        connected_unix_ms,
    } in &listed
    {
        let tenant = match id.tenant == TenantId::default() {
            true => String::new(),
            false => format!(", tenant {}", id.tenant),
        };
        let line = format!(
            "{}  {}  user {}{tenant}",
            rfc3339(*connected_unix_ms),
            id.connection,
            id.owner
        );
        Printer.result(&escaped(&line));
    }
    Ok(())
}

fn revoke(arguments: &RevokeConnectionArguments) -> Result<(), Failure> {
    if arguments.user.is_empty() {
        return Err(Failure::Usage(
            "\"\" cannot be a user: write one as windlass connections list does".to_owned(),
        ));
    }
    let tenant = match &arguments.tenant {
        None => TenantId::default(),
        Some(name) => tenant_of(name).ok_or_else(|| {
            Failure::Usage(format!(
                "{name:?} cannot be a tenant: write 1 to 64 letters, digits and marks out of . _ -"
            ))
        })?,
    };
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    // A server that runs writes the same audit: each line is written under its lock.
    let audit = open_audit(&config)?;
    let desk = desk(&config, audit.clone())?;
    let id = ConnectionId {
        tenant,
        owner: ClientId::new(arguments.user.as_str()),
        connection: arguments.name.clone(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::of)?;
    let ended = runtime.block_on(desk.end_and_wait(id, "operator"));
    if let Some(audit) = audit {
        audit.close();
    }
    if !ended.map_err(Failure::of)? {
        return Err(Failure::Failed(format!(
            "there is no connection {} of the user {}; windlass connections list prints those that there are",
            arguments.name, arguments.user
        )));
    }
    Printer.outcome(
        &escaped(&format!(
            "ended the connection {} of the user {}",
            arguments.name, arguments.user
        )),
        &json!({ "ended": arguments.name, "user": arguments.user }),
    );
    Ok(())
}

//! `windlass keys`: makes, lists and revokes the API keys of a data folder. A running server sees a change within seconds.

use super::{
    AddKeyArguments, KeysArguments, KeysCommand, ListKeysArguments, RevokeKeyArguments, flags,
    load_config, roles,
};
use crate::access::{KeyChange, KeyFile, NewKey, is_user_name, oidc::tenant_of};
use crate::clock;
use crate::failure::Failure;
use crate::printer::Printer;
use serde_json::json;
use windlass_tool::envelope::rfc3339;
use windlass_tool::rights::Role;

pub(super) fn run(arguments: &KeysArguments) -> Result<(), Failure> {
    match &arguments.command {
        KeysCommand::Add(arguments) => add(arguments),
        KeysCommand::List(arguments) => list(arguments),
        KeysCommand::Revoke(arguments) => revoke(arguments),
    }
}

fn add(arguments: &AddKeyArguments) -> Result<(), Failure> {
    if let Some(user) = arguments.user.as_deref().filter(|user| !is_user_name(user)) {
        return Err(Failure::Usage(format!(
            "{user:?} cannot be a user: write 1 to 128 printable characters"
        )));
    }
    let tenant = match &arguments.tenant {
        None => None,
        Some(name) => Some(tenant_of(name).ok_or_else(|| {
            Failure::Usage(format!(
                "{name:?} cannot be a tenant: write 1 to 64 letters, digits and marks out of . _ -"
            ))
        })?),
    };
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let change = KeyChange::Add {
        key: NewKey {
            name: arguments.name.clone(),
            roles: roles(&arguments.role)?.into_iter().collect(),
            user: arguments.user.clone(),
            tenant,
        },
        keys_max: config.access.keys_max.count(),
        now_unix_ms: clock::now_unix_ms(),
    };
    let made = KeyFile::of(&config.folders.data).change(change);
    if let Some(key) = made.map_err(Failure::of)? {
        Printer.problem("This is shown once; only its hash is kept:");
        Printer.result(key.expose());
    }
    Ok(())
}

fn list(arguments: &ListKeysArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let keys = KeyFile::of(&config.folders.data).read();
    for key in keys.map_err(Failure::of)? {
        let roles: Vec<&str> = key.roles.iter().map(Role::as_str).collect();
        let line = json!({
            "name": key.name,
            "user": key.user,
            "tenant": key.tenant,
            "roles": roles,
            "createdAt": rfc3339(key.created_at_unix_ms),
        });
        Printer.result(&line.to_string());
    }
    Ok(())
}

fn revoke(arguments: &RevokeKeyArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let change = KeyChange::Revoke {
        name: &arguments.name,
    };
    let revoked = KeyFile::of(&config.folders.data).change(change);
    revoked.map_err(Failure::of)?;
    Printer.result(&format!(
        "revoked {}; sessions that began with it end within a minute",
        arguments.name
    ));
    Ok(())
}

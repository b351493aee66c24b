//! `windlass keys`: makes, lists and revokes the API keys of a data folder. A running server sees a change within seconds.

use super::{
    AddKeyArguments, KeysArguments, KeysCommand, ListKeysArguments, RevokeKeyArguments, flags,
    load_config, roles,
};
use crate::access::{
    KeyChange, KeyFile, KeyFileError, NewKey, StoredKey, is_user_name, oidc::tenant_of,
};
use crate::clock;
use crate::failure::Failure;
use crate::printer::{Format, Printer};
use serde_json::json;
use windlass_contract::envelope::rfc3339;
use windlass_contract::rights::Role;
use windlass_contract::template::escaped;

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
    let roles = roles(&arguments.role)?;
    let config = load_config(&arguments.file, flags)?;
    let change = KeyChange::Add {
        key: NewKey {
            name: arguments.name.clone(),
            roles: roles.into_iter().collect(),
            user: arguments.user.clone(),
            tenant,
        },
        keys_max: config.access.keys_max.count(),
        now_unix_ms: clock::now_unix_ms(),
    };
    let made = KeyFile::of(&config.folders.data).change(change);
    let made = made.map_err(|error| match error {
        KeyFileError::BadName { .. } => Failure::Usage(error.to_string()),
        error => Failure::of(error),
    });
    if let Some(key) = made? {
        Printer.hint("This is shown once; only its hash is kept:");
        Printer.outcome(
            key.expose(),
            &json!({ "name": arguments.name, "key": key.expose() }),
        );
    }
    Ok(())
}

fn list(arguments: &ListKeysArguments) -> Result<(), Failure> {
    let flags = flags([("--data", "folders.data", &arguments.data)]);
    let config = load_config(&arguments.file, flags)?;
    let keys = KeyFile::of(&config.folders.data).read();
    let keys = keys.map_err(Failure::of)?;
    let role_names = |key: &StoredKey| -> Vec<String> {
        let roles = key.roles.iter().map(Role::as_str);
        roles.map(str::to_owned).collect()
    };
    if Printer.format() == Format::Json {
        let of_one = |key: &StoredKey| {
            json!({
                "name": key.name,
                "user": key.user,
                "tenant": key.tenant,
                "roles": role_names(key),
                "createdAt": rfc3339(key.created_at_unix_ms),
            })
        };
        let keys: Vec<_> = keys.iter().map(of_one).collect();
        Printer.result(&json!({ "keys": keys }).to_string());
        return Ok(());
    }
    if keys.is_empty() {
        Printer.hint("there are no keys; windlass keys add NAME makes one");
    }
    for key in &keys {
        let user = match &key.user {
            Some(user) => format!("user {user}"),
            None => "speaks for any user".to_owned(),
        };
        let tenant = key.tenant.as_ref();
        let tenant = tenant.map_or_else(String::new, |tenant| {
            format!(", tenant {}", tenant.as_str())
        });
        let roles = match role_names(key).join(", ") {
            names if names.is_empty() => String::new(),
            names => format!(", roles {names}"),
        };
        let line = format!(
            "{}  {}  {user}{tenant}{roles}",
            rfc3339(key.created_at_unix_ms),
            key.name
        );
        Printer.result(&escaped(&line));
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
    Printer.outcome(
        &format!(
            "revoked {}; sessions that began with it end within a minute",
            arguments.name
        ),
        &json!({ "revoked": arguments.name }),
    );
    Ok(())
}

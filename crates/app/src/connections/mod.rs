//! The accounts at other services that users have connected: how a user connects one, whose tokens a call is given, and how a connection
//! ends. Tokens lie encrypted in the data folder. Knows no route, no session and no tool.

mod connecting;
mod pending;
mod sealing;
mod service;
mod tokens;
mod vault;
mod way_out;

use crate::clock;
use crate::failure::Failure;
pub(crate) use connecting::{Departure, Returned};
use pending::PendingAuthorizations;
use sealing::Sealer;
use serde::Serialize;
use service::Service;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokens::TenantsConnections;
pub(crate) use vault::{ConnectionId, Listed, VaultError};
use vault::{Kept, Vault};
use windlass_config::Config;
use windlass_contract::envelope::rfc3339;
use windlass_contract::handler::Connections;
use windlass_contract::id::{ClientId, TenantId, UserId};
use windlass_runtime::audit::{Audit, ConnectionChange};
use windlass_runtime::client_key::ConnectionsKey;
use windlass_runtime::ids::NoRandomness;
use windlass_services::oauth::OauthError;

/// All connections of a server.
pub(crate) struct ConnectionDesk {
    services: BTreeMap<String, Service>,
    vault: Vault,
    pending: Mutex<PendingAuthorizations>,
    /// Each change of a connection holds its lock, so that one refresh runs at a time. A released lock is forgotten.
    locks: Mutex<BTreeMap<String, Weak<ChangeLock>>>,
    audit: Option<Arc<Audit>>,
}

/// The time at which the last shared refresh failed.
type ChangeLock = tokio::sync::Mutex<Option<u64>>;

/// Why a browser does not connect anything. The texts are for operators.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectProblem {
    #[error("the link is over, or none of this server")]
    BadLink,
    #[error("the link is for another user than the browser's")]
    OtherUser,
    #[error("the authorization has expired, was used before, or began in another browser")]
    UnknownAuthorization,
    #[error("too many authorizations are pending")]
    TooMany,
    #[error("the user or the authorization server declined: {0}")]
    Declined(String),
    #[error(transparent)]
    Server(#[from] OauthError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    NoRandomness(#[from] NoRandomness),
    #[error("the server ends")]
    Ending,
}

/// A connection as its user sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    name: String,
    title: String,
    connected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    connected_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// The address where the user connects, or connects anew.
    connect_url: String,
}

impl ConnectionDesk {
    /// `None` where nothing can be connected.
    ///
    /// # Errors
    ///
    /// The key of connections is not to be had.
    pub(crate) fn open(
        config: &Config,
        audit: Option<Arc<Audit>>,
    ) -> Result<Option<Arc<Self>>, Failure> {
        if config.connections.is_empty() {
            return Ok(None);
        }
        let key = ConnectionsKey::open(&config.folders.data).map_err(Failure::of)?;
        let services = config.connections.iter().map(|(name, connection)| {
            let name = name.as_str();
            (name.to_owned(), Service::new(config, name, connection))
        });
        Ok(Some(Arc::new(Self {
            services: services.collect(),
            vault: Vault::new(
                &config.folders.data,
                Sealer::new(&key),
                config.store.user_connections_max.count(),
            ),
            pending: Mutex::default(),
            locks: Mutex::default(),
            audit,
        })))
    }

    /// The connections as the tools of a tenant see them.
    pub(crate) fn of_tenant(self: &Arc<Self>, tenant: &TenantId) -> Arc<dyn Connections> {
        Arc::new(TenantsConnections::new(self.clone(), tenant.clone()))
    }

    /// All connections of all users, for operators.
    pub(crate) fn list(&self) -> Result<Vec<Listed>, VaultError> {
        self.vault.list()
    }

    /// The connections that there are for a user.
    pub(crate) async fn shown(
        self: &Arc<Self>,
        tenant: &TenantId,
        owner: &ClientId,
    ) -> Result<Vec<Shown>, ConnectProblem> {
        let mut shown = Vec::new();
        for (name, service) in &self.services {
            let id = ConnectionId {
                tenant: tenant.clone(),
                owner: owner.clone(),
                connection: name.clone(),
            };
            let connect_url = self.link(service, &id)?;
            let kept = self.read(&id).await?;
            let connected_at = kept.as_ref().map(|kept| rfc3339(kept.connected_unix_ms));
            shown.push(Shown {
                name: name.clone(),
                title: service.title.clone(),
                connected: kept.is_some(),
                connected_at,
                scope: kept.and_then(|kept| kept.scope),
                connect_url,
            });
        }
        Ok(shown)
    }

    /// Ends a connection, and notifies the authorization server. True if there was one.
    pub(crate) async fn end(
        self: &Arc<Self>,
        id: ConnectionId,
        reason: &'static str,
    ) -> Result<bool, ConnectProblem> {
        let (was_there, kept) = self.remove(&id, reason).await?;
        if let Some(kept) = kept {
            let desk = self.clone();
            // The user need not wait: here it has ended.
            tokio::spawn(async move { desk.take_back(&id, &kept).await });
        }
        Ok(was_there)
    }

    /// The same for a program that ends right after it: waits until the authorization server was notified.
    pub(crate) async fn end_and_wait(
        self: &Arc<Self>,
        id: ConnectionId,
        reason: &'static str,
    ) -> Result<bool, ConnectProblem> {
        let (was_there, kept) = self.remove(&id, reason).await?;
        if let Some(kept) = kept {
            self.take_back(&id, &kept).await;
        }
        Ok(was_there)
    }

    /// Whether there was a connection, and its tokens where they could be read.
    async fn remove(
        self: &Arc<Self>,
        id: &ConnectionId,
        reason: &'static str,
    ) -> Result<(bool, Option<Kept>), ConnectProblem> {
        let lock = self.lock_of(id);
        let _held = lock.lock().await;
        let kept = self.read(id).await?;
        let (desk, removed) = (self.clone(), id.clone());
        let was_there = blocking(move || desk.vault.remove(&removed)).await??;
        if was_there {
            self.note(id, "ended", Some(reason));
        }
        Ok((was_there, kept))
    }

    async fn take_back(&self, id: &ConnectionId, kept: &Kept) {
        let Some(service) = self.services.get(&id.connection) else {
            return;
        };
        // If the refresh token is revoked, a server revokes all tokens that came of it.
        let token = kept.refresh_token.as_ref().unwrap_or(&kept.access_token);
        if let Err(error) = service.client.revoke(token).await {
            let connection = &id.connection;
            tracing::warn!(connection, %error, "a connection has ended here, and its service was not told");
        }
    }

    async fn read(self: &Arc<Self>, id: &ConnectionId) -> Result<Option<Kept>, ConnectProblem> {
        let (desk, id) = (self.clone(), id.clone());
        Ok(blocking(move || desk.vault.read(&id)).await??)
    }

    fn lock_of(&self, id: &ConnectionId) -> Arc<ChangeLock> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        let name = id.name();
        if let Some(lock) = locks.get(&name).and_then(Weak::upgrade) {
            return lock;
        }
        let lock = Arc::new(ChangeLock::default());
        locks.insert(name, Arc::downgrade(&lock));
        lock
    }

    fn note(&self, id: &ConnectionId, change: &'static str, reason: Option<&'static str>) {
        if let Some(audit) = &self.audit {
            audit.connection_changed(ConnectionChange {
                tenant: id.tenant.clone(),
                user_id: UserId::new(id.owner.as_str()),
                connection: id.connection.clone(),
                change,
                reason,
                now_unix_ms: clock::now_unix_ms(),
            });
        }
    }
}

/// Does work that waits for the disk on a thread of its own.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ConnectProblem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| ConnectProblem::Ending)
}

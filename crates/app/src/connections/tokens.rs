//! The access tokens for calls: the kept token as long as it is valid, otherwise a new one, for which the authorization server is asked
//! once for all waiting calls. Knows no browser.

use super::service::Service;
use super::vault::ConnectionId;
use super::{ConnectionDesk, blocking};
use crate::clock;
use std::sync::Arc;
use windlass_contract::handler::{
    CapabilityFuture, ConnectInvitation, ConnectionError, Connections, TokenRequest,
};
use windlass_contract::id::TenantId;
use windlass_contract::sensitive::Sensitive;
use windlass_services::oauth::OauthError;

/// After a failed refresh, waiting calls of the same connection do not ask the authorization server again at once.
const PAUSE_MS: u64 = 2_000;

impl Service {
    fn unavailable(&self, cause: String) -> ConnectionError {
        ConnectionError::Unavailable {
            title: self.title.clone(),
            cause,
        }
    }
}

impl ConnectionDesk {
    fn service(&self, id: &ConnectionId) -> Result<&Service, ConnectionError> {
        let service = self.services.get(&id.connection);
        service.ok_or_else(|| ConnectionError::Unknown(id.connection.clone()))
    }

    async fn token(
        self: Arc<Self>,
        id: ConnectionId,
        rejected: Option<Sensitive<String>>,
    ) -> Result<Sensitive<String>, ConnectionError> {
        let service = self.service(&id)?;
        let unavailable = |cause: String| service.unavailable(cause);
        let kept = self.read(&id).await;
        let kept = kept.map_err(|error| {
            tracing::error!(%error, "the connections of users cannot be read");
            unavailable(error.to_string())
        })?;
        match kept {
            None => return Err(self.missing(service, &id)),
            Some(kept) if kept.counts(rejected.as_ref(), clock::now_unix_ms()) => {
                return Ok(kept.access_token);
            }
            Some(_) => {}
        }
        let desk = self.clone();
        // A call that ends meanwhile must not take the only new refresh token with it.
        let refreshing = tokio::spawn(async move { desk.refreshed(id, rejected).await });
        let refreshed = refreshing.await;
        refreshed.unwrap_or_else(|_| Err(unavailable("the server ends".to_owned())))
    }

    /// A valid token, from one refresh for all calls that wait for it.
    async fn refreshed(
        self: Arc<Self>,
        id: ConnectionId,
        rejected: Option<Sensitive<String>>,
    ) -> Result<Sensitive<String>, ConnectionError> {
        let service = self.service(&id)?;
        let unavailable = |cause: String| service.unavailable(cause);
        let lock = self.lock_of(&id);
        let mut failed_unix_ms = lock.lock().await;
        let kept = self.read(&id).await;
        let kept = kept.map_err(|error| unavailable(error.to_string()))?;
        let kept = kept.ok_or_else(|| self.missing(service, &id))?;
        let now_unix_ms = clock::now_unix_ms();
        if kept.counts(rejected.as_ref(), now_unix_ms) {
            return Ok(kept.access_token);
        }
        if failed_unix_ms.is_some_and(|failed| now_unix_ms < failed + PAUSE_MS) {
            return Err(unavailable("it gave nothing a moment ago".to_owned()));
        }
        let Some(refresh_token) = &kept.refresh_token else {
            return Err(self.over(service, &id, "expired").await);
        };
        match service.client.refresh(refresh_token).await {
            Ok(granted) => {
                let kept = kept.refreshed(granted, clock::now_unix_ms());
                let token = kept.access_token.clone();
                let (desk, replaced, unkept) = (self.clone(), id.clone(), kept.clone());
                let written = blocking(move || desk.vault.replace(&replaced, &kept)).await;
                match written {
                    Ok(Ok(true)) => Ok(token),
                    // Another process has ended the connection meanwhile, and does not know these tokens.
                    Ok(Ok(false)) => {
                        self.take_back(&id, &unkept).await;
                        Err(self.missing(service, &id))
                    }
                    Ok(Err(error)) => {
                        tracing::error!(%error, "new tokens of a connection cannot be kept: its user may have to connect anew");
                        Ok(token)
                    }
                    Err(error) => Err(unavailable(error.to_string())),
                }
            }
            Err(OauthError::Ended) => Err(self.over(service, &id, "withdrawn").await),
            Err(error) => {
                *failed_unix_ms = Some(clock::now_unix_ms());
                let connection = &id.connection;
                tracing::warn!(connection, %error, "an access token cannot be refreshed");
                Err(unavailable(error.to_string()))
            }
        }
    }

    /// A connection that gives no token any more. Its lock is held.
    async fn over(
        self: &Arc<Self>,
        service: &Service,
        id: &ConnectionId,
        reason: &'static str,
    ) -> ConnectionError {
        let (desk, removed) = (self.clone(), id.clone());
        match blocking(move || desk.vault.remove(&removed)).await {
            Ok(Ok(true)) => self.note(id, "ended", Some(reason)),
            Ok(Ok(false)) | Err(_) => {}
            Ok(Err(error)) => {
                tracing::error!(%error, "a connection that has ended cannot be removed");
            }
        }
        self.missing(service, id)
    }

    fn missing(&self, service: &Service, id: &ConnectionId) -> ConnectionError {
        match self.link(service, id) {
            Ok(url) => ConnectionError::Missing(ConnectInvitation {
                connection: id.connection.clone(),
                title: service.title.clone(),
                url,
            }),
            Err(error) => service.unavailable(error.to_string()),
        }
    }
}

/// The connections of one tenant's users.
pub(super) struct TenantsConnections {
    desk: Arc<ConnectionDesk>,
    tenant: TenantId,
}

impl TenantsConnections {
    pub(super) fn new(desk: Arc<ConnectionDesk>, tenant: TenantId) -> Self {
        Self { desk, tenant }
    }

    fn id(&self, request: &TokenRequest) -> ConnectionId {
        ConnectionId {
            tenant: self.tenant.clone(),
            owner: request.owner.clone(),
            connection: request.connection.clone(),
        }
    }
}

impl Connections for TenantsConnections {
    fn token(
        &self,
        request: TokenRequest,
    ) -> CapabilityFuture<Result<Sensitive<String>, ConnectionError>> {
        let (desk, id) = (self.desk.clone(), self.id(&request));
        Box::pin(desk.token(id, request.rejected))
    }

    fn refused(&self, request: TokenRequest) -> ConnectionError {
        let id = self.id(&request);
        match self.desk.service(&id) {
            Ok(service) => self.desk.missing(service, &id),
            Err(error) => error,
        }
    }
}

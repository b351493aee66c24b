//! The capabilities that tools are given: clock, knowledge base, blocks, calendars, pictures, web search, other hosts, and who talks by
//! voice. Owns none of them.

use crate::calendar_service;
use crate::chat::picture_files::PictureFiles;
use crate::clock::{self, UserZone};
use crate::connections::ConnectionDesk;
use crate::failure::Failure;
use crate::handovers::HandoverDesk;
use crate::knowledge::assets;
use crate::memory::LoggedCalls;
use crate::services;
use crate::sessions::VoiceSessions;
use crate::signed_pictures::{PictureAddresses, digest_of};
use crate::tasks::LedgerTasks;
use crate::users;
use std::path::Path;
use std::sync::Arc;
use windlass_config::Config;
use windlass_contract::handler::{
    ASSETS, Block, Blocks, BlocksUnavailable, Calendars, CallMemory, Capabilities,
    CapabilityFuture, Connections, Handovers, Http, Images, Knowledge, KnowledgeReader, LocalTime,
    Page, Tasks, WebSearch,
};
use windlass_contract::id::{ClientId, ConversationId, TenantId, UserId};
use windlass_driver::Ledger;
use windlass_runtime::caller::Caller;
use windlass_runtime::fetch::{Fetcher, SystemResolver, WayOut};
use windlass_store::Store;

/// The capabilities that every session has.
#[derive(Clone)]
pub(crate) struct SharedCapabilities {
    pub(crate) knowledge: Arc<dyn Knowledge>,
    pub(crate) store: Arc<dyn Store>,
    /// The folder of the knowledge base's picture files.
    pub(crate) knowledge_folder: Arc<Path>,
    pub(crate) voice: Arc<VoiceSessions>,
    pub(crate) http: Arc<dyn Http>,
    calendars: Arc<dyn Calendars>,
    images: Arc<dyn Images>,
    web_search: Arc<dyn WebSearch>,
    /// The place of pictures that calls bring back, and their addresses; `None` for a single call.
    pub(crate) pictures: Option<(Arc<PictureFiles>, PictureAddresses)>,
    /// The place of tickets; `None` for a single call.
    pub(crate) handovers: Option<Arc<HandoverDesk>>,
    /// The accounts that users have connected; a single call has none, and neither has a server without such services.
    pub(crate) connections: Option<Arc<ConnectionDesk>>,
    /// The ledger, which keeps tasks; a single call has none.
    pub(crate) ledger: Option<Arc<dyn Ledger>>,
    /// The tenant of the conversations that tools may ask about.
    tenant: TenantId,
}

impl Capabilities for SharedCapabilities {
    fn now_unix_ms(&self) -> u64 {
        clock::now_unix_ms()
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        self.knowledge.clone()
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        self.store.clone()
    }

    fn http(&self) -> Arc<dyn Http> {
        self.http.clone()
    }

    fn calendars(&self) -> Arc<dyn Calendars> {
        self.calendars.clone()
    }

    fn connections(&self) -> Arc<dyn Connections> {
        match &self.connections {
            Some(desk) => desk.of_tenant(&self.tenant),
            None => windlass_contract::handler::no_connections(),
        }
    }

    fn handovers(&self) -> Arc<dyn Handovers> {
        match &self.handovers {
            Some(desk) => desk.of_tenant(&self.tenant),
            None => windlass_contract::handler::no_handovers(),
        }
    }

    fn memory(&self) -> Arc<dyn CallMemory> {
        Arc::new(LoggedCalls {
            store: self.store.clone(),
            tenant: self.tenant.clone(),
        })
    }

    fn tasks(&self) -> Arc<dyn Tasks> {
        match &self.ledger {
            Some(ledger) => Arc::new(LedgerTasks {
                ledger: ledger.clone(),
                tenant: self.tenant.clone(),
            }),
            None => windlass_contract::handler::no_tasks(),
        }
    }

    fn images(&self) -> Arc<dyn Images> {
        self.images.clone()
    }

    fn web_search(&self) -> Arc<dyn WebSearch> {
        self.web_search.clone()
    }

    fn local_time(&self) -> LocalTime {
        clock::local_time(None)
    }

    fn keep_picture(&self, data: Arc<[u8]>) -> CapabilityFuture<Option<String>> {
        let capabilities = self.clone();
        let keeping = tokio::task::spawn_blocking(move || capabilities.keep_picture_here(&data));
        Box::pin(async move { keeping.await.ok()? })
    }

    fn keep_picture_here(&self, data: &[u8]) -> Option<String> {
        let (files, addresses) = self.pictures.as_ref()?;
        let digest = files.keep_data(data)?;
        Some(addresses.address(&digest, clock::now_unix_ms()))
    }

    fn picture(
        &self,
        address: &str,
        reader: &KnowledgeReader,
        bytes_max: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        if let (Some(digest), Some((files, _))) = (digest_of(address), self.pictures.clone()) {
            let digest = digest.to_owned();
            return Box::pin(async move {
                let read = tokio::task::spawn_blocking(move || files.read_data(&digest, bytes_max));
                Some(read.await.ok()??.into())
            });
        }
        let Some(id) = address.strip_prefix(ASSETS) else {
            return Box::pin(std::future::ready(None));
        };
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let file = assets::file(
            self.knowledge.clone(),
            self.knowledge_folder.clone(),
            id.to_owned(),
            reader.clone(),
            bytes_max,
        );
        Box::pin(async move { Some(file.await?.bytes.into()) })
    }

    fn is_in_voice(&self, conversation: &ConversationId) -> bool {
        self.voice.is_talking(&self.tenant, conversation)
    }
}

impl SharedCapabilities {
    /// # Errors
    ///
    /// Where the configuration names calendars that cannot be opened.
    pub(crate) fn new(
        config: &Config,
        knowledge: Arc<dyn Knowledge>,
        store: Arc<dyn Store>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            knowledge,
            store,
            voice: Arc::default(),
            http: Arc::new(WayOut(Fetcher::new(
                config.handlers.places(),
                config.handlers.fetch_limits(),
                Arc::new(SystemResolver),
            ))),
            calendars: calendar_service::open(config)?,
            images: services::images(config),
            web_search: services::web_search(config),
            pictures: None,
            handovers: None,
            connections: None,
            ledger: None,
            tenant: TenantId::default(),
            knowledge_folder: (*config.folders.knowledge).into(),
        })
    }

    /// The capabilities of the tools of a user whom an earlier session of the conversation was for.
    pub(crate) fn of_known_user(
        &self,
        tenant: &TenantId,
        client_id: &ClientId,
        user_id: &UserId,
    ) -> Arc<dyn Capabilities> {
        let shared = self.of_tenant(tenant);
        if client_id.as_str() == user_id.as_str() {
            return Arc::new(shared);
        }
        Arc::new(NamedUsersCapabilities {
            shared,
            client_id: client_id.clone(),
        })
    }

    fn of_tenant(&self, tenant: &TenantId) -> Self {
        Self {
            tenant: tenant.clone(),
            ..self.clone()
        }
    }

    /// The user of a session, and the capabilities of that user's tools.
    pub(crate) fn of_user(
        &self,
        caller: &Caller,
        named: Option<&str>,
    ) -> (UserId, Arc<dyn Capabilities>) {
        let own = users::of_client(&caller.client_id);
        let shared = self.of_tenant(&caller.tenant);
        match named {
            // A user with a proven identity cannot take another.
            Some(named) if !users::is_proven(&own) => (
                users::claimed(named),
                Arc::new(NamedUsersCapabilities {
                    shared,
                    client_id: caller.client_id.clone(),
                }),
            ),
            Some(_) | None => (own, Arc::new(shared)),
        }
    }
}

/// The capabilities of a client that names its user. The name is not proven, so a block holds for the client alone: another name does not get
/// around it, and no client can have a user blocked by using the user's name.
pub(crate) struct NamedUsersCapabilities {
    pub(crate) shared: SharedCapabilities,
    pub(crate) client_id: ClientId,
}

impl Capabilities for NamedUsersCapabilities {
    fn now_unix_ms(&self) -> u64 {
        clock::now_unix_ms()
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        self.shared.knowledge()
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        Arc::new(ClientsBlocks {
            stored: self.shared.store.clone(),
            client: UserId::new(self.client_id.as_str()),
        })
    }

    fn connections(&self) -> Arc<dyn Connections> {
        self.shared.connections()
    }

    fn handovers(&self) -> Arc<dyn Handovers> {
        self.shared.handovers()
    }

    fn memory(&self) -> Arc<dyn CallMemory> {
        self.shared.memory()
    }

    fn tasks(&self) -> Arc<dyn Tasks> {
        self.shared.tasks()
    }

    fn local_time(&self) -> LocalTime {
        self.shared.local_time()
    }

    fn keep_picture(&self, data: Arc<[u8]>) -> CapabilityFuture<Option<String>> {
        self.shared.keep_picture(data)
    }

    fn keep_picture_here(&self, data: &[u8]) -> Option<String> {
        self.shared.keep_picture_here(data)
    }

    fn http(&self) -> Arc<dyn Http> {
        self.shared.http()
    }

    fn calendars(&self) -> Arc<dyn Calendars> {
        self.shared.calendars()
    }

    fn images(&self) -> Arc<dyn Images> {
        self.shared.images()
    }

    fn web_search(&self) -> Arc<dyn WebSearch> {
        self.shared.web_search()
    }

    fn picture(
        &self,
        address: &str,
        reader: &KnowledgeReader,
        bytes_max: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        self.shared.picture(address, reader, bytes_max)
    }

    fn is_in_voice(&self, conversation: &ConversationId) -> bool {
        self.shared.is_in_voice(conversation)
    }
}

/// The capabilities of a user whose place the client has named.
struct PlacedCapabilities {
    capabilities: Arc<dyn Capabilities>,
    zone: Option<UserZone>,
    page: Option<Page>,
}

impl Capabilities for PlacedCapabilities {
    fn now_unix_ms(&self) -> u64 {
        self.capabilities.now_unix_ms()
    }

    fn knowledge(&self) -> Arc<dyn Knowledge> {
        self.capabilities.knowledge()
    }

    fn blocks(&self) -> Arc<dyn Blocks> {
        self.capabilities.blocks()
    }

    fn calendars(&self) -> Arc<dyn Calendars> {
        self.capabilities.calendars()
    }

    fn connections(&self) -> Arc<dyn Connections> {
        self.capabilities.connections()
    }

    fn handovers(&self) -> Arc<dyn Handovers> {
        self.capabilities.handovers()
    }

    fn memory(&self) -> Arc<dyn CallMemory> {
        self.capabilities.memory()
    }

    fn tasks(&self) -> Arc<dyn Tasks> {
        self.capabilities.tasks()
    }

    fn images(&self) -> Arc<dyn Images> {
        self.capabilities.images()
    }

    fn web_search(&self) -> Arc<dyn WebSearch> {
        self.capabilities.web_search()
    }

    fn local_time(&self) -> LocalTime {
        match &self.zone {
            Some(zone) => clock::local_time(Some(zone)),
            None => self.capabilities.local_time(),
        }
    }

    fn page(&self) -> Option<Page> {
        self.page.clone()
    }

    fn keep_picture(&self, data: Arc<[u8]>) -> CapabilityFuture<Option<String>> {
        self.capabilities.keep_picture(data)
    }

    fn keep_picture_here(&self, data: &[u8]) -> Option<String> {
        self.capabilities.keep_picture_here(data)
    }

    fn http(&self) -> Arc<dyn Http> {
        self.capabilities.http()
    }

    fn picture(
        &self,
        address: &str,
        reader: &KnowledgeReader,
        bytes_max: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        self.capabilities.picture(address, reader, bytes_max)
    }

    fn is_in_voice(&self, conversation: &ConversationId) -> bool {
        self.capabilities.is_in_voice(conversation)
    }
}

/// The same capabilities, with the zone or the page of the user that the client has named.
pub(crate) fn at_user(
    capabilities: Arc<dyn Capabilities>,
    zone: Option<UserZone>,
    page: Option<Page>,
) -> Arc<dyn Capabilities> {
    match (&zone, &page) {
        (None, None) => capabilities,
        _ => Arc::new(PlacedCapabilities {
            capabilities,
            zone,
            page,
        }),
    }
}

struct ClientsBlocks {
    stored: Arc<dyn Store>,
    client: UserId,
}

impl Blocks for ClientsBlocks {
    fn block_all(&self, blocks: &[Block]) -> Result<(), BlocksUnavailable> {
        let of_client = blocks.iter().map(|block| Block {
            user_id: self.client.clone(),
            ..block.clone()
        });
        let of_client: Vec<Block> = of_client.collect();
        self.stored.block_all(&of_client)
    }

    fn blocked(
        &self,
        _user: &UserId,
        now_unix_ms: u64,
    ) -> Result<Option<Block>, BlocksUnavailable> {
        self.stored.blocked(&self.client, now_unix_ms)
    }
}

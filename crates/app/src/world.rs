//! The capabilities that tools are given: clock, knowledge base, blocks, other hosts, and who talks by
//! voice. Owns none of them.

use crate::clock;
use crate::knowledge::assets;
use crate::sessions::VoiceSessions;
use crate::users;
use std::path::Path;
use std::sync::Arc;
use windlass_runtime::config::Config;
use windlass_runtime::fetch::{Fetcher, SystemResolver, WayOut};
use windlass_store::Store;
use windlass_tool::handler::{
    ASSETS, Block, Blocks, BlocksUnavailable, CapabilityFuture, Http, Knowledge, World,
};
use windlass_tool::id::{ClientId, ConversationId, UserId};

/// The world as every session sees it.
#[derive(Clone)]
pub(crate) struct SharedWorld {
    pub(crate) knowledge: Arc<dyn Knowledge>,
    pub(crate) store: Arc<dyn Store>,
    /// Where the files of pictures lie.
    pub(crate) knowledge_folder: Arc<Path>,
    pub(crate) voice: Arc<VoiceSessions>,
    pub(crate) http: Arc<dyn Http>,
}

impl World for SharedWorld {
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

    fn picture(
        &self,
        address: &str,
        user_id: &UserId,
        bytes_max: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        let Some(id) = address.strip_prefix(ASSETS) else {
            return Box::pin(std::future::ready(None));
        };
        let bytes_max = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let file = assets::file(
            self.knowledge.clone(),
            self.knowledge_folder.clone(),
            id.to_owned(),
            user_id.clone(),
            bytes_max,
        );
        Box::pin(async move { Some(file.await?.bytes.into()) })
    }

    fn is_in_voice(&self, conversation: &ConversationId) -> bool {
        self.voice.is_talking(conversation)
    }
}

impl SharedWorld {
    pub(crate) fn new(
        config: &Config,
        knowledge: Arc<dyn Knowledge>,
        store: Arc<dyn Store>,
    ) -> Self {
        Self {
            knowledge,
            store,
            voice: Arc::default(),
            http: Arc::new(WayOut(Fetcher::new(
                config.handlers.places(),
                config.handlers.fetch_limits(),
                Arc::new(SystemResolver),
            ))),
            knowledge_folder: (*config.folders.knowledge).into(),
        }
    }

    /// The world as the tools of a user see it whom an earlier session of the conversation was for.
    pub(crate) fn of_known_user(&self, client_id: &ClientId, user_id: &UserId) -> Arc<dyn World> {
        if client_id.as_str() == user_id.as_str() {
            return Arc::new(self.clone());
        }
        Arc::new(NamedUsersWorld {
            shared: self.clone(),
            client_id: client_id.clone(),
        })
    }

    /// Whose session it is, and the world as that user's tools see it.
    pub(crate) fn of_user(
        &self,
        client_id: &ClientId,
        named: Option<&str>,
    ) -> (UserId, Arc<dyn World>) {
        let own = users::of_client(client_id);
        match named {
            // Whom the proxy has named, the client cannot rename.
            Some(named) if !users::is_signed_in(&own) => (
                users::claimed(named),
                Arc::new(NamedUsersWorld {
                    shared: self.clone(),
                    client_id: client_id.clone(),
                }),
            ),
            Some(_) | None => (own, Arc::new(self.clone())),
        }
    }
}

/// The world of a client that says who its user is: what it says is not proven, so a block holds for the client too, and
/// no other name gets around it.
pub(crate) struct NamedUsersWorld {
    pub(crate) shared: SharedWorld,
    pub(crate) client_id: ClientId,
}

impl World for NamedUsersWorld {
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

    fn http(&self) -> Arc<dyn Http> {
        self.shared.http()
    }

    fn picture(
        &self,
        address: &str,
        user_id: &UserId,
        bytes_max: usize,
    ) -> CapabilityFuture<Option<Arc<[u8]>>> {
        self.shared.picture(address, user_id, bytes_max)
    }

    fn is_in_voice(&self, conversation: &ConversationId) -> bool {
        self.shared.is_in_voice(conversation)
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
        let both: Vec<Block> = of_client.chain(blocks.iter().cloned()).collect();
        // Together: a server that ends in between must not leave one of the two names free.
        self.stored.block_all(&both)
    }

    fn blocked(&self, user: &UserId, now_unix_ms: u64) -> Result<Option<Block>, BlocksUnavailable> {
        let blocks = [
            self.stored.blocked(user, now_unix_ms)?,
            self.stored.blocked(&self.client, now_unix_ms)?,
        ];
        Ok(blocks
            .into_iter()
            .flatten()
            .max_by_key(|block| block.until_unix_ms))
    }
}

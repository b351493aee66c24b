//! The connection to the provider, from the first byte to its loss: connecting, setup, ready, and the close before the next one.
//! Knows the order of these and holds back input that may not go out yet; knows no policy and no client.

use crate::codec::{Codec, Connecting, LiveProvider, OpenRequest, Sink, lost_reason};
use crate::pump::Pump;
use crate::transport::websocket::{AudioForm, CloseFrame, Message, Reading, Socket, SocketLost};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;
use windlass_contract::sensitive::Sensitive;
use windlass_session::model::{LostReason, ModelCommand, ModelEvent};
use windlass_session::session::SessionConfig;

/// Commands that wait for the provider to accept its setup. The core itself waits with nearly all of them.
const HELD_COMMANDS_MAX: usize = 64;
/// Pictures among them; the newest are worth most.
const HELD_IMAGES_MAX: usize = 4;
/// Bytes of each piece in which buffered microphone audio goes out: 100 ms.
const BUFFERED_PIECE_BYTES: usize = 3_200;
/// Stands for a close without a code, and is never sent.
const NO_CODE: u16 = 1005;

pub(super) struct Link {
    generation: u64,
    codec: Box<dyn Codec>,
    state: LinkState,
    held: Vec<ModelCommand>,
    setup_deadline: Option<Instant>,
    /// The time at which another connection is to replace this one. The provider gives no warning.
    ends_at: Option<Instant>,
    /// Whether something unreadable came before the connection was ready.
    is_setup_damaged: bool,
    is_resuming: bool,
    has_key: bool,
}

/// The connection that is wanted.
pub(super) struct Wanted {
    pub(super) generation: u64,
    pub(super) handle: Option<Sensitive<String>>,
    pub(super) history_follows: bool,
}

enum LinkState {
    /// The old socket is being closed: a provider refuses to resume a session whose socket is still open.
    Parting {
        old: Box<Socket>,
        until: Instant,
        next: Connecting,
    },
    Connecting(Connecting),
    SettingUp(Box<Socket>),
    Ready(Box<Socket>),
    Lost,
}

/// The progress of the connection.
pub(super) enum Progress {
    Connected,
    Read(Reading),
    /// The codec has output of its own.
    Worked,
    Lost(LostReason),
}

/// Passes the codec's events on, and remembers whether something could not be read.
struct Watched<'a> {
    sink: &'a mut dyn Sink,
    is_damaged: bool,
}

impl Sink for Watched<'_> {
    fn event(&mut self, event: ModelEvent) {
        self.is_damaged |= matches!(event, ModelEvent::Malformed { .. });
        self.sink.event(event);
    }

    fn audio(&mut self, pcm: &[u8]) {
        self.sink.audio(pcm);
    }

    fn unplayed(&self) -> Duration {
        self.sink.unplayed()
    }
}

impl Link {
    pub(super) fn open(
        provider: &dyn LiveProvider,
        session: &SessionConfig,
        wanted: &Wanted,
        setup_deadline: Instant,
    ) -> Self {
        let opening = provider.open(OpenRequest {
            session,
            generation: wanted.generation,
            resumption_handle: wanted.handle.as_ref(),
            history_follows: wanted.history_follows,
        });
        Self {
            generation: wanted.generation,
            codec: opening.codec,
            state: LinkState::Connecting(opening.connecting),
            held: Vec::new(),
            setup_deadline: Some(setup_deadline),
            ends_at: None,
            is_setup_damaged: false,
            is_resuming: wanted.handle.is_some(),
            has_key: provider.has_key(),
        }
    }

    /// Closes the connection, if there is one, and then opens the next in its place.
    pub(super) fn replace(&mut self, next: Self, parting_deadline: Instant) {
        let old = std::mem::replace(self, next);
        let (LinkState::SettingUp(mut socket) | LinkState::Ready(mut socket)) = old.state else {
            return;
        };
        if socket.send_close(1000, "").is_err() {
            return;
        }
        if let LinkState::Connecting(next) = std::mem::replace(&mut self.state, LinkState::Lost) {
            self.state = LinkState::Parting {
                old: socket,
                until: parting_deadline,
                next,
            };
        }
    }

    pub(super) fn is_resuming(&self) -> bool {
        self.is_resuming
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The time at which something of the connection is due: its setup, its own end, or the end of the close before it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            LinkState::Parting { until, .. } => Some(*until),
            LinkState::Ready(_) => self.ends_at,
            LinkState::Connecting(_) | LinkState::SettingUp(_) | LinkState::Lost => {
                self.setup_deadline
            }
        }
    }

    /// Handles overdue steps. Returns the reason if the connection is lost over one.
    pub(super) fn look_after(&mut self, now: Instant) -> Option<LostReason> {
        if let LinkState::Parting { until, .. } = &self.state
            && *until <= now
        {
            self.parted();
        }
        self.setup_deadline
            .is_some_and(|due| due <= now)
            .then(|| self.overdue())
    }

    /// The reason for an overdue setup. Only a server that took the connection can have refused the setup.
    fn overdue(&self) -> LostReason {
        match &self.state {
            LinkState::Parting { .. } | LinkState::Connecting(_) => LostReason::Network {
                problem: "no connection came about in time".to_owned(),
            },
            LinkState::SettingUp(_) if self.is_setup_damaged => LostReason::SetupUnreadable,
            LinkState::SettingUp(_) | LinkState::Ready(_) | LinkState::Lost => {
                LostReason::SetupTimeout
            }
        }
    }

    /// Whether the connection has been used long enough. Returns true once.
    pub(super) fn is_used_up(&mut self, now: Instant) -> bool {
        self.ends_at.take_if(|due| *due <= now).is_some()
    }

    fn parted(&mut self) {
        self.state = match std::mem::replace(&mut self.state, LinkState::Lost) {
            LinkState::Parting { next, .. } => LinkState::Connecting(next),
            other => other,
        };
    }

    fn socket(&mut self) -> Option<&mut Socket> {
        match &mut self.state {
            LinkState::SettingUp(socket) | LinkState::Ready(socket) => Some(socket),
            LinkState::Parting { old, .. } => Some(old),
            LinkState::Connecting(_) | LinkState::Lost => None,
        }
    }

    /// Goes on connecting or reads once.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Progress> {
        if let LinkState::Parting { old, .. } = &mut self.state {
            std::task::ready!(poll_goodbye(old, context));
            self.parted();
        }
        match &mut self.state {
            LinkState::Lost | LinkState::Parting { .. } => Poll::Pending,
            LinkState::Connecting(connecting) => {
                connecting
                    .as_mut()
                    .poll(context)
                    .map(|outcome| match outcome {
                        Ok(socket) => self.set_up(socket),
                        Err(error) => self.lose(lost_reason(&error)),
                    })
            }
            LinkState::SettingUp(socket) | LinkState::Ready(socket) => {
                match socket.poll_read(context) {
                    Poll::Ready(Ok(reading)) => Poll::Ready(Progress::Read(reading)),
                    Poll::Ready(Err(SocketLost::Ended)) => {
                        Poll::Ready(self.lose(dropped("the connection ended")))
                    }
                    Poll::Ready(Err(SocketLost::Network(error))) => {
                        Poll::Ready(self.lose(dropped(&error.to_string())))
                    }
                    Poll::Pending => self.codec.poll_work(context).map(|()| Progress::Worked),
                }
            }
        }
    }

    fn set_up(&mut self, mut socket: Socket) -> Progress {
        let codec = &mut self.codec;
        if socket.send_text(|frame| codec.encode_setup(frame)).is_err() {
            return self.lose(dropped("its queue is full"));
        }
        let early = socket.already_read();
        self.state = LinkState::SettingUp(Box::new(socket));
        early.map_or(Progress::Connected, Progress::Read)
    }

    /// Gives a reading back.
    pub(super) fn finish(&mut self, reading: Reading) {
        if let Some(socket) = self.socket() {
            socket.finish(reading);
        }
    }

    /// Passes one message of the provider to the codec. Returns the reason if it ends the connection.
    pub(super) fn take(
        &mut self,
        message: Message<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), LostReason> {
        match message {
            Message::Text(frame) | Message::Binary(frame) => {
                let mut sink = Watched {
                    sink,
                    is_damaged: false,
                };
                self.codec.decode(&frame, &mut sink);
                self.is_setup_damaged |= sink.is_damaged && !self.is_ready();
                let mut frames = Vec::new();
                let reaction = self.codec.react(&mut frames);
                reaction.map_err(|reason| self.told_apart(reason))?;
                self.send_frames(frames)?;
            }
            Message::Ping(payload) => {
                let sent = self.socket().map(|socket| socket.send_pong(payload));
                if let Some(Err(error)) = sent {
                    return Err(dropped(&error.to_string()));
                }
            }
            Message::Pong => {}
            Message::Close(CloseFrame { code, reason }) => {
                let reason = self.codec.close_reason(code, reason);
                self.answer_goodbye(code);
                return Err(self.told_apart(reason));
            }
            Message::TooLarge { .. } => sink.event(ModelEvent::Malformed {
                problem: "a message is over the size limit".to_owned(),
            }),
        }
        Ok(())
    }

    /// Passes the codec's own output on. Returns the reason if it ends the connection.
    pub(super) fn work(&mut self, sink: &mut dyn Sink) -> Result<(), LostReason> {
        let mut frames = Vec::new();
        self.codec.work(sink, &mut frames);
        self.send_frames(frames)
    }

    /// Whether the provider takes input: first the core's held commands go out, then the buffered microphone audio. Call it after
    /// the core has had the event, because the core's commands for that moment come first.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, LinkState::Ready(_))
    }

    pub(super) fn becomes_ready(&mut self, now: Instant) {
        self.setup_deadline = None;
        self.is_setup_damaged = false;
        self.ends_at = self.codec.lifetime().map(|lifetime| now + lifetime);
        self.state = match std::mem::replace(&mut self.state, LinkState::Lost) {
            LinkState::SettingUp(socket) => LinkState::Ready(socket),
            other => other,
        };
    }

    pub(super) fn send_held(&mut self, pump: &mut Pump) -> Result<(), LostReason> {
        for command in std::mem::take(&mut self.held) {
            self.send(&command)?;
        }
        let buffered: Vec<u8> = pump.take_buffered().into();
        for piece in buffered.chunks(BUFFERED_PIECE_BYTES) {
            self.send_audio(piece, pump);
        }
        Ok(())
    }

    /// Sends a command, or keeps it until the provider is ready.
    pub(super) fn command(&mut self, command: ModelCommand) -> Result<(), LostReason> {
        match &self.state {
            LinkState::Ready(_) => self.send(&command),
            LinkState::Parting { .. } | LinkState::Connecting(_) | LinkState::SettingUp(_) => {
                if is_image(&command) {
                    self.forget_old_images();
                }
                if self.held.len() < HELD_COMMANDS_MAX {
                    self.held.push(command);
                } else {
                    tracing::warn!("a command was dropped: too many wait for the provider");
                }
                Ok(())
            }
            LinkState::Lost => Ok(()),
        }
    }

    /// Makes room for another picture among the held commands.
    fn forget_old_images(&mut self) {
        let images = self.held.iter().filter(|held| is_image(held)).count();
        if images >= HELD_IMAGES_MAX
            && let Some(oldest) = self.held.iter().position(is_image)
        {
            self.held.remove(oldest);
        }
    }

    fn send(&mut self, command: &ModelCommand) -> Result<(), LostReason> {
        // Speech must not wait behind pictures that the connection does not take.
        if is_image(command) && self.socket().is_some_and(|socket| socket.is_congested()) {
            tracing::debug!("a picture was dropped: the connection to the provider is slow");
            return Ok(());
        }
        let mut frames = Vec::new();
        self.codec.encode(command, &mut frames);
        self.send_frames(frames)
    }

    /// Notes that every call of a message has had its answer, or gets none.
    pub(super) fn calls_settled(&mut self) {
        self.codec.calls_settled();
    }

    /// Tells the provider that the current answer is void, and how much of it was never heard.
    pub(super) fn discard(&mut self, unplayed: Duration) -> Result<(), LostReason> {
        let mut frames = Vec::new();
        self.codec.discard(unplayed, &mut frames);
        self.send_frames(frames)
    }

    fn send_frames(&mut self, frames: Vec<Vec<u8>>) -> Result<(), LostReason> {
        let Some(socket) = self.socket() else {
            return Ok(());
        };
        for frame in frames {
            socket
                .send_text(|bytes| bytes.extend_from_slice(&frame))
                .map_err(|error| dropped(&error.to_string()))?;
        }
        Ok(())
    }

    /// Sends or keeps a piece of microphone audio; kept audio goes to the next connection. Expects whole samples.
    pub(super) fn send_audio(&mut self, pcm: &[u8], pump: &mut Pump) {
        let codec = &mut self.codec;
        match &mut self.state {
            LinkState::Ready(socket) => {
                let is_sent = socket.send_audio(AudioForm::Text, |frame| {
                    codec.encode_audio(pcm, frame);
                });
                if !is_sent {
                    pump.provider_slow(pcm.len());
                }
            }
            LinkState::Parting { .. }
            | LinkState::Connecting(_)
            | LinkState::SettingUp(_)
            | LinkState::Lost => {
                pump.buffer(pcm);
            }
        }
    }

    /// Writes the queue. Returns the reason if the connection is lost over it.
    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Option<LostReason> {
        let (LinkState::SettingUp(socket) | LinkState::Ready(socket)) = &mut self.state else {
            return None;
        };
        match socket.poll_flush(context) {
            Poll::Ready(Err(error)) => Some(dropped(&error.to_string())),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        }
    }

    fn lose(&mut self, reason: LostReason) -> Progress {
        self.close();
        Progress::Lost(self.told_apart(reason))
    }

    /// Tells a missing key from a refused one, and an unreadable setup from a dropped connection.
    fn told_apart(&self, reason: LostReason) -> LostReason {
        match reason {
            LostReason::Unauthorized if !self.has_key => LostReason::NoKey,
            LostReason::Dropped { .. } if self.is_setup_damaged => LostReason::SetupUnreadable,
            other => other,
        }
    }

    /// Ends the connection. The queue is dropped.
    pub(super) fn close(&mut self) {
        self.setup_deadline = None;
        self.held = Vec::new();
        self.state = LinkState::Lost;
    }

    /// Answers a close with its own code, and a close without a code with 1000.
    fn answer_goodbye(&mut self, code: u16) {
        let code = if code == NO_CODE { 1000 } else { code };
        self.say_goodbye_with(code, &mut Context::from_waker(Waker::noop()));
    }

    /// Sends a close frame to the provider, as far as that is possible without waiting.
    pub(super) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        self.say_goodbye_with(1000, context);
        self.close();
    }

    fn say_goodbye_with(&mut self, code: u16, context: &mut Context<'_>) {
        if let Some(socket) = self.socket()
            && socket.send_close(code, "").is_ok()
        {
            // Its arrival makes no difference: the connection ends now.
            let _ = socket.poll_flush(context);
        }
    }
}

fn is_image(command: &ModelCommand) -> bool {
    matches!(command, ModelCommand::Image { .. })
}

/// Ready when the peer has answered our close, or cannot any more. Its other messages are ignored.
fn poll_goodbye(socket: &mut Socket, context: &mut Context<'_>) -> Poll<()> {
    if let Poll::Ready(Err(_)) = socket.poll_flush(context) {
        return Poll::Ready(());
    }
    loop {
        let Ok(mut reading) = std::task::ready!(socket.poll_read(context)) else {
            return Poll::Ready(());
        };
        loop {
            match reading.next_message() {
                Ok(Some(Message::Close(_))) | Err(_) => return Poll::Ready(()),
                Ok(Some(_)) => {}
                Ok(None) => break,
            }
        }
        socket.finish(reading);
    }
}

fn dropped(problem: &str) -> LostReason {
    LostReason::Dropped {
        problem: problem.to_owned(),
    }
}

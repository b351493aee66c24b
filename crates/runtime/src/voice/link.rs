//! One connection to the provider, from the first byte to its loss: connecting, setup, ready. Knows the order of these and
//! holds back what may not go out yet; knows no policy and no client.

use crate::codec::{Codec, Connecting, LiveProvider, OpenRequest, Sink, lost_reason};
use crate::pump::Pump;
use crate::transport::websocket::{AudioForm, CloseFrame, Message, Reading, Socket, SocketLost};
use std::task::{Context, Poll};
use tokio::time::Instant;
use windlass_session::model::{LostReason, ModelCommand};
use windlass_session::session::SessionConfig;

/// Commands that wait for the provider to accept its setup. The core waits itself with nearly all it says.
const HELD_COMMANDS_MAX: usize = 64;
/// Microphone audio that waited goes out in pieces of this many bytes: 100 ms.
const BUFFERED_PIECE_BYTES: usize = 3_200;

pub(super) struct Link {
    generation: u64,
    codec: Box<dyn Codec>,
    state: State,
    held: Vec<ModelCommand>,
    setup_deadline: Option<Instant>,
}

enum State {
    Connecting(Connecting),
    SettingUp(Box<Socket>),
    Ready(Box<Socket>),
    Lost,
}

/// What the connection did.
pub(super) enum Progress {
    Connected,
    Read(Reading),
    Lost(LostReason),
}

impl Link {
    pub(super) fn open(
        provider: &dyn LiveProvider,
        session: &SessionConfig,
        generation: u64,
        setup_deadline: Instant,
    ) -> Self {
        let opening = provider.open(OpenRequest {
            session,
            generation,
            resumption_handle: None,
        });
        Self {
            generation,
            codec: opening.codec,
            state: State::Connecting(opening.connecting),
            held: Vec::new(),
            setup_deadline: Some(setup_deadline),
        }
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn setup_deadline(&self) -> Option<Instant> {
        self.setup_deadline
    }

    fn socket(&mut self) -> Option<&mut Socket> {
        match &mut self.state {
            State::SettingUp(socket) | State::Ready(socket) => Some(socket),
            State::Connecting(_) | State::Lost => None,
        }
    }

    /// Goes on connecting or reads once.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Progress> {
        match &mut self.state {
            State::Lost => Poll::Pending,
            State::Connecting(connecting) => {
                connecting
                    .as_mut()
                    .poll(context)
                    .map(|outcome| match outcome {
                        Ok(socket) => self.set_up(socket),
                        Err(error) => self.lose(lost_reason(&error)),
                    })
            }
            State::SettingUp(socket) | State::Ready(socket) => {
                socket.poll_read(context).map(|outcome| match outcome {
                    Ok(reading) => Progress::Read(reading),
                    Err(SocketLost::Ended) => self.lose(network("the connection ended")),
                    Err(SocketLost::Network(error)) => self.lose(network(&error.to_string())),
                })
            }
        }
    }

    fn set_up(&mut self, mut socket: Socket) -> Progress {
        let codec = &mut self.codec;
        if socket.send_text(|frame| codec.encode_setup(frame)).is_err() {
            return self.lose(network("its queue is full"));
        }
        let early = socket.already_read();
        self.state = State::SettingUp(Box::new(socket));
        early.map_or(Progress::Connected, Progress::Read)
    }

    /// Gives a reading back.
    pub(super) fn finish(&mut self, reading: Reading) {
        if let Some(socket) = self.socket() {
            socket.finish(reading);
        }
    }

    /// Hands one message of the provider to the codec; the reason where it ends the connection.
    pub(super) fn take(
        &mut self,
        message: Message<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), LostReason> {
        match message {
            Message::Text(frame) | Message::Binary(frame) => self.codec.decode(&frame, sink),
            Message::Ping(payload) => {
                let sent = self.socket().map(|socket| socket.send_pong(payload));
                if let Some(Err(error)) = sent {
                    return Err(network(&error.to_string()));
                }
            }
            Message::Pong => {}
            Message::Close(CloseFrame { code, reason }) => {
                return Err(self.codec.close_reason(code, reason));
            }
            Message::TooLarge { .. } => {
                sink.event(windlass_session::model::ModelEvent::Malformed {
                    problem: "a message is over the size limit".to_owned(),
                })
            }
        }
        Ok(())
    }

    /// The provider takes input: what the core said before goes out, then what the microphone said. Call it after the core
    /// has heard of it, because what the core says at that moment comes first.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    pub(super) fn becomes_ready(&mut self) {
        self.setup_deadline = None;
        self.state = match std::mem::replace(&mut self.state, State::Lost) {
            State::SettingUp(socket) => State::Ready(socket),
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
            State::Ready(_) => self.send(&command),
            State::Connecting(_) | State::SettingUp(_) => {
                if self.held.len() < HELD_COMMANDS_MAX {
                    self.held.push(command);
                } else {
                    tracing::warn!("a command was dropped: too many wait for the provider");
                }
                Ok(())
            }
            State::Lost => Ok(()),
        }
    }

    fn send(&mut self, command: &ModelCommand) -> Result<(), LostReason> {
        let mut frames = Vec::new();
        self.codec.encode(command, &mut frames);
        let Some(socket) = self.socket() else {
            return Ok(());
        };
        for frame in frames {
            socket
                .send_text(|bytes| bytes.extend_from_slice(&frame))
                .map_err(|error| network(&error.to_string()))?;
        }
        Ok(())
    }

    /// Sends or keeps a piece of the microphone. Expects whole samples.
    pub(super) fn send_audio(&mut self, pcm: &[u8], pump: &mut Pump) {
        let codec = &mut self.codec;
        match &mut self.state {
            State::Ready(socket) => {
                let is_sent = socket.send_audio(AudioForm::Text, |frame| {
                    codec.encode_audio(pcm, frame);
                });
                if !is_sent {
                    pump.provider_slow(pcm.len());
                }
            }
            State::Connecting(_) | State::SettingUp(_) => pump.buffer(pcm),
            State::Lost => {}
        }
    }

    /// Writes what waits; the reason where the connection is lost over it.
    pub(super) fn poll_flush(&mut self, context: &mut Context<'_>) -> Option<LostReason> {
        match self.socket()?.poll_flush(context) {
            Poll::Ready(Err(error)) => Some(network(&error.to_string())),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        }
    }

    fn lose(&mut self, reason: LostReason) -> Progress {
        self.close();
        Progress::Lost(reason)
    }

    /// Ends the connection. What waits is not waited for.
    pub(super) fn close(&mut self) {
        self.setup_deadline = None;
        self.held = Vec::new();
        self.state = State::Lost;
    }

    /// Says goodbye to the provider, as far as that goes without waiting.
    pub(super) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        if let Some(socket) = self.socket()
            && socket.send_close(1000, "").is_ok()
        {
            // Whether it arrives makes no difference: the connection ends now.
            let _ = socket.poll_flush(context);
        }
        self.close();
    }
}

fn network(problem: &str) -> LostReason {
    LostReason::Network {
        problem: problem.to_owned(),
    }
}

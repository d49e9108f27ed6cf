//! The socket between `lead` and its guardian, and the command's input, which is handed over on it:
//! the guardian's own standard input is the socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::word::Word;

/// Words in, words out.
#[derive(Debug)]
pub(super) struct Link<Heard> {
    heard: Lines<BufReader<OwnedReadHalf>>,
    said: OwnedWriteHalf,
    kind: PhantomData<Heard>,
}

impl<Heard: Word> Link<Heard> {
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let (heard, said) = UnixStream::from_std(socket)?.into_split();
        Ok(Self { heard: BufReader::new(heard).lines(), said, kind: PhantomData })
    }

    /// The next word; `None` when there is nobody at the other end any more. Safe to drop and call
    /// again.
    pub(super) async fn hear(&mut self) -> Option<Heard> {
        loop {
            let line = self.heard.next_line().await.ok()??;
            if let Some(word) = Heard::parse(&line) {
                return Some(word);
            }
        }
    }

    /// Says something. Whether anybody is there is heard, not said.
    pub(super) async fn say(&mut self, word: impl Word) {
        let _ = self.said.write_all(format!("{word}\n").as_bytes()).await;
    }
}

/// Hands over an open file.
pub(super) fn hand_over(socket: &Socket, file: BorrowedFd<'_>) -> io::Result<()> {
    let files = [file];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(socket, &[IoSlice::new(b"\n")], &mut beside, SendFlags::empty())?;
    Ok(())
}

/// Takes the file that was handed over.
pub(super) fn take_over(socket: impl AsFd) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    // One byte: what follows it are words.
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    files.next().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

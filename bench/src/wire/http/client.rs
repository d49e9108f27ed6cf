//! As little of HTTP/1.1 as it takes to ask this server, as cheaply as can be.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const HEAD_END: &[u8] = b"\r\n\r\n";
const LENGTH: &str = "content-length: ";

/// A request, as bytes.
pub(super) fn post(method: &str, path: &str, media_type: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {media_type}\r\n\
         content-length: {len}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// The text behind this name in some JSON.
pub(super) fn text_field<'a>(json: &'a str, name: &str) -> &'a str {
    let rest = json.split_once(name).and_then(|(_, rest)| rest.strip_prefix("\":\""));
    let text = rest.and_then(|rest| rest.split('"').next());
    text.unwrap_or_else(|| panic!("there is a {name} in {json:?}"))
}

/// A connection that is kept alive.
pub(super) struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("an option");
        Self { stream, answer: Vec::with_capacity(4096) }
    }

    /// The body of the answer, which must be a good one.
    pub(super) async fn ask(&mut self, request: &[u8]) -> &str {
        self.stream.write_all(request).await.expect("asked");
        self.answer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.answer).await.expect("answered");
            assert!(read > 0, "the server closed the connection");
            if let Some(body_at) = body_at(&self.answer) {
                return std::str::from_utf8(&self.answer[body_at..]).expect("a text");
            }
        }
    }
}

/// Where the body begins, if the answer is all there.
fn body_at(answer: &[u8]) -> Option<usize> {
    let head_bytes = answer.windows(HEAD_END.len()).position(|bytes| bytes == HEAD_END)?;
    let head = std::str::from_utf8(&answer[..head_bytes]).expect("a text");
    assert!(head.starts_with("HTTP/1.1 20"), "{}", String::from_utf8_lossy(answer));
    let length = head.split(LENGTH).nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.expect("a length").parse().expect("a number");
    let body_at = head_bytes + HEAD_END.len();
    (answer.len() >= body_at + length).then_some(body_at)
}

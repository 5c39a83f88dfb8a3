//! Connections to real servers on loopback.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::tls::Roots;

const TIMEOUT: Duration = Duration::from_secs(60);

fn connector() -> HttpConnector {
    HttpConnector::new(HostPolicy::AllowPrivate, TIMEOUT)
}

fn get(url: &HttpUrl) -> Request<Bytes> {
    Request::get(url.path_and_query()).body(Bytes::new()).unwrap()
}

/// Listens on loopback; returns the listener and a URL of it.
async fn listen() -> (TcpListener, HttpUrl) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/path?query", listener.local_addr().unwrap());
    (listener, url.parse().unwrap())
}

/// Reads the head of a request.
async fn read_head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn body_is_streamed_while_the_response_is_incomplete() {
    let (listener, url) = listen().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n").await.unwrap();
        (stream, head)
    };
    let client = async {
        let mut connection = connector().connect(&url).await.unwrap();
        let mut body = connection.send(get(&url)).await.unwrap().into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        (connection, body, first)
    };
    let ((mut stream, head), (connection, body, first)) = tokio::join!(server, client);
    assert!(head.starts_with("GET /path?query HTTP/1.1\r\n"), "{head}");
    let host = url.origin().replace("http://", "host: ");
    assert!(head.contains(&format!("{host}\r\n")), "{head}");
    assert_eq!(first, "ab");
    // The end of the body arrives only after its beginning was read.
    stream.write_all(b"2\r\ncd\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(read_body(body, 1024).await, b"cd");
    drop(connection);
    assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0, "dropping the connection closes it");
}

#[tokio::test]
async fn unreachable_address_is_followed_by_the_next() {
    let (listener, url) = listen().await;
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let addresses = [free, listener.local_addr().unwrap()];
    assert!(connector().connect_to(&url, &addresses).await.is_ok());
    let error = connector().connect_to(&url, &addresses[..1]).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("failed to connect to {free}: ")), "{error}");
}

#[tokio::test]
async fn policy_applies_to_connect() {
    let (_listener, url) = listen().await;
    let connector = HttpConnector::new(HostPolicy::PublicOnly, TIMEOUT);
    let error = connector.connect(&url).await.unwrap_err();
    assert!(matches!(error, HttpError::Host(HostError::Private { .. })), "{error}");
}

#[tokio::test]
async fn https_without_tls_is_refused_before_connecting() {
    let (_listener, url) = listen().await;
    let url: HttpUrl = url.origin().replace("http:", "https:").parse().unwrap();
    assert!(matches!(connector().connect(&url).await, Err(HttpError::Tls(_))));
}

#[tokio::test]
async fn tls_handshake_is_bounded_by_the_timeout() {
    let (listener, url) = listen().await;
    let url: HttpUrl = url.origin().replace("http:", "https:").parse().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("roots.pem");
    let certificate = rcgen::generate_simple_self_signed(["host.example".to_owned()]).unwrap().cert;
    std::fs::write(&file, certificate.pem()).unwrap();
    let tls = Tls::new(&Roots::Named { file: Some(file), dir: None }).unwrap();
    let connector = HttpConnector::new(HostPolicy::AllowPrivate, Duration::from_millis(200)).with_tls(tls);
    // Accepts and stays silent.
    let (error, _stream) = tokio::join!(connector.connect(&url), listener.accept());
    assert_eq!(error.unwrap_err(), HttpError::Timeout("TLS handshake timed out: `127.0.0.1`".to_owned()));
}

#[tokio::test]
async fn idle_connection_closed_by_the_server_sends_nothing() {
    let (listener, url) = listen().await;
    let mut connection = connector().connect(&url).await.unwrap();
    drop(listener.accept().await.unwrap());
    while !connection.is_closed() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(connection.send_on_idle(get(&url)).await.unwrap().is_none());
}

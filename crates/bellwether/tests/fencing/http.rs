//! A service behind HTTP: axum on a real socket, called by a client that knows only the header.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use bellwether::conformance::fencing::{self, FencedResource};
use bellwether::fencing::http::{FENCING_TERM, FencingLayer, Missing, fence as shown, value};
use bellwether::fencing::{FenceError, Fenced, FileTerms, MemoryTerms, TermStore};
use bellwether::{Fence, LeaseName, Term};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use ureq::http::{Request, Response};

use crate::file::Folder;
use crate::{ELECTION, fence};

type Records = Arc<Mutex<Vec<String>>>;

/// What the service writes lives on when the service is started anew.
struct Service {
    records: Records,
    running: Mutex<(SocketAddr, JoinHandle<()>)>,
}

async fn serve(layer: FencingLayer, records: Records) -> (SocketAddr, JoinHandle<()>) {
    let write = async move |record: String| {
        // Between the check and the write, where a leader may be deposed.
        tokio::time::sleep(Duration::from_millis(2)).await;
        records.lock().await.push(record);
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let router = Router::new().route("/", post(write)).layer(layer);
    (at, tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }))
}

fn layer(terms: impl TermStore) -> FencingLayer {
    FencingLayer::new(LeaseName::new(ELECTION).unwrap(), terms)
}

async fn send(at: SocketAddr, headers: &[&str], body: &str) -> Response<String> {
    let mut request = Request::post(format!("http://{at}/"));
    for header in headers {
        request = request.header(FENCING_TERM, *header);
    }
    let request = request.body(body.to_owned()).unwrap();
    let send = move || {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build();
        let mut response = ureq::Agent::new_with_config(agent).run(request).unwrap();
        let body = response.body_mut().read_to_string().unwrap();
        response.map(|_| body)
    };
    tokio::task::spawn_blocking(send).await.unwrap()
}

impl FencedResource for Service {
    type Fault = Response<String>;

    async fn append(&self, fence: &Fence, record: &str) -> Result<(), FenceError<Self::Fault>> {
        let at = self.running.lock().await.0;
        let response = send(at, &[value(fence).to_str().unwrap()], record).await;
        match response.status().as_u16() {
            200 => Ok(()),
            412 => {
                let newest = shown(response.headers()).unwrap().unwrap();
                assert_eq!(newest.election, fence.election);
                Err(Fenced::new(fence, newest.term).into())
            }
            _ => Err(FenceError::Fault(response)),
        }
    }

    async fn records(&self) -> Vec<String> {
        self.records.lock().await.clone()
    }
}

#[tokio::test]
async fn a_late_write_is_refused() {
    let folder = Folder::new();
    let terms = FileTerms::new(folder.0.join("terms"));
    let records = Records::default();
    let running = Mutex::new(serve(layer(terms.clone()), Arc::clone(&records)).await);
    let service = Service { records, running };
    let restart = async || {
        let mut running = service.running.lock().await;
        running.1.abort();
        *running = serve(layer(terms), Arc::clone(&service.records)).await;
    };
    fencing::a_late_write_is_refused(&service, ELECTION, restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_never_go_down() {
    let records = Records::default();
    let running = Mutex::new(serve(layer(MemoryTerms::default()), Arc::clone(&records)).await);
    fencing::terms_never_go_down(Arc::new(Service { records, running }), ELECTION).await;
}

#[tokio::test]
async fn what_shows_no_fence_of_this_election_is_told_what_to_show() {
    let (at, _server) = serve(layer(MemoryTerms::default()), Records::default()).await;
    let good = value(&fence(7));
    let good = good.to_str().unwrap();
    assert_eq!(good, "bill%2Fing%20%22north%22%20%7B1%7D%25%20%C3%BC/7");
    let cases: [(&[&str], u16, &str); 9] = [
        (&[good], 200, ""),
        (&[], 428, "needs the header Fencing-Term: ELECTION/TERM"),
        (&["other/7"], 400, "for the leaders of election"),
        (&[good, good], 400, "Fencing-Term is once"),
        (&["billing"], 400, "Fencing-Term is once"),
        (&["billing/+7"], 400, "Fencing-Term is once"),
        (&["billing/"], 400, "Fencing-Term is once"),
        (&["/7"], 400, "Fencing-Term is once"),
        (&["billing/18446744073709551616"], 400, "Fencing-Term is once"),
    ];
    for (headers, status, said) in cases {
        let response = send(at, headers, "x").await;
        assert_eq!(response.status(), status, "{headers:?}");
        assert!(response.body().contains(said), "{headers:?}: {}", response.body());
    }

    let reading = layer(MemoryTerms::default()).missing(Missing::Allow);
    let (at, _server) = serve(reading, Records::default()).await;
    assert_eq!(send(at, &[], "x").await.status(), 200);
    assert_eq!(send(at, &["other/7"], "x").await.status(), 400);
}

#[tokio::test]
async fn terms_that_cannot_be_kept_let_nobody_in() {
    let folder = Folder::new();
    let nowhere = FileTerms::new(folder.0.join("no/such/folder"));
    let records = Records::default();
    let (at, _server) = serve(layer(nowhere), Arc::clone(&records)).await;
    let response = send(at, &[value(&fence(7)).to_str().unwrap()], "x").await;
    assert_eq!(response.status(), 503);
    assert!(records.lock().await.is_empty());
}

/// Whoever was let in before the later term came is waited for; requests of one term are not.
#[tokio::test]
async fn a_later_term_waits_for_what_is_inside() {
    use tower::{Layer as _, Service as _};
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let inner = {
        let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
        tower::service_fn(move |request: Request<&'static str>| {
            let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
            async move {
                if *request.body() == "slow" {
                    entered.notify_one();
                    leave.notified().await;
                }
                Ok::<_, std::convert::Infallible>(Response::new(String::new()))
            }
        })
    };
    let mut service = layer(MemoryTerms::default()).layer(inner);
    let mut call = |term, body| {
        let request = Request::post("/").header(FENCING_TERM, value(&fence(term)));
        tokio::spawn(service.call(request.body(body).unwrap()))
    };
    let slow = call(7, "slow");
    entered.notified().await;
    assert_eq!(call(7, "quick").await.unwrap().unwrap().status(), 200);
    let later = call(8, "quick");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!later.is_finished(), "a later term went past what was let in before");
    leave.notify_one();
    assert_eq!(slow.await.unwrap().unwrap().status(), 200);
    assert_eq!(later.await.unwrap().unwrap().status(), 200);
    let late = call(7, "quick").await.unwrap().unwrap();
    assert_eq!(late.status(), 412);
    assert_eq!(shown(late.headers()).unwrap().unwrap().term, Term(8));
}

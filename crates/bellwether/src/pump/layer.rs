//! Handlers as services of tower, and services as handlers: what is written for the one, timeouts,
//! traces, limits, serves the other.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::verdict::{Failure, IntoVerdict, Verdict};
use super::work::{Handler, Work, handler};

/// What a handler returns to its pump, in a box.
pub type Serving = Pin<Box<dyn Future<Output = Result<Verdict, Failure>> + Send>>;

/// A handler as a service. It is always ready: how many run at once is the pump's business.
#[derive(Clone)]
pub struct HandlerService(Handler);

impl std::fmt::Debug for HandlerService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HandlerService")
    }
}

impl Service<Work> for HandlerService {
    type Response = Verdict;
    type Error = Failure;
    type Future = Serving;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, work: Work) -> Serving {
        (self.0)(work)
    }
}

/// A handler with a layer of tower around it, or a stack of them: each sees every message on its way
/// to the handler, and every verdict or failure on its way back. An error of a layer is a failure of
/// its message.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), bellwether::Error> {
/// use bellwether::Bellwether;
/// use bellwether::pump::{Work, layered};
/// use tokio_util::sync::CancellationToken;
/// use tower::util::MapRequestLayer;
///
/// let bw = Bellwether::open("memory:").await?;
/// let orders = bw.create_queue("orders", Default::default()).await?;
/// orders.send("two coffees").await?;
///
/// let shutdown = CancellationToken::new();
/// let done = shutdown.clone();
/// let handler = move |_: Work| {
///     done.cancel();
///     async {}
/// };
/// let told = MapRequestLayer::new(|work: Work| {
///     println!("message {}, delivery {}", work.sequence(), work.deliveries());
///     work
/// });
/// orders.pump().run(layered(told, handler), shutdown).await
/// # }
/// ```
pub fn layered<L, H, F>(layer: L, handle: H) -> impl Fn(Work) -> Serving + Send + Sync + 'static
where
    L: Layer<HandlerService>,
    L::Service: Service<Work, Response: IntoVerdict, Error: Into<Failure>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
    H: Fn(Work) -> F + Send + Sync + 'static,
    F: Future<Output: IntoVerdict> + Send + 'static,
{
    served(layer.layer(HandlerService(handler(handle))))
}

/// A service as a handler. Every message gets a clone of it, which is waited for until it is ready;
/// the lock is kept meanwhile.
pub fn served<S>(service: S) -> impl Fn(Work) -> Serving + Send + Sync + 'static
where
    S: Service<Work, Response: IntoVerdict, Error: Into<Failure>, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static,
{
    let service = Arc::new(service);
    move |work| {
        let mut service = S::clone(&service);
        Box::pin(async move {
            std::future::poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
            service.call(work).await.map_err(Into::into)?.into_verdict()
        })
    }
}

//! `bellwether serve`.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use bellwether::Bellwether;
use clap::Args;

use super::Failure;
use crate::http;

/// Start the server.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The folder of the store; it is created if it is not there.
    #[arg(long, value_name = "DIR", default_value = "./bellwether-data")]
    data: PathBuf,
    /// Where to listen for HTTP; port 0 finds a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400")]
    http: SocketAddr,
    /// Keep nothing.
    #[arg(long)]
    memory: bool,
}

impl Serve {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let runtime = tokio::runtime::Runtime::new()?;
        runtime.block_on(self.serve(out))
    }

    async fn serve(&self, out: &mut dyn Write) -> Result<ExitCode, Failure> {
        let address = if self.memory {
            "memory:".to_owned()
        } else {
            format!("file:{}", self.data.display())
        };
        let bellwether = Bellwether::open(address).await.map_err(Failure::Open)?;
        let refused = |e| Failure::Listen(self.http.to_string(), e);
        let listener = tokio::net::TcpListener::bind(self.http).await.map_err(refused)?;
        writeln!(out, "listening on http://{}", listener.local_addr()?)?;
        out.flush()?;
        let state = http::State::new(bellwether.clone());
        let observer = tokio::spawn(http::observe(state.clone()));
        let router = http::router(state.clone());
        let stopping = async move {
            stop_asked().await;
            state.stop();
        };
        axum::serve(listener, router).with_graceful_shutdown(stopping).await?;
        // It ends when the state is stopped; a panic in it has been told already.
        let _ = observer.await;
        bellwether.close().await;
        Ok(ExitCode::SUCCESS)
    }
}

async fn stop_asked() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

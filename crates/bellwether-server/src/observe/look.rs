//! A look at the store, which may hang with its disk, from where nothing may hang.

use std::sync::Arc;
use std::time::Duration;

use bellwether::Error;
use tokio::sync::Semaphore;

/// One look at a time: if one hangs, others do not pile up behind it.
#[derive(Debug)]
pub(crate) struct Look {
    turn: Arc<Semaphore>,
    time_max: Duration,
}

impl Look {
    /// Looks that take longer are given up.
    pub(crate) fn within(time_max: Duration) -> Self {
        Self { turn: Arc::new(Semaphore::new(1)), time_max }
    }

    /// What `look` sees, or why it does not.
    pub(super) async fn at<T: Send + 'static>(
        &self,
        look: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, String> {
        let looked = tokio::time::timeout(self.time_max, async {
            let turn = Arc::clone(&self.turn).acquire_owned().await;
            tokio::task::spawn_blocking(move || {
                let seen = look();
                // Only now, also if nobody waits for it any more.
                drop(turn);
                seen
            })
            .await
        })
        .await;
        match looked {
            Ok(Ok(seen)) => seen.map_err(|e| e.to_string()),
            Ok(Err(panic)) => Err(format!("looking at the store failed: {panic}")),
            Err(_) => {
                let seconds = self.time_max.as_secs();
                Err(format!("the store has not answered for {seconds} s; look at its disk"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_that_hangs_holds_up_nobody() {
        let look = Look::within(Duration::from_millis(1));
        let (end, hangs) = std::sync::mpsc::channel::<()>();
        let hung = look.at(move || {
            let _ = hangs.recv();
            Ok(())
        });
        assert!(hung.await.unwrap_err().contains("has not answered"));
        let late = look.at(|| Ok(())).await;
        assert!(late.is_err(), "the first one still has its turn");
        drop(end);
        while look.at(|| Ok(())).await.is_err() {}
    }
}

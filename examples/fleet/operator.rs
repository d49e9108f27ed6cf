//! Who runs the fleet: starts instances, looks at them, kills some.

use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use bellwether::core::outcome::{EndedBy, LeftAs};
use bellwether::pump::Failure;
use bellwether::wire::accept::{Acceptor, Limits, Peer};
use bellwether::{Bellwether, Election, Leader, MemberId, Term};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::instance::ELECTION;

const LOOK: Duration = Duration::from_millis(5);

/// Lets others into the store, over a Unix socket: there the kernel proves who has died.
pub(crate) fn listen(bw: &Bellwether, folder: &Path) -> Result<String, Failure> {
    let socket = folder.join("fleet.sock");
    let listener = UnixListener::bind(&socket)?;
    let acceptor = Acceptor::new(bw, Limits::default())?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let serving = acceptor.clone().for_peer(Peer::of(&stream));
            tokio::spawn(async move { serving.serve(stream, CancellationToken::new()).await });
        }
    });
    Ok(format!("bellwether+unix:{}", socket.display()))
}

/// The processes.
pub(crate) struct Fleet {
    election: Election,
    instances: Vec<(String, Child)>,
}

impl Fleet {
    pub(crate) fn start(bw: &Bellwether, address: &str, count: usize) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let start = |number| {
            let name = format!("instance-{number}");
            let started = Command::new(&program).args([address, &name]).spawn();
            started.map(|child| (name, child))
        };
        let instances = (1..=count).map(start).collect::<Result<_, _>>()?;
        Ok(Self { election: bw.election(ELECTION)?, instances })
    }

    /// Who leads under a newer term than this one.
    pub(crate) async fn leader_after(&self, term: Option<Term>) -> Result<Leader, Failure> {
        loop {
            match self.election.leader().await? {
                Some(leader) if Some(leader.term) > term => return Ok(leader),
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Why leadership changed last.
    pub(crate) async fn why(&self) -> Result<String, Failure> {
        let history = self.election.history().await?;
        let ended = history.get(1).ok_or("a term before this one")?;
        let who = &ended.metadata;
        Ok(match ended.left_as {
            LeftAs::Ended { by: EndedBy::Died, .. } => format!("{who} has died"),
            LeftAs::Ended { by: EndedBy::Released { reason: Some(reason) }, .. } => {
                format!("{who} gave it back ({reason:?})")
            }
            other => format!("{who} left it ({other:?})"),
        })
    }

    pub(crate) async fn last_in_line(&self) -> Result<MemberId, Failure> {
        let info = self.election.info().await?.ok_or("it was led before")?;
        Ok(*info.waiting.last().ok_or("nobody waits")?)
    }

    /// Without a word.
    pub(crate) fn kill(&mut self, name: &str) -> Result<ExitStatus, Failure> {
        let mut child = self.take(name)?;
        child.kill()?;
        Ok(child.wait()?)
    }

    /// Tells this one and another one to stop; both finish what they have begun.
    pub(crate) async fn scale_in(&mut self, name: &str) -> Result<Vec<ExitStatus>, Failure> {
        let leader = self.take(name)?;
        let other = self.instances.pop().ok_or("nobody else is left")?.1;
        stop(vec![leader, other]).await
    }

    pub(crate) async fn stop(self) -> Result<Vec<ExitStatus>, Failure> {
        stop(self.instances.into_iter().map(|(_, child)| child).collect()).await
    }

    fn take(&mut self, name: &str) -> Result<Child, Failure> {
        let at = self.instances.iter().position(|(known, _)| known == name);
        Ok(self.instances.remove(at.ok_or_else(|| format!("{name} is not ours"))?).1)
    }
}

async fn stop(mut children: Vec<Child>) -> Result<Vec<ExitStatus>, Failure> {
    for child in &children {
        kill_process(Pid::from_child(child), Signal::TERM)?;
    }
    let ended = move || children.iter_mut().map(Child::wait).collect::<Result<_, _>>();
    Ok(tokio::task::spawn_blocking(ended).await??)
}

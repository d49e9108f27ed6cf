//! Elections on PostgreSQL through a pooler that gives every transaction another connection, and that is
//! frozen, killed and started again, as is the database itself.

use std::sync::Mutex;
use std::time::Duration;

use bellwether_server::drill::Rules;
use rustix::process::{Signal, geteuid};
use tokio::runtime::Runtime;

use crate::guise::Guise;
use crate::run::Run;
use crate::servers::{Postgres, Process, free_ports};
use crate::world::World;

/// In transaction mode, with two connections to the server for everybody.
fn pooler(server: u16) -> (Process, String) {
    let mut process = Process::new("pgbouncer", geteuid().is_root().then_some("postgres"));
    let [port] = free_ports();
    let config = process.folder.join("pgbouncer.ini");
    let text = format!(
        "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n\
         server_login_retry = 1\n\
         [databases]\npostgres = host=127.0.0.1 port={server} user=postgres\n"
    );
    std::fs::write(&config, text).unwrap();
    process.start("/usr/sbin/pgbouncer", vec![config.display().to_string()]);
    (process, format!("postgres://postgres@127.0.0.1:{port}/postgres"))
}

#[test]
fn poolers() {
    let runtime = Runtime::new().unwrap();
    let database = Mutex::new(runtime.block_on(Postgres::start()));
    let (pooler, address) = pooler(database.lock().unwrap().port());
    let pooler = Mutex::new(pooler);
    let rules = Rules::default();
    let run = Run { kind: "poolers", share: 70, worlds: 1, rules, deposes: false };
    let make = |world: &mut World| {
        // The shortest that it can keep.
        world.ttl = Duration::from_secs(1);
        (0..3).for_each(|_| world.stand(&address, Guise::default()));
    };
    run.go(make, |world, number| {
        let during = world.parts_of_ttl(0.3, 1.6);
        match number % 6 {
            0 | 3 => {
                world.fault("freeze", "pooler");
                pooler.lock().unwrap().signal(Signal::STOP);
                std::thread::sleep(during);
                pooler.lock().unwrap().signal(Signal::CONT);
            }
            1 => {
                world.fault("kill", "pooler");
                pooler.lock().unwrap().kill();
                std::thread::sleep(during);
                pooler.lock().unwrap().start_again();
            }
            2 => {
                let leader = world.leader();
                world.kill(leader);
            }
            4 => {
                let leader = world.leader();
                world.freeze(leader, during * 2);
            }
            _ => {
                world.fault("crash", "database");
                runtime.block_on(database.lock().unwrap().restart());
            }
        }
    });
}

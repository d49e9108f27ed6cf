//! Partitions: each candidate in a network of its own, whose link goes down, or lets nothing through in
//! one direction (F11). Nothing is done to the network of the machine itself.

use std::process::Command;
use std::sync::OnceLock;

use bellwether_server::drill::Rules;

use crate::guise::Guise;
use crate::run::Run;
use crate::world::World;

/// A server's network, and one for each candidate, linked to it. Removed in the end.
struct Networks {
    hub: String,
    leaves: Vec<String>,
}

fn must(words: &[&str]) {
    let ran = Command::new(words[0]).args(&words[1..]).output();
    let ran = ran.unwrap_or_else(|e| {
        panic!("{}: {e}; `ip` (iproute2) and `nft` (nftables) are needed", words[0])
    });
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success(),
        "{words:?}: {said}; network namespaces are needed: root with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    );
}

impl Networks {
    fn new(nth: u64, count: usize) -> Self {
        let hub = format!("bw{}-{nth}", std::process::id());
        must(&["ip", "netns", "add", &hub]);
        let mut networks = Self { hub, leaves: Vec::new() };
        let hub = networks.hub.clone();
        must(&["ip", "-n", &hub, "link", "set", "lo", "up"]);
        for index in 0..count {
            let leaf = format!("{hub}-{index}");
            must(&["ip", "netns", "add", &leaf]);
            networks.leaves.push(leaf.clone());
            let up = Self::link(index);
            must(&[
                "ip", "-n", &hub, "link", "add", &up, "type", "veth", "peer", "name", "eth0",
                "netns", &leaf,
            ]);
            for (name, link, host) in [(&hub, up.as_str(), 1), (&leaf, "eth0", 2)] {
                let address = format!("10.77.{index}.{host}/30");
                must(&["ip", "-n", name, "address", "add", &address, "dev", link]);
                must(&["ip", "-n", name, "link", "set", link, "up"]);
            }
        }
        networks
    }

    fn link(index: usize) -> String {
        format!("leaf{index}")
    }

    fn set(&self, index: usize, state: &str) {
        must(&["ip", "-n", &self.hub, "link", "set", &Self::link(index), state]);
    }

    /// Drops what goes out, or what comes in, at the candidate's end.
    fn close(&self, index: usize, direction: &str) {
        let rules = format!(
            "add table inet cut; \
             add chain inet cut cut {{ type filter hook {direction} priority 0; policy drop; }}"
        );
        must(&["ip", "netns", "exec", &self.leaves[index], "nft", &rules]);
    }

    fn open(&self, index: usize) {
        must(&["ip", "netns", "exec", &self.leaves[index], "nft", "delete table inet cut"]);
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for name in self.leaves.iter().chain([&self.hub]) {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

#[test]
fn partitions() {
    let networks: [OnceLock<Networks>; 3] = Default::default();
    let rules = Rules::default();
    let run = Run { kind: "partitions", share: 120, worlds: 3, rules, deposes: true };
    let make = |world: &mut World| {
        let made = networks[world.nth as usize].get_or_init(|| Networks::new(world.nth, 3));
        let hub = Guise::in_network(&made.hub);
        let address = world.serve(&hub, "0.0.0.0", &["--insecure-allow-remote"]);
        let port = address.rsplit_once(':').unwrap().1;
        for (index, leaf) in made.leaves.iter().enumerate() {
            let address = format!("bellwether://10.77.{index}.1:{port}");
            world.stand(&address, Guise::in_network(leaf));
        }
    };
    run.go(make, |world, number| {
        let index = if world.chance.below(4) == 0 { world.follower() } else { world.leader() };
        let name = world.candidates[index].name.clone();
        let during = world.parts_of_ttl(0.5, 2.5);
        let networks = networks[world.nth as usize].get().unwrap();
        match number % 4 {
            0 => {
                world.fault("link down", &name);
                networks.set(index, "down");
                std::thread::sleep(during);
                networks.set(index, "up");
            }
            1 | 2 => {
                let direction = if number % 4 == 1 { "input" } else { "output" };
                world.fault(&format!("{direction} dropped"), &name);
                networks.close(index, direction);
                std::thread::sleep(during);
                networks.open(index);
            }
            _ => {
                world.fault("link flaps", &name);
                for state in ["down", "up", "down", "up", "down", "up"] {
                    networks.set(index, state);
                    std::thread::sleep(during / 8);
                }
            }
        }
    });
}

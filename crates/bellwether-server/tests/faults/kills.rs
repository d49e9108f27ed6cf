//! Leaders and servers that are killed, and leaders that leave. A server finds its store again.

use bellwether_server::drill::Rules;

use crate::guise::Guise;
use crate::run::Run;
use crate::world::World;

#[test]
fn kills() {
    let run = Run { kind: "kills", share: 200, worlds: 4, rules: Rules::default(), deposes: false };
    let make = |world: &mut World| {
        let address = world.serve(&Guise::default(), "127.0.0.1", &[]);
        let socket = world.socket();
        // Of those at the socket a death is seen at once; of the others it is not.
        for at in [&address, &socket, &address, &socket] {
            world.stand(at, Guise::default());
        }
    };
    run.go(make, |world, number| {
        let pause = world.parts_of_ttl(0.0, 1.0);
        std::thread::sleep(pause);
        match number % 5 {
            0 | 2 => {
                let leader = world.leader();
                world.kill(leader);
            }
            4 => {
                let leader = world.leader();
                let leaving = world.dismiss(leader, "leaves");
                world.replace(leaving);
            }
            _ => {
                let down = world.parts_of_ttl(0.0, 2.0);
                world.fault("kill", "server");
                world.kill_server();
                std::thread::sleep(down);
                world.start_server_again();
            }
        }
    });
}

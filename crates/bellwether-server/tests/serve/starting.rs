//! From nothing to ready, and why not.

use std::os::unix::fs::PermissionsExt as _;

use bellwether::{Bellwether, QueueSettings};

use crate::server::{Folder, Server, assert_says, bellwether, said, serve, status};

#[test]
fn nothing_has_to_be_set_up() {
    let folder = Folder::new();
    std::fs::create_dir(&folder.0).unwrap();
    let server = Server::start_as(bellwether().arg("serve").current_dir(&folder.0));
    let data = std::fs::metadata(folder.0.join("bellwether-data")).unwrap();
    assert!(data.is_dir(), "the store is where it is said to be");
    assert_eq!(data.permissions().mode() & 0o077, 0, "and nobody else's to read");
    let address = server.address.to_string();
    let place = folder.0.canonicalize().unwrap().join("bellwether-data");
    assert_says(&server.banner, &[&address, place.to_str().unwrap()]);
    let commands = server.banner.lines().filter(|line| line.starts_with("  bellwether "));
    assert_eq!(commands.count(), 3, "{}", server.banner);
    assert!(!server.banner.contains("SERVER"), "{}", server.banner);
    assert_eq!(status(&server.get("/readyz", "host: localhost\r\n")), 200);
    server.stop();
}

#[test]
fn what_was_acknowledged_before_is_served() {
    let folder = Folder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let send = async {
        let bw = Bellwether::open(format!("file:{}", folder.text())).await.unwrap();
        let queue = bw.create_queue("orders", QueueSettings::default()).await.unwrap();
        queue.send("two coffees").await.unwrap();
        bw.close().await;
    };
    runtime.block_on(send);
    let server = Server::in_folder(&folder.0);
    let metrics = server.get("/metrics", "host: localhost\r\n");
    let line = "bellwether_queue_messages{queue=\"orders\",state=\"active\"} 1\n";
    assert_says(&metrics, &[line]);
    server.stop();
}

#[test]
fn a_port_that_is_taken_is_one_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = Folder::new();
    let output = serve(&["--http", &address, "--data", folder.text()]);
    assert_eq!(output.status.code(), Some(69));
    let complaint = said(&output.stderr);
    assert_says(&complaint, &[&address, "another process", "--http"]);
    assert_eq!(complaint.trim().lines().count(), 1, "{complaint}");
    assert!(!folder.0.exists(), "nothing was touched");
}

#[test]
fn a_store_that_is_open_elsewhere_is_one_sentence() {
    let folder = Folder::new();
    let server = Server::in_folder(&folder.0);
    let output = serve(&["--http", "127.0.0.1:0", "--data", folder.text()]);
    assert_eq!(output.status.code(), Some(75));
    let complaint = said(&output.stderr);
    let pid = format!("pid {}", server.pid());
    assert_says(&complaint, &[folder.text(), &pid, "stop that process", "--data"]);
    assert_eq!(complaint.trim().lines().count(), 1, "{complaint}");
    server.stop();
}

#[test]
fn a_folder_that_cannot_be_written_is_one_sentence() {
    let file = Folder::new();
    std::fs::write(&file.0, "a file, not a folder").unwrap();
    let data = file.0.join("data");
    let output = serve(&["--http", "127.0.0.1:0", "--data", data.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(74));
    let complaint = said(&output.stderr);
    assert_says(&complaint, &[data.to_str().unwrap(), "let this user write there", "--data"]);
    assert_eq!(complaint.trim().lines().count(), 1, "{complaint}");
    std::fs::remove_file(&file.0).unwrap();
}

#[test]
fn an_address_that_others_can_reach_is_refused_with_the_ways_out() {
    let output = serve(&["--http", "0.0.0.0:0", "--memory"]);
    assert_eq!(output.status.code(), Some(78));
    let complaint = said(&output.stderr);
    assert_says(&complaint, &["0.0.0.0:0", "flag --http", "127.0.0.1", "ssh -L"]);
    assert_says(&complaint, &["--tls-cert", "--credentials required", "--insecure-allow-remote"]);
}

#[test]
fn a_server_in_memory_touches_no_folder() {
    let folder = Folder::new();
    std::fs::create_dir(&folder.0).unwrap();
    let server = Server::start_as(bellwether().args(["serve", "--memory"]).current_dir(&folder.0));
    assert_says(&server.banner, &["nothing is kept"]);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    server.stop();
}

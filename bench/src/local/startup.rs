//! Opening a store whose process was killed under load, with a cold and a warm cache.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use super::{Options, fresh};
use crate::child::this_program;
use crate::machine::{drop_caches, folder_bytes};
use crate::report::Report;

pub(super) fn run(options: &Options, report: &mut Report) {
    for (waiting, limit) in [(1_000_000, 1.0), (options.deep, 8.0)] {
        let folder = fresh(options, "startup");
        let mut child =
            this_program(&["load", &folder.display().to_string(), &waiting.to_string()])
                .stdout(Stdio::piped())
                .spawn()
                .expect("a child");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("its words");
        BufReader::new(stdout).read_line(&mut line).expect("a word when it is filled");
        std::thread::sleep(Duration::from_secs(3));
        child.kill().expect("kill -9");
        child.wait().expect("its end");

        let on_disk = folder_bytes(&folder) as f64 / 1e6;
        report.figure(
            &format!("store on disk, {waiting} waiting, 256 B"),
            format!("{on_disk:.0} MB"),
            on_disk,
        );
        if drop_caches() {
            open(report, &folder, waiting, limit, "cold");
        } else {
            report.figure("start-up with a cold cache", "not allowed to drop caches".into(), 0);
        }
        open(report, &folder, waiting, limit, "warm");
    }
}

fn open(report: &mut Report, folder: &Path, waiting: u64, limit: f64, cache: &str) {
    let output = this_program(&["open", &folder.display().to_string()]).output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut words = text.split_whitespace().map(|word| word.parse::<u64>().expect("a number"));
    let (micros, found, memory) =
        (words.next().expect("time"), words.next().expect("count"), words.next().expect("memory"));
    assert!(found >= waiting, "every acknowledged message is there: {found} of {waiting}");
    let seconds = micros as f64 / 1e6;
    let what = format!("start-up after kill -9 with {waiting} waiting, {cache} cache");
    let figure = format!("{seconds:.2} s");
    report.check(&what, figure, seconds, &format!("<= {limit} s"), seconds <= limit);
    let each = memory as f64 / found as f64;
    let what = format!("resident memory per waiting message after start-up, {waiting}");
    report.figure(&what, format!("{each:.0} B"), each);
}

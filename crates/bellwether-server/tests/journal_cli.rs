//! `bellwether journal`, as an operator sees it.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use bellwether::journal::file::{FileJournal, FileOptions, RealDisk};
use bellwether::journal::{Journal as _, Prepared, Replay};
use bellwether_core::change::Change;
use bellwether_core::codec;
use bellwether_core::content::ContentId;
use bellwether_core::message::{Message, Standing, State};
use bellwether_core::name::{At, Incarnation, Part, QueueId, QueueName, SequenceNumber};
use bellwether_core::rank::Rank;
use bellwether_core::settings::QueueSettings;
use bellwether_core::time::{BootTime, WallTime};

const BODY: &[u8] = b"two eggs\x00\xff";
const FRAME_HEADER_BYTES: u64 = 32;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("bellwether-cli-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Nothing;

impl Replay for Nothing {
    fn snapshot(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
    fn frame(&mut self, _: Prepared, _: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

fn open(dir: &Path) -> FileJournal {
    let options = FileOptions {
        segment_bytes_max: 64 << 10,
        segment_bytes_first: 64 << 10,
        ..FileOptions::default()
    };
    FileJournal::open(Arc::new(RealDisk), dir, options, &mut Nothing).unwrap()
}

fn encoded(changes: &[Change]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for change in changes {
        codec::encode_change(change, BootTime(0), &mut bytes);
        if let Change::Content { .. } = change {
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(BODY);
        }
    }
    bytes
}

fn queue() -> Change {
    Change::Queue {
        id: QueueId(1),
        name: QueueName::new("orders").unwrap(),
        settings: Box::new(QueueSettings::default()),
        created_at: WallTime(1_767_225_600_000),
    }
}

fn message(sequence: u64) -> [Change; 2] {
    let sequence = SequenceNumber(sequence);
    let content = ContentId(sequence.0);
    let message = Message {
        content,
        enqueued_at: WallTime(1_767_225_600_000),
        expires_at: WallTime::NEVER,
        origin: sequence,
        mark: 0,
        source: QueueId(0),
        standing: Standing::new(State::Ready),
    };
    let at = At { queue: QueueId(1), part: Part::Main, sequence };
    [
        Change::Content { id: content, index: 0, len: BODY.len() as u32 },
        Change::Message { at, message, session: None, rank: Rank::default(), arrived: true },
    ]
}

/// A store with a snapshot, and three frames of which only the last is not known durable. Where
/// those three lie.
fn store(dir: &Path) -> [Prepared; 3] {
    let mut journal = open(dir);
    journal.snapshot_begin().unwrap();
    journal.snapshot_block(Box::new(encoded(&[queue()])));
    journal.snapshot_end();
    while let Some(job) = journal.next_job() {
        journal.job_done(job.run()).unwrap();
    }
    let opened = [Change::Opened { incarnation: Incarnation(1) }];
    [encoded(&opened), encoded(&message(1)), encoded(&message(2))].map(|payload| {
        let at = journal.prepare(payload.len()).unwrap();
        journal.append(&payload).unwrap();
        journal.flusher().flush().unwrap();
        at
    })
}

fn unit_file(dir: &Path, at: Prepared) -> PathBuf {
    dir.join(format!("{:016x}.log", at.unit))
}

/// Replaces one byte.
fn set_byte(path: &Path, offset: u64, with: impl Fn(u8) -> u8) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset as usize] = with(bytes[offset as usize]);
    std::fs::write(path, bytes).unwrap();
}

fn bellwether(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bellwether")).args(args).arg(dir).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complained(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_clean_store_is_called_clean() {
    let dir = Folder::new("clean");
    store(&dir.0);
    let output = bellwether(&["journal", "check"], &dir.0);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("clean"), "{said}");
    for line in [
        "format       1",
        "incarnation  1 ",
        "snapshot     0000000000000001.snapshot, 1 blocks",
        "units        2, 131072 bytes",
        "to replay    3 frames",
        "next frame   4",
        "changes      6 decoded",
    ] {
        assert!(said.contains(line), "{line} is missing in\n{said}");
    }
}

#[test]
fn a_torn_tail_is_told_from_damage_and_placed() {
    let dir = Folder::new("torn");
    let [_, _, last] = store(&dir.0);
    // As a power cut leaves it: the end of the last frame never reached the disk.
    let start = u64::from(last.payload_offset);
    for offset in start..start + 8 {
        set_byte(&unit_file(&dir.0, last), offset, |_| 0);
    }
    let output = bellwether(&["journal", "check"], &dir.0);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("torn tail"), "{said}");
    let place = format!("0000000000000001.log from byte {}", start - FRAME_HEADER_BYTES);
    assert!(said.contains(&place), "{place} is missing in\n{said}");
    assert!(said.contains("to replay    2 frames"), "{said}");
}

#[test]
fn a_flipped_bit_is_damage_and_named_to_the_byte() {
    let dir = Folder::new("damaged");
    let [_, second, _] = store(&dir.0);
    let path = unit_file(&dir.0, second);
    let before = {
        set_byte(&path, u64::from(second.payload_offset) + 3, |byte| byte ^ 0x10);
        std::fs::read(&path).unwrap()
    };
    for command in ["check", "dump"] {
        let output = bellwether(&["journal", command], &dir.0);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        let offset = u64::from(second.payload_offset) - FRAME_HEADER_BYTES;
        let place = format!("damage in {} at byte {offset}: frame 2", path.display());
        assert!(said.contains(&place), "{place} is missing in\n{said}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before, "looking changes nothing");
}

#[test]
fn a_payload_that_makes_no_sense_is_damage_even_if_its_checksum_fits() {
    let dir = Folder::new("senseless");
    let mut journal = open(&dir.0);
    journal.prepare(1).unwrap();
    journal.append(&[0xee]).unwrap();
    drop(journal);
    let output = bellwether(&["journal", "check"], &dir.0);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("expected a change at byte 0"), "{said}");
}

#[test]
fn a_dump_shows_every_change_and_where_it_lies() {
    let dir = Folder::new("dump");
    let [_, second, _] = store(&dir.0);
    let output = bellwether(&["journal", "dump"], &dir.0);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 7, "{said}");
    assert!(
        lines[0].starts_with(
            "snapshot block 0 byte 0  queue 1 \"orders\" created=2026-01-01T00:00:00.000Z"
        ),
        "{said}"
    );
    assert!(lines[1].ends_with("  opened incarnation=1"), "{said}");
    let place = format!("frame 2 0000000000000001.log byte {}", second.payload_offset);
    assert_eq!(lines[2], format!("{place}  content 1 10 bytes"));
    assert!(lines[3].contains("  message 1/main/1 content=1 enqueued=2026-01-01T00:00:00.000Z"));
    assert!(lines[3].ends_with(" origin=1 ready arrived"), "{said}");
    assert!(lines[6].starts_with("# clean"), "{said}");

    let output = bellwether(&["journal", "dump", "--contents"], &dir.0);
    let with_contents = self::said(&output);
    assert!(with_contents.contains(r#"content 1 10 bytes "two eggs\x00\xff""#), "{with_contents}");
}

#[test]
fn a_mark_is_shown_with_what_it_calls_durable() {
    let dir = Folder::new("mark");
    open(&dir.0).close().unwrap();
    let said = said(&bellwether(&["journal", "dump"], &dir.0));
    assert!(said.contains("frame 1 0000000000000001.log byte 4128  mark durable=0"), "{said}");
}

#[test]
fn a_store_in_use_is_left_alone_and_its_user_named() {
    let dir = Folder::new("in-use");
    let _journal = open(&dir.0);
    let output = bellwether(&["journal", "check"], &dir.0);
    assert_eq!(output.status.code(), Some(75));
    let who = format!("pid {}", std::process::id());
    assert!(complained(&output).contains(&who), "{}", complained(&output));
}

#[test]
fn what_is_no_store_is_not_called_clean() {
    let dir = Folder::new("nothing");
    let output = bellwether(&["journal", "check"], &dir.0);
    assert_eq!(output.status.code(), Some(74), "there is no such folder");
    std::fs::create_dir_all(&dir.0).unwrap();
    let output = bellwether(&["journal", "check"], &dir.0);
    assert_eq!(output.status.code(), Some(74), "an empty folder");
    assert!(complained(&output).contains("there is no store in"), "{}", complained(&output));
}

#[test]
fn a_usage_error_is_not_taken_for_damage_and_help_shows_the_codes() {
    let run =
        |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_bellwether")).args(args).output().unwrap();
    assert_eq!(run(&["journal", "check"]).status.code(), Some(64));
    assert_eq!(run(&["no-such-command"]).status.code(), Some(64));
    for command in ["check", "dump"] {
        let help = run(&["journal", command, "--help"]);
        assert_eq!(help.status.code(), Some(0));
        for words in ["Examples:", "Exit codes:", "torn tail"] {
            assert!(said(&help).contains(words), "{}", said(&help));
        }
    }
}

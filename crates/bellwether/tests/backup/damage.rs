//! A backup that is not sound is refused, with the place, and nothing is left behind.

use std::path::Path;

use bellwether::QueueSettings;
use bellwether::backup::{RestoreFault, restore, verify};

use super::folder::{Folder, bytes_of};

async fn sample(folder: &Folder) -> Vec<u8> {
    let store = folder.open("store").await;
    let queue = store.create_queue("orders", QueueSettings::default()).await.unwrap();
    queue.send_batch((0..20).map(|n| format!("coffee number {n}"))).await.unwrap();
    let bytes = bytes_of(&store).await;
    store.close().await;
    bytes
}

fn refused(folder: &Folder, bytes: &[u8], what: &str) -> RestoreFault {
    let (file, dir) = (folder.at("damaged"), folder.at("restored"));
    std::fs::write(&file, bytes).unwrap();
    let fault = restore(&file, &dir, |_| ()).expect_err(what);
    assert!(!dir.exists(), "{what}: nothing is written before all is read");
    fault
}

#[tokio::test]
async fn every_flipped_bit_is_refused() {
    let folder = Folder::new();
    let sound = sample(&folder).await;
    std::fs::write(folder.at("sound"), &sound).unwrap();
    assert_eq!(verify(&folder.at("sound"), |_| ()).unwrap().messages, 20);
    for at in 0..sound.len() {
        let mut flipped = sound.clone();
        flipped[at] ^= 1 << (at % 8);
        let what = format!("a flip in byte {at}");
        match refused(&folder, &flipped, &what) {
            RestoreFault::NotABackup { .. } => assert!(at < 8, "{what}"),
            RestoreFault::UnknownVersion { .. } => assert!((8..12).contains(&at), "{what}"),
            RestoreFault::Damaged { offset, .. } => {
                let offset = usize::try_from(offset).unwrap();
                assert!(at >= 12 && offset <= at, "{what} is found at {offset}");
            }
            other => panic!("{what}: {other}"),
        }
    }
}

#[tokio::test]
async fn one_that_was_cut_off_is_refused_wherever_it_was_cut() {
    let folder = Folder::new();
    let sound = sample(&folder).await;
    for len in (0..sound.len()).step_by(7).chain([sound.len() - 1]) {
        let what = format!("{len} of {} bytes", sound.len());
        let fault = refused(&folder, &sound[..len], &what);
        let is_told =
            matches!(fault, RestoreFault::Damaged { .. } | RestoreFault::NotABackup { .. });
        assert!(is_told, "{what}: {fault}");
    }
    let longer = [sound.as_slice(), b"x"].concat();
    let fault = refused(&folder, &longer, "one byte more");
    assert!(fault.to_string().contains("an end that is not the end"), "{fault}");
}

#[tokio::test]
async fn a_store_is_never_written_over() {
    let folder = Folder::new();
    let sound = sample(&folder).await;
    let file = folder.at("backup");
    std::fs::write(&file, &sound).unwrap();
    let occupied = restore(&file, &folder.at("store"), |_| ()).unwrap_err();
    assert!(matches!(occupied, RestoreFault::Occupied(_)), "{occupied}");
    // What another restore left when it was broken off is no store.
    let dir = folder.at("restored");
    std::fs::create_dir_all(dir.join("restoring")).unwrap();
    std::fs::write(dir.join("restoring/0000000000000001.log"), b"half").unwrap();
    restore(&file, &dir, |_| ()).unwrap();
    assert!(!dir.join("restoring").exists());
    let again = restore(&file, &dir, |_| ()).unwrap_err();
    assert!(matches!(again, RestoreFault::Occupied(_)), "{again}");
}

#[test]
fn what_is_not_there_or_no_backup_is_named() {
    let folder = Folder::new();
    let missing = verify(&folder.at("missing"), |_| ()).unwrap_err();
    assert!(missing.to_string().contains("missing"), "{missing}");
    let no_file = verify(Path::new("/"), |_| ()).unwrap_err();
    assert!(matches!(no_file, RestoreFault::NotABackup { .. }), "{no_file}");
}

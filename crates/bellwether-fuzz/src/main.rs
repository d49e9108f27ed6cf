//! Writes the corpus: real encodings of everything that is decoded.

use bellwether_fuzz::{TARGETS, seeds};

fn main() -> std::io::Result<()> {
    for target in TARGETS {
        let folder = target.folder();
        std::fs::create_dir_all(&folder)?;
        for file in std::fs::read_dir(&folder)? {
            let path = file?.path();
            let is_found = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(seeds::FOUND));
            if !is_found {
                std::fs::remove_file(path)?;
            }
        }
        for (name, bytes) in seeds::of(target.name) {
            std::fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}

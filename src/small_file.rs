//! Reads the files that a configuration or a URL names: configurations, certificates, keys. The path may name anything, by mistake or by
//! another's will. Reading a device such as `/dev/zero` would fill the memory, and opening a pipe would wait for its writer for ever.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, Read as _, Result};
use std::path::Path;

/// The largest file that is read.
pub const LARGEST: u64 = 1024 * 1024;

/// Reads an ordinary file of at most [`LARGEST`] bytes. The metadata is that of the file that was read, whatever the path leads to by now.
///
/// # Errors
/// When it can't be opened or read, is no ordinary file, or is larger. The error does not name the path, which may be a misplaced secret.
pub fn read(path: &Path) -> Result<(Vec<u8>, Metadata)> {
    // Looked at before it is opened, because opening a device may have an effect, and afterwards, because the path may lead elsewhere by then.
    refuse_special(&std::fs::metadata(path)?)?;
    let file = open(path)?;
    let metadata = file.metadata()?;
    refuse_special(&metadata)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Error::other("it is larger than 1 MiB"));
    }
    Ok((bytes, metadata))
}

/// Refuses a path that leads to something that is not an ordinary file, for readers that are not ours.
///
/// # Errors
/// When there is no such file, or it is a directory, a pipe or a device.
pub fn require(path: &Path) -> Result<()> {
    refuse_special(&std::fs::metadata(path)?)
}

/// Opens a file without waiting: a pipe may have taken its place.
fn open(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path)
}

fn refuse_special(metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let what = if metadata.is_dir() { "it is a directory" } else { "it is no ordinary file, but a pipe or a device" };
    Err(Error::other(what))
}

#[cfg(all(test, unix))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_ordinary_files_of_a_bounded_size_are_read() {
        let dir = std::env::temp_dir().join(format!("jobwright_small_{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir(&dir).unwrap();
        let named = |name: &str| dir.join(name);
        let largest = usize::try_from(LARGEST).unwrap();
        std::fs::write(named("full"), vec![b'x'; largest]).unwrap();
        std::fs::write(named("more"), vec![b'x'; largest + 1]).unwrap();
        std::os::unix::fs::symlink("full", named("link")).unwrap();
        assert!(Command::new("mkfifo").arg(named("pipe")).status().unwrap().success());
        for good in ["full", "link"] {
            let (bytes, metadata) = read(&named(good)).unwrap();
            assert_eq!((bytes.len(), metadata.len()), (largest, LARGEST), "{good}");
        }
        for (bad, why) in [
            (named("more"), "larger than 1 MiB"),
            (named("pipe"), "no ordinary file"),
            (named(""), "a directory"),
            ("/dev/zero".into(), "no ordinary file"),
            (named("missing"), "No such file"),
        ] {
            let error = read(&bad).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("jobwright_small"), "{}: {error}", bad.display());
        }
        // It took the place of an ordinary file after that was looked at: neither opening nor reading waits.
        let pipe = open(&named("pipe")).unwrap();
        assert!(refuse_special(&pipe.metadata().unwrap()).is_err());
        std::fs::remove_dir_all(dir).unwrap();
    }
}

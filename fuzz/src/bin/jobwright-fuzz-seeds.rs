//! Writes the seeds of each target into a folder, and names the targets with the longest input that each takes.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("give the folder to write into")?);
    for target in jobwright_fuzz::TARGETS {
        let own = folder.join(target.name);
        fs::create_dir_all(&own)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(own.join(number.to_string()), seed)?;
        }
        println!("{} {}", target.name, target.longest);
    }
    Ok(())
}

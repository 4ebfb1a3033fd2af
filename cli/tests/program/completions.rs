//! `jobwright completions`: a real bash completes with the script, and each shell gets one for all commands.

use std::process::Command;

use crate::common::{Done, Sandbox, jobwright};
use crate::documents::commands;

/// Completes the last of these words, as bash does when a person presses Tab, and returns the proposals.
fn completed(words: &[&str]) -> Vec<String> {
    // Bash calls the function that `complete` has registered with the command, the word and the one before.
    const SCRIPT: &str = r#"
        source ./jobwright.bash || exit
        registered=$(complete -p jobwright) || exit
        [[ $registered =~ -F\ ([^ ]+) ]] || exit
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        "${BASH_REMATCH[1]}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" || exit
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let sandbox = Sandbox::without_file();
    let script = sandbox.run(&["completions", "bash"]).success().stdout;
    std::fs::write(sandbox.file("jobwright.bash"), script).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", SCRIPT, "bash"]).args(words).current_dir(sandbox.path());
    let done = Done::from(bash.output().expect("these tests need bash")).success();
    assert_eq!(done.stderr, "", "{words:?}");
    done.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_their_values() {
    assert_eq!(completed(&["jobwright", "sched"]), ["schedules"]);
    assert_eq!(completed(&["jobwright", "jobs", "re"]), ["retry", "resume"]);
    assert_eq!(completed(&["jobwright", "broker", "rejected", "res"]), ["resubmit"]);
    assert_eq!(completed(&["jobwright", "worker", "--dr"]), ["--drain"]);
    assert_eq!(completed(&["jobwright", "jobs", "list", "--outp"]), ["--output"]);
    assert_eq!(completed(&["jobwright", "status", "--output", ""]), ["table", "json"]);
    assert_eq!(completed(&["jobwright", "completions", "z"]), ["zsh"]);
    assert_eq!(completed(&["jobwright", "sched-no-such"]), [""; 0]);
}

#[test]
fn the_script_of_each_shell_is_for_the_program_and_knows_all_its_commands() {
    let shells = [
        ("bash", "complete -F _jobwright"),
        ("elvish", "set edit:completion:arg-completer[jobwright]"),
        ("fish", "complete -c jobwright"),
        ("powershell", "Register-ArgumentCompleter -Native -CommandName 'jobwright'"),
        ("zsh", "#compdef jobwright"),
    ];
    let commands = commands();
    for (shell, registers) in shells {
        let script = Done::from(jobwright().args(["completions", shell]).output().unwrap()).success();
        assert_eq!(script.stderr, "", "{shell}");
        assert!(script.stdout.contains(registers), "{shell}: {}", &script.stdout[..200]);
        for name in commands.keys().filter_map(|words| words.last()) {
            assert!(script.stdout.contains(name.as_str()), "{shell} does not know {name}");
        }
    }
}

#[test]
fn an_unknown_shell_is_refused_and_the_known_ones_are_named() {
    let done = Done::from(jobwright().args(["completions", "tcsh"]).output().unwrap()).code(2);
    assert_eq!(done.stdout, "");
    done.says("bash, elvish, fish, powershell, zsh");
}

/// Set-up scripts run where there is no database, and where another program's configuration is in the way.
#[test]
fn neither_completions_nor_the_manual_read_a_configuration() {
    let sandbox = Sandbox::without_file();
    std::fs::write(sandbox.file("jobwright.toml"), "this is no TOML").unwrap();
    sandbox.run(&["status"]).code(2);
    sandbox.run(&["completions", "bash"]).success();
    sandbox.run(&["man", "pages"]).success();
    assert!(sandbox.file("pages/jobwright.1").exists() && !sandbox.file("jobs.db").exists());
}

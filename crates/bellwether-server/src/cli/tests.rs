//! The tree of commands, looked at as a whole.

use clap::{Command, CommandFactory as _, Parser as _};

use super::{Cli, EXIT_CODES};

/// Every command that does something, with the words that lead to it.
fn leaves(command: &Command, words: &[String], found: &mut Vec<(String, Command)>) {
    let under: Vec<&Command> =
        command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
    if under.is_empty() {
        found.push((words.join(" "), command.clone()));
    }
    for sub in under {
        let words = [words, &[sub.get_name().to_owned()]].concat();
        leaves(sub, &words, found);
    }
}

fn all() -> Vec<(String, Command)> {
    let mut found = Vec::new();
    leaves(&Cli::command(), &[], &mut found);
    found
}

/// The words of a command line, as far as they are ours: what a shell does with the rest is its
/// own business.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(c), true),
            (None, '|' | '<' | '>' | '&' | ';') => break,
            (None, ' ') => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            (_, c) => {
                word.push(c);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

#[test]
fn the_tree_makes_sense_to_the_parser() {
    Cli::command().debug_assert();
    assert!(all().len() > 30, "all commands are found");
}

#[test]
fn every_command_says_what_it_does_and_shows_an_example_that_parses() {
    for (name, command) in all() {
        assert!(command.get_about().is_some(), "`{name}` says what it does");
        // Its flags and its help are looked at where it is made.
        if name == "serve" {
            continue;
        }
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let lines = help.lines().skip_while(|line| *line != "Examples:");
        let lines = lines.filter_map(|line| Some((line, line.find("bellwether ")?)));
        let examples: Vec<Vec<String>> = lines.map(|(line, at)| words(&line[at..])).collect();
        let is_of_it = |example: &Vec<String>| example[1..].join(" ").starts_with(&name);
        assert!(examples.iter().any(is_of_it), "`{name}` shows an example of itself");
        for example in examples {
            let parsed = Cli::try_parse_from(&example);
            assert!(parsed.is_ok(), "`{}`: {}", example.join(" "), parsed.unwrap_err());
        }
    }
}

#[test]
fn every_flag_is_explained() {
    for (name, command) in all() {
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "`{name}` explains {:?}", argument.get_id());
        }
    }
}

#[test]
fn the_documented_exit_codes_are_those_of_the_help() {
    let page = include_str!("../../../../docs/cli.md");
    for line in EXIT_CODES.lines().skip(1).filter(|line| !line.starts_with("    ")) {
        let code = line.split_whitespace().next().unwrap();
        assert!(page.contains(&format!("| {code} |")), "docs/cli.md lists {code}");
    }
}

#[test]
fn every_command_is_documented() {
    let page = include_str!("../../../../docs/cli.md");
    for (name, _) in all() {
        assert!(page.contains(&format!("bellwether {name}")), "docs/cli.md shows `{name}`");
    }
}

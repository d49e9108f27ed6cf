//! The command line: one file a command, a folder for a family.

mod ask;
mod backup;
mod bench;
mod completions;
mod dead_letter;
mod doctor;
mod election;
mod engines;
mod export;
mod failure;
mod fence;
pub(crate) mod form;
pub(crate) mod human;
mod import;
mod job;
mod journal;
mod key;
mod lead;
mod lease;
mod lines;
mod measure;
mod member;
mod message;
mod pages;
mod peek;
mod progress;
mod queue;
mod reach;
mod receive;
mod restore;
mod schedule;
mod screen;
mod send;
mod serve;
mod session;
mod stats;
mod stop;
mod table;
#[cfg(test)]
mod tests;
mod top;

use std::io::Write;

use clap::{Parser, Subcommand};

pub(crate) use failure::{EXIT_CODES, Ended, Failure, USAGE};
pub(crate) use lead::guardian::Inner;
pub(crate) use reach::{DEFAULT_SERVER, did_you_mean};

/// Leader election and competing consumers, together, on one durable log.
#[derive(Debug, Parser)]
#[command(name = "bellwether", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    #[command(subcommand)]
    Queue(queue::Queue),
    Send(send::Send),
    Receive(receive::Receive),
    Peek(peek::Peek),
    #[command(subcommand)]
    Message(message::Message),
    #[command(subcommand)]
    DeadLetter(dead_letter::DeadLetter),
    #[command(subcommand)]
    Session(session::Session),
    #[command(subcommand)]
    Job(job::Job),
    #[command(subcommand)]
    Schedule(schedule::Schedule),
    #[command(subcommand)]
    Lease(lease::Lease),
    #[command(subcommand)]
    Election(election::Election),
    Lead(lead::Lead),
    Engines(engines::Engines),
    #[command(subcommand)]
    Member(member::Member),
    Stats(stats::Stats),
    Top(top::Top),
    Export(export::Export),
    Import(import::Import),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Doctor(doctor::Doctor),
    Bench(bench::Bench),
    #[command(subcommand)]
    Journal(journal::Journal),
    #[command(subcommand)]
    Key(key::Key),
    Completions(completions::Completions),
}

impl Cli {
    /// Runs the command; what it has to say goes to `out`.
    pub(crate) fn run(&self, out: &mut dyn Write) -> Ended {
        match &self.command {
            Command::Serve(serve) => serve.run(out),
            Command::Queue(queue) => queue.run(out),
            Command::Send(send) => send.run(out),
            Command::Receive(receive) => receive.run(out),
            Command::Peek(peek) => peek.run(out),
            Command::Message(message) => message.run(out),
            Command::DeadLetter(dead_letter) => dead_letter.run(out),
            Command::Session(session) => session.run(out),
            Command::Job(job) => job.run(out),
            Command::Schedule(schedule) => schedule.run(out),
            Command::Lease(lease) => lease.run(out),
            Command::Election(election) => election.run(out),
            Command::Lead(lead) => lead.run(),
            Command::Engines(engines) => engines.run(out),
            Command::Member(member) => member.run(out),
            Command::Stats(stats) => stats.run(out),
            Command::Top(top) => top.run(out),
            Command::Export(export) => export.run(out),
            Command::Import(import) => import.run(out),
            Command::Backup(backup) => backup.run(out),
            Command::Restore(restore) => restore.run(out),
            Command::Doctor(doctor) => doctor.run(out),
            Command::Bench(bench) => bench.run(out),
            Command::Journal(journal) => journal.run(out),
            Command::Key(key) => key.run(out),
            Command::Completions(completions) => completions.run(out),
        }
    }
}

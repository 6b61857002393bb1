//! Schedules by hand and at random, played on the base without clients and times.

mod random;
mod schedules;

use super::*;
use crate::cycles::{Cycles, cycles};

/// A schedule that was played.
struct Played {
    /// How each transaction ended, in the order in which they did: c1 (commit), or w2 (wait depth), t2 (temporal skew),
    /// x2 (certifier), s2 (safe snapshot), o2 (collision).
    ends: String,
    cycles: Cycles,
}

/// A transaction of a schedule.
struct Player {
    slot: Slot,
    ended: bool,
    waits: bool,
    /// Steps that came while it waited, in front of them the one that waits.
    later: Vec<(char, u32)>,
}

/// Plays a schedule: `r1A` and `w1A` are accesses of transaction 1 to record A, `c1` its commit; `b1` its begin, if
/// that comes before its first access; `q1` its begin in the last safe snapshot; `s` takes one. The steps of a
/// transaction that waits come after its wait. Steps of a transaction that has aborted are left out.
fn play<C: Control>(schedule: &str) -> Played {
    let mut world = World::<C>::new(26, true);
    let mut players: Vec<Option<Player>> = (0..10).map(|_| None).collect();
    let mut ends = Vec::new();
    for step in schedule.split_whitespace() {
        let mut letters = step.chars();
        let what = letters.next().unwrap();
        let Some(number) = letters.next().and_then(|digit| digit.to_digit(10)) else {
            world.take_safe_snapshot();
            continue;
        };
        let record = letters.next().map_or(0, |letter| letter as u32 - 'A' as u32);
        let player = players[number as usize].get_or_insert_with(|| Player {
            slot: {
                let slot = if what == 'q' { world.begin_in_safe_snapshot() } else { world.begin() };
                assert_eq!(world.enter(slot, &[]), Progress::Done);
                slot
            },
            ended: false,
            waits: false,
            later: Vec::new(),
        });
        if matches!(what, 'b' | 'q') || player.ended {
            continue;
        }
        player.later.push((what, record));
        if !player.waits {
            go_on(&mut world, &mut players, number as usize, &mut ends);
        }
    }
    let history = world.into_history().unwrap();
    Played { ends: ends.join(" "), cycles: cycles(&history) }
}

/// Takes the steps of a transaction, and those of the transactions that waited for it.
fn go_on<C: Control>(world: &mut World<C>, players: &mut [Option<Player>], number: usize, ends: &mut Vec<String>) {
    let player = players[number].as_mut().unwrap();
    player.waits = false;
    while let Some(&(what, record)) = player.later.first() {
        let (slot, record) = (player.slot, RecordId(record));
        let progress = match what {
            'r' => world.read(slot, record),
            'w' => world.write(slot, record),
            _ => world.commit(slot),
        };
        let end = match progress {
            Progress::Waits => {
                player.waits = true;
                return;
            }
            Progress::Done if what != 'c' => {
                player.later.remove(0);
                continue;
            }
            Progress::Done => 'c',
            Progress::Aborted(Cause::WaitDepth) => 'w',
            Progress::Aborted(Cause::TemporalSkew) => 't',
            Progress::Aborted(Cause::Certifier) => 'x',
            Progress::Aborted(Cause::SafeSnapshot) => 's',
            Progress::Aborted(Cause::Collision) => 'o',
        };
        player.ended = true;
        player.later.clear();
        ends.push(format!("{end}{number}"));
        let woken: Vec<Slot> = world.woken().collect();
        for slot in woken {
            let of_slot = |player: &Option<Player>| player.as_ref().is_some_and(|it| it.slot == slot && !it.ended);
            let waiter = players.iter().position(of_slot).unwrap();
            go_on(world, players, waiter, ends);
        }
        return;
    }
}

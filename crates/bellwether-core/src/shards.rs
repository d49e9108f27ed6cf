//! Who leads which shard: the same members give everybody the same answer.
//!
//! Every pair of member and shard has a score that depends on nothing else. A shard goes to the
//! member with the best score that has room, and a member has room for its share by weight, to the
//! last shard. So the load is even, and when a member comes or goes most shards stay where they are.

use crate::chance::Chance;
use crate::name::MemberId;

/// The largest weight; a share is `weight` of the sum of all.
pub const WEIGHT_MAX: u32 = 1_000;

/// Where one shard belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who leads it.
    pub leader: MemberId,
    /// Who waits for it, to follow at once; `None` if there is nobody else.
    pub standby: Option<MemberId>,
}

/// Spreads `count` shards over the members, each with its weight. Empty if there is nobody with a
/// weight. The order in which members are given does not matter; each is given once.
pub fn spread(count: u32, members: &[(MemberId, u32)]) -> Vec<Place> {
    let mut members: Vec<(MemberId, u32)> =
        members.iter().copied().filter(|(_, weight)| *weight > 0).collect();
    members.sort_unstable();
    let mut room = shares(count, &members);
    let mut places = Vec::with_capacity(if members.is_empty() { 0 } else { count as usize });
    for shard in 0..count {
        let mut ranked: Vec<usize> = (0..members.len()).collect();
        ranked.sort_unstable_by_key(|who| std::cmp::Reverse((score(members[*who].0, shard), *who)));
        // The shares add up to the count, so there is room for every shard.
        let Some(leader) = ranked.iter().copied().find(|who| room[*who] > 0) else { break };
        room[leader] -= 1;
        let standby = ranked.iter().copied().find(|who| *who != leader);
        let id = |who: usize| members[who].0;
        places.push(Place { leader: id(leader), standby: standby.map(id) });
    }
    places
}

/// How many each gets: its part rounded down, and one more for those with the largest rest.
fn shares(count: u32, members: &[(MemberId, u32)]) -> Vec<u32> {
    let sum: u64 = members.iter().map(|(_, weight)| u64::from(*weight)).sum();
    if sum == 0 {
        return Vec::new();
    }
    let part = |weight: u32| u64::from(count) * u64::from(weight);
    let mut shares: Vec<u32> =
        members.iter().map(|(_, weight)| (part(*weight) / sum) as u32).collect();
    let mut rests: Vec<usize> = (0..members.len()).collect();
    rests.sort_by_key(|who| std::cmp::Reverse(part(members[*who].1) % sum));
    let left = count - shares.iter().sum::<u32>();
    for who in rests.into_iter().take(left as usize) {
        shares[who] += 1;
    }
    shares
}

fn score(member: MemberId, shard: u32) -> u64 {
    let high = Chance::new((member.0 >> 64) as u64).bits();
    let low = Chance::new(member.0 as u64 ^ high).bits();
    Chance::new(low ^ u64::from(shard).wrapping_mul(0x9e37_79b9_7f4a_7c15)).bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(count: u128) -> Vec<(MemberId, u32)> {
        (1..=count).map(|id| (MemberId(id << 64 | id), 1)).collect()
    }

    fn led_by(places: &[Place], member: MemberId) -> usize {
        places.iter().filter(|place| place.leader == member).count()
    }

    #[test]
    fn nobody_leads_nothing_and_one_leads_all() {
        assert_eq!(spread(4, &[]), []);
        assert_eq!(spread(4, &[(MemberId(1), 0)]), []);
        let alone = spread(4, &[(MemberId(1), 3)]);
        assert_eq!(alone, vec![Place { leader: MemberId(1), standby: None }; 4]);
    }

    #[test]
    fn the_load_is_even_to_one_shard_and_follows_the_weight() {
        for count in [1, 2, 3, 7, 16] {
            let members = members(count);
            let places = spread(256, &members);
            let loads: Vec<usize> = members.iter().map(|(id, _)| led_by(&places, *id)).collect();
            assert_eq!(loads.iter().sum::<usize>(), 256);
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= 1, "{loads:?}");
        }
        let weighted = [(MemberId(1), 1), (MemberId(2), 2), (MemberId(3), 5)];
        let places = spread(256, &weighted);
        assert_eq!(weighted.map(|(id, _)| led_by(&places, id)), [32, 64, 160]);
    }

    #[test]
    fn everybody_comes_to_the_same_answer() {
        let mut members = members(5);
        let places = spread(64, &members);
        members.reverse();
        assert_eq!(spread(64, &members), places);
        for place in places {
            assert!(place.standby.is_some_and(|standby| standby != place.leader));
        }
    }

    #[test]
    fn most_shards_stay_when_a_member_comes() {
        for count in 2..=12 {
            let before = spread(1_024, &members(count));
            let after = spread(1_024, &members(count + 1));
            let moved = before.iter().zip(&after).filter(|(a, b)| a.leader != b.leader).count();
            let must = 1_024 / (count as usize + 1);
            assert!(moved <= 2 * must, "{count} members: {moved} moved where {must} must");
        }
    }
}

use super::*;
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy;

fn balance(per_step: u32, window_packs: u32, within: Within) -> Balance {
    let cost = Cost { token: 1, ..Cost::default() };
    Balance { cost, per_step, window_packs, within, seed: 3, epoch: 1 }
}

fn withins() -> impl Strategy<Value = Within> {
    prop_oneof![Just(Within::Mixed), Just(Within::Alike)]
}

/// The order of a window as the specification defines it, band by band.
fn by_definition(balance: Balance, window: u64, costs: &[u64]) -> Vec<u32> {
    let key = |place: u64| {
        Permutation::new(1 << 62, balance.seed, balance.epoch, Purpose::Balance { window })
            .at(place)
            .unwrap()
    };
    let second = |place: usize| key((1 << 32) + place as u64);
    let mut dearest: Vec<usize> = (0..costs.len()).collect();
    dearest.sort_by(|a, b| costs[*b].cmp(&costs[*a]).then(a.cmp(b)));
    let b = balance.per_step as usize;
    let groups = costs.len() / b;
    let place = |group: usize| (0..groups).filter(|g| key(*g as u64) < key(group as u64)).count();
    let mut order = Vec::new();
    for group in 0..groups {
        let p = place(group);
        let mut packs: Vec<(u64, usize)> = match balance.within {
            Within::Alike => {
                dearest[p * b..(p + 1) * b].iter().enumerate().map(|(i, pack)| (i, *pack)).collect()
            }
            Within::Mixed => dearest[..groups * b]
                .chunks(groups)
                .enumerate()
                .map(|(i, band)| (i, band[if i % 2 == 0 { p } else { groups - 1 - p }]))
                .collect::<Vec<(usize, usize)>>(),
        }
        .into_iter()
        .map(|(i, pack)| (second(group * b + i), pack))
        .collect();
        packs.sort_unstable();
        order.extend(packs.into_iter().map(|(_, pack)| u32::try_from(pack).unwrap()));
    }
    let mut rest: Vec<(u64, usize)> =
        (groups * b..costs.len()).map(|place| (second(place), dearest[place])).collect();
    rest.sort_unstable();
    order.extend(rest.into_iter().map(|(_, pack)| u32::try_from(pack).unwrap()));
    order
}

proptest! {
    #[test]
    fn order_of_a_window_is_the_defined_one(
        costs in prop::collection::vec(prop_oneof![0u64..30, u64::MAX - 30..=u64::MAX], 0..60),
        per_step in 1u32..9, within in withins(), window in 0u64..4,
    ) {
        let balance = balance(per_step, 64, within);
        let order = balance.aligned(window, &costs);
        prop_assert_eq!(&order, &by_definition(balance, window, &costs));
        let mut packs = order;
        packs.sort_unstable();
        prop_assert!(packs.into_iter().eq(0..u32::try_from(costs.len()).unwrap()));
    }

    #[test]
    fn packs_of_equal_rank_come_at_the_same_place_in_all_lanes(
        lanes in prop::collection::vec(prop::collection::vec(0u64..1_000_000, 40), 2..4),
        per_step in 1u32..9, within in withins(),
    ) {
        let balance = balance(per_step, 64, within);
        let rank_at = |costs: &Vec<u64>| -> Vec<usize> {
            let rank = |pack: u32| {
                let own = (!costs[pack as usize], pack);
                (0..).zip(costs).filter(|(other, cost)| (!**cost, *other) < own).count()
            };
            balance.aligned(7, costs).into_iter().map(rank).collect()
        };
        let first = rank_at(&lanes[0]);
        prop_assert!(lanes.iter().all(|costs| rank_at(costs) == first));
    }

    #[test]
    fn mixed_groups_have_one_pack_of_each_band(
        costs in prop::collection::vec(0u64..1_000, 48),
        per_step in 2u32..9,
    ) {
        let order = balance(per_step, 48, Within::Mixed).aligned(0, &costs);
        let mut dearest: Vec<u32> = (0..48).collect();
        dearest.sort_by_key(|pack| (!costs[*pack as usize], *pack));
        let groups = costs.len() / per_step as usize;
        let band = |pack: &u32| dearest.iter().position(|other| other == pack).unwrap() / groups;
        for group in order.chunks_exact(per_step as usize).take(groups) {
            let mut bands: Vec<usize> = group.iter().map(band).collect();
            bands.sort_unstable();
            prop_assert!(bands.into_iter().eq(0..per_step as usize));
        }
    }

    #[test]
    fn cost_is_that_of_the_sums(
        documents in prop::collection::vec(1u32..50, 0..8), room in 0u32..50,
        window in prop::option::of(1u32..40), counts_padding: bool,
    ) {
        let cost = Cost { token: 5, pair: 3, window_pair: 2, window, counts_padding, ..Cost::default() };
        let length = documents.iter().sum::<u32>() + room;
        let mut all: Vec<u64> = documents.iter().map(|tokens| u64::from(*tokens)).collect();
        all.extend(counts_padding.then_some(u64::from(room)));
        let nearest = |tokens: u64| window.map_or(tokens, |window| tokens.min(window.into()));
        let near = |tokens: &u64| tokens * nearest(*tokens);
        let expected = 5 * all.iter().sum::<u64>()
            + 3 * all.iter().map(|tokens| tokens * tokens).sum::<u64>()
            + 2 * all.iter().map(near).sum::<u64>();
        prop_assert_eq!(cost.of_pack(length, documents.into_iter()), expected);
    }

    #[test]
    fn windows_of_endless_lanes_follow_one_another(
        per_step in 1u32..40,
        more in 0u32..60,
        pack in 0u64..600,
    ) {
        let balance = balance(per_step, per_step + more, Within::Mixed);
        let (number, packs) = balance.window_ahead(pack);
        prop_assert!(packs.contains(&pack));
        let all = u64::from(balance.window_packs);
        prop_assert!(packs.end - packs.start <= all);
        if number < 3 {
            prop_assert_eq!((packs.end - packs.start) % u64::from(per_step), 0);
        } else {
            prop_assert_eq!(packs.end - packs.start, all);
        }
        let before = packs.start.checked_sub(1).map(|pack| balance.window_ahead(pack).0);
        prop_assert_eq!(number, before.map_or(0, |before| before + 1));
    }
}

#[test]
fn first_windows_of_endless_lanes_are_short() {
    let balance = balance(4, 256, Within::Mixed);
    let starts = |packs: [u64; 5]| packs.map(|pack| balance.window_ahead(pack).1);
    assert_eq!(starts([0, 16, 80, 208, 464]), [0..16, 16..80, 80..208, 208..464, 464..720]);
}

#[test]
fn dear_packs_saturate() {
    let cost = Cost { token: u64::MAX, pair: u64::MAX, ..Cost::default() };
    assert_eq!(cost.of_pack(8, [3, 5].into_iter()), u64::MAX);
}

/// This order must never change: a run continues in it. It was computed by a second
/// implementation, in Python.
#[test]
fn order_is_pinned() {
    let costs: Vec<u64> = (0..13).map(|pack| pack * 7 % 13).collect();
    let of = |per_step, within| balance(per_step, 13, within).aligned(2, &costs);
    assert_eq!(of(1, Within::Mixed), PINNED[0]);
    assert_eq!(of(3, Within::Mixed), PINNED[1]);
    assert_eq!(of(3, Within::Alike), PINNED[2]);
}

const PINNED: [[u32; 13]; 3] = [
    [0, 7, 11, 10, 2, 3, 1, 4, 9, 5, 6, 12, 8],
    [3, 5, 2, 9, 12, 6, 8, 10, 11, 7, 4, 1, 0],
    [4, 6, 2, 5, 3, 1, 7, 9, 11, 12, 8, 10, 0],
];

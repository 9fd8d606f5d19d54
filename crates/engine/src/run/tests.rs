use super::*;
use proptest::prelude::*;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_split_is_delivered_once_and_in_order(splits in 0usize..200, workers in 1usize..9) {
        let run = run_in_order(splits, workers, &Cancel::default(), Continue).unwrap();
        let delivered: Vec<usize> = run.map(|result| result.unwrap()).collect();
        prop_assert_eq!(delivered, (0..splits).collect::<Vec<_>>());
    }
}

/// The outcome of one split in a generated run.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Done,
    Slow,
    Panic,
    Break,
    /// Stops the run from outside.
    Cancel,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Done),
        4 => Just(Fate::Slow),
        2 => Just(Fate::Panic),
        1 => Just(Fate::Break),
        1 => Just(Fate::Cancel),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn delivery_is_a_prefix_in_order_whatever_happens(
        fates in prop::collection::vec(fate(), 0..60),
        workers in 1usize..9,
        consumer_pause_us in 0u64..300,
        walks_away_after in prop::option::of(0usize..60),
    ) {
        let cancel = Cancel::default();
        let (splits, is_cancelled_within) =
            (fates.len(), fates.iter().any(|fate| matches!(fate, Fate::Cancel)));
        let first_break = fates.iter().position(|fate| matches!(fate, Fate::Break));
        let expected = fates.clone();
        let stop = cancel.clone();
        let running = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&running);
        let mut run = run_in_order(splits, workers, &cancel, move |split| {
            count.fetch_add(1, Ordering::SeqCst);
            let fate = fates[split];
            if matches!(fate, Fate::Slow) {
                std::thread::sleep(Duration::from_micros(400));
            }
            if matches!(fate, Fate::Cancel) {
                stop.cancel();
            }
            count.fetch_sub(1, Ordering::SeqCst);
            assert!(!matches!(fate, Fate::Panic), "fated");
            if matches!(fate, Fate::Break) { Break(split) } else { Continue(split) }
        })
        .unwrap();
        let mut delivered = 0;
        let start = Instant::now();
        while walks_away_after != Some(delivered) {
            prop_assert!(start.elapsed() < Duration::from_secs(60), "the run hangs");
            match run.poll(Duration::from_millis(20)) {
                Poll::Pending => continue,
                Poll::Finished => break,
                Poll::Ready(Ok(split)) => {
                    prop_assert_eq!(split, delivered);
                    prop_assert!(!matches!(expected[split], Fate::Panic));
                }
                Poll::Ready(Err(Error::Panicked { split, .. })) => {
                    prop_assert_eq!(split, delivered);
                    prop_assert!(matches!(expected[split], Fate::Panic));
                }
                Poll::Ready(Err(error)) => {
                    prop_assert!(matches!(error, Error::Cancelled));
                    prop_assert!(
                        is_cancelled_within || first_break.is_some_and(|split| split < delivered)
                    );
                    prop_assert!(matches!(run.poll(Duration::ZERO), Poll::Finished));
                    break;
                }
            }
            delivered += 1;
            std::thread::sleep(Duration::from_micros(consumer_pause_us));
        }
        if walks_away_after.is_none() && !is_cancelled_within {
            // Nothing before a break is lost.
            prop_assert!(first_break.map_or(delivered == splits, |split| delivered > split));
        }
        prop_assert!(run.stop(Duration::from_secs(60)), "a worker hangs");
        prop_assert_eq!(running.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn stopped_run_waits_for_work_in_progress_and_no_longer_than_it_may() {
    let is_done = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&is_done);
    let (begun, begins) = crossbeam_channel::unbounded();
    let (gate, passage) = bounded::<()>(0);
    let held = move |_| {
        begun.send(()).unwrap();
        // Ends when the gate is dropped.
        let _nothing_is_sent = passage.recv();
        Continue(counter.fetch_add(1, Ordering::SeqCst))
    };
    let mut run = run_in_order(100, 2, &Cancel::default(), held).unwrap();
    (0..2).for_each(|_| begins.recv().unwrap());
    assert!(!run.stop(Duration::from_millis(5)));
    drop(gate);
    assert!(run.stop(Duration::from_secs(60)));
    assert_eq!(is_done.load(Ordering::SeqCst), 2);
}

#[test]
fn error_of_the_first_split_leaves_no_slot_taken() {
    let slots = crate::CoreSlots::new(2);
    let shared = slots.clone();
    let cancel = Cancel::default();
    let stop = cancel.clone();
    let work = move |split: usize| {
        let result =
            shared.acquire(&stop).and(if split == 0 { Err(Error::Cancelled) } else { Ok(split) });
        if result.is_err() { Break(result) } else { Continue(result) }
    };
    let results: Vec<_> = run_in_order(50, 4, &cancel, work).unwrap().collect();
    assert!(matches!(results.first(), Some(Ok(Err(Error::Cancelled)))));
    assert!(results.len() < 50);
    let all = [slots.acquire(&cancel).unwrap(), slots.acquire(&cancel).unwrap()];
    drop(all);
}

#[test]
fn panic_of_one_split_is_an_error_in_its_place_and_the_rest_goes_on() {
    let run = run_in_order(5, 2, &Cancel::default(), |split| {
        assert_ne!(split, 2, "two is bad");
        Continue(split)
    })
    .unwrap();
    let results: Vec<bool> = run.map(|result| result.is_ok()).collect();
    assert_eq!(results, [true, true, false, true, true]);
}

#[test]
fn workers_run_ahead_of_a_slow_consumer_by_exactly_the_window() {
    const SPLITS: usize = 100;
    const WORKERS: usize = 2;
    const WINDOW: usize = 2 * WORKERS;
    let requested = Arc::new(AtomicUsize::new(0));
    let bound = Arc::clone(&requested);
    let (started, starts) = crossbeam_channel::unbounded();
    let work = move |split| {
        started.send(()).unwrap();
        assert!(split < bound.load(Ordering::SeqCst) + WINDOW, "split {split} is past the window");
        Continue(())
    };
    let mut run = run_in_order(SPLITS, WORKERS, &Cancel::default(), work).unwrap();
    let wait_for_start = || {
        starts
            .recv_timeout(Duration::from_secs(60))
            .expect("a worker waits before the end of the window");
    };
    (1..WINDOW).for_each(|_| wait_for_start());
    for taken in 0..=SPLITS - WINDOW {
        wait_for_start();
        requested.store(taken + 1, Ordering::SeqCst);
        run.next().unwrap().unwrap();
    }
    assert!(run.all(|result| result.is_ok()));
}

#[test]
fn dropped_run_stops_its_workers() {
    let cancel = Cancel::default();
    let mut run = run_in_order(1000, 2, &cancel, Continue).unwrap();
    assert!(run.next().is_some());
    drop(run);
    assert!(cancel.is_cancelled());
}

#[test]
fn cancelled_run_ends_with_cancelled() {
    let cancel = Cancel::default();
    cancel.cancel();
    let results: Vec<_> = run_in_order(10, 2, &cancel, Continue).unwrap().collect();
    assert!(matches!(results.last(), Some(Err(Error::Cancelled))));
}

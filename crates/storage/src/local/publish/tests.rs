use super::*;

type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

fn target(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).display().to_string()
}

#[test]
fn unpublished_file_leaves_nothing() -> TestResult {
    let directory = tempfile::tempdir()?;
    let mut staged = LocalStaged::create(&target(&directory, "out.tar"), &Unpublished::default())?;
    staged.write_all(b"half")?;
    drop(staged);
    assert_eq!(fs::read_dir(directory.path())?.count(), 0);
    Ok(())
}

#[test]
fn published_file_is_whole_and_alone() -> TestResult {
    let directory = tempfile::tempdir()?;
    let path = target(&directory, "out.tar");
    let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
    staged.write_all(b"whole")?;
    assert!(!Path::new(&path).exists());
    staged.publish(Replace::Never)?;
    assert_eq!(fs::read(&path)?, b"whole");
    assert_eq!(fs::read_dir(directory.path())?.count(), 1);
    Ok(())
}

#[test]
fn taken_name_is_refused_and_kept() -> TestResult {
    let directory = tempfile::tempdir()?;
    let path = target(&directory, "out.tar");
    fs::write(&path, b"first")?;
    let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
    staged.write_all(b"second")?;
    let error = staged.publish(Replace::Never).unwrap_err();
    assert!(matches!(error, Error::AlreadyExists { .. }));
    assert_eq!(fs::read(&path)?, b"first");
    Ok(())
}

/// Exercises the fallback for a rename that cannot refuse to replace.
#[test]
fn link_into_place_publishes_and_refuses_a_taken_name() -> TestResult {
    let directory = tempfile::tempdir()?;
    let (staging, target) = (directory.path().join("staging"), directory.path().join("target"));
    fs::write(&staging, b"first")?;
    link_into_place(&staging, &target)?;
    assert_eq!((fs::read(&target)?, staging.exists()), (b"first".to_vec(), false));
    fs::write(&staging, b"second")?;
    assert_eq!(
        link_into_place(&staging, &target).unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    assert_eq!(fs::read(&target)?, b"first");
    Ok(())
}

#[test]
fn one_of_many_writers_gets_the_name() -> TestResult {
    let directory = tempfile::tempdir()?;
    let path = target(&directory, "out.tar");
    let writers: Vec<_> = (0..8u8)
        .map(|writer| {
            let path = path.clone();
            std::thread::spawn(move || -> Result<u8> {
                let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
                staged.write_all(&[writer; 100]).map_err(|source| Error::Write { path, source })?;
                staged.publish(Replace::Never).map(|()| writer)
            })
        })
        .collect();
    let results: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    let winners: Vec<u8> =
        results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
    assert_eq!(winners.len(), 1);
    assert!(
        results
            .iter()
            .filter_map(|result| result.as_ref().err())
            .all(|error| matches!(error, Error::AlreadyExists { .. }))
    );
    assert_eq!(fs::read(&path)?, [winners[0]; 100]);
    assert_eq!(fs::read_dir(directory.path())?.count(), 1);
    Ok(())
}

#[test]
fn replaced_file_is_never_seen_in_part() -> TestResult {
    let directory = tempfile::tempdir()?;
    let path = target(&directory, "out.tar");
    fs::write(&path, [0u8; 4096])?;
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            (0..2000).all(|_| {
                fs::read(&path).is_ok_and(|bytes| {
                    bytes.len() == 4096 && bytes.iter().all(|byte| *byte == bytes[0])
                })
            })
        }
    });
    for version in 1..100u8 {
        let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
        staged.write_all(&[version; 4096])?;
        staged.publish(Replace::Atomically)?;
    }
    assert!(matches!(reader.join(), Ok(true)));
    Ok(())
}

/// A clean-up that runs all the time must not remove a file that was just created.
#[test]
fn clean_up_never_takes_the_file_of_a_living_writer() -> TestResult {
    let directory = tempfile::tempdir()?;
    let path = directory.path().display().to_string();
    let is_done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let cleaner = std::thread::spawn({
        let is_done = std::sync::Arc::clone(&is_done);
        move || {
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let _count = remove_stale_staging(&path);
            }
        }
    });
    for number in 0..300 {
        let mut staged = Box::new(LocalStaged::create(
            &target(&directory, &format!("{number}.tar")),
            &Unpublished::default(),
        )?);
        staged.write_all(b"whole")?;
        staged.publish(Replace::Never)?;
    }
    is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(cleaner.join().is_ok());
    assert_eq!(fs::read_dir(directory.path())?.count(), 300);
    Ok(())
}

/// Between the creation of a file and its lock, a clean-up may inspect it.
#[test]
fn new_file_that_a_clean_up_saw_first_is_given_up() -> TestResult {
    let directory = tempfile::tempdir()?;
    let staging = directory.path().join("staging");
    let make = || OpenOptions::new().write(true).create_new(true).open(&staging);
    assert!(is_ours(&make()?, &staging)?);
    fs::remove_file(&staging)?;

    let ours = make()?;
    let cleaner = File::open(&staging)?;
    cleaner.try_lock()?;
    assert!(!is_ours(&ours, &staging)?, "the clean-up holds the lock and is about to remove it");
    assert!(!staging.exists());

    let ours = make()?;
    fs::remove_file(&staging)?;
    assert!(!is_ours(&ours, &staging)?, "the clean-up has removed it");
    Ok(())
}

#[test]
fn directory_below_a_file_is_an_error_that_names_the_target() -> TestResult {
    let directory = tempfile::tempdir()?;
    fs::write(directory.path().join("file"), b"x")?;
    let path = target(&directory, "file/out/part.tar");
    let error = LocalStaged::create(&path, &Unpublished::default()).unwrap_err();
    assert!(matches!(&error, Error::Stage { path: named, .. } if *named == path));
    assert_eq!(error.io_kind(), Some(io::ErrorKind::NotADirectory));
    Ok(())
}

#[test]
fn missing_directories_are_made_and_relative_ones_as_well() -> TestResult {
    let directory = tempfile::tempdir()?;
    create_directory(&directory.path().join("a/b/c"))?;
    assert!(directory.path().join("a/b/c").is_dir());
    create_directory(Path::new(""))?;
    create_directory(Path::new("."))?;
    Ok(())
}

#[test]
fn staging_of_a_living_writer_survives_the_clean_up_and_that_of_a_dead_one_does_not() -> TestResult
{
    let directory = tempfile::tempdir()?;
    let alive = LocalStaged::create(&target(&directory, "a.tar"), &Unpublished::default())?;
    fs::write(
        directory.path().join(format!("{PREFIX}{}{SUFFIX}", "0".repeat(32))),
        b"left behind",
    )?;
    assert_eq!(remove_stale_staging(&directory.path().display().to_string()), 1);
    assert!(alive.staging.exists());
    Ok(())
}

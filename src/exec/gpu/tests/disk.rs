//! Pipelines on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::*;

/// A folder of its own, gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("onetrip-archive-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    async fn open(&self) -> Option<Gpu> {
        let choice = AdapterChoice::best(None, true);
        let store = Arc::new(Store::new(self.0.clone()));
        found(Gpu::open(&choice, Some(store), ()).await)
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles, runs and closes; whether the device keeps pipelines at all.
async fn use_once(gpu: Gpu) -> bool {
    let program = adder(&gpu, 100, 3);
    let run = gpu.run(adder_inputs(&program, &[7; 100])).await.unwrap();
    assert_eq!(run.read::<u32>(0), [10; 100]);
    assert_eq!(program.1.compiled, 1, "whether it was kept or not");
    gpu.device.has(wgpu::Features::PIPELINE_CACHE)
}

fn set_age(path: &Path, age: Duration) -> SystemTime {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
    fs::metadata(path).unwrap().modified().unwrap()
}

#[tokio::test]
async fn pipelines_are_kept_once_and_found_again() {
    let folder = Folder::new("kept");
    let Some(gpu) = folder.open().await else { return };
    assert_eq!(folder.files().len(), 0, "nothing is written before something is compiled");
    if !use_once(gpu).await {
        assert_eq!(folder.files().len(), 0);
        return;
    }
    let [file] = &folder.files()[..] else { panic!("{:?}", folder.files()) };
    let before = set_age(file, Duration::from_secs(60));
    use_once(folder.open().await.unwrap()).await;
    assert_eq!(folder.files().len(), 1);
    let after = fs::metadata(file).unwrap().modified().unwrap();
    assert_eq!(before, after, "what was found is not written again");
}

#[tokio::test]
async fn damaged_and_strange_files_are_as_good_as_none() {
    let folder = Folder::new("damaged");
    let Some(gpu) = folder.open().await else { return };
    if !use_once(gpu).await {
        return;
    }
    let [file] = &folder.files()[..] else { panic!("{:?}", folder.files()) };
    let whole = fs::read(file).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&flipped[..], &whole[..whole.len() - 1], b""] {
        fs::write(file, damaged).unwrap();
        use_once(folder.open().await.unwrap()).await;
        // A driver need not compile a kernel to the same bytes each time.
        let anew = fs::read(file).unwrap();
        assert!(anew != damaged && anew.len() > whole.len() / 2, "written anew");
    }
}

#[tokio::test]
async fn without_a_folder_to_write_to_everything_runs() {
    let folder = Folder::new("file");
    fs::write(&folder.0, "a file in its place").unwrap();
    let Some(gpu) = folder.open().await else { return };
    use_once(gpu).await;
    assert_eq!(fs::read(&folder.0).unwrap(), b"a file in its place");
    fs::remove_file(&folder.0).unwrap();
}

//! Files that were changed after they were saved: checksums tell, and the message says what differs and what to do.

use std::collections::HashMap;

use onetrip::{DataError, Device, Error, GpuCommandBatch, LoadOptions, Program, Result, Weights};
use safetensors::SafeTensors;
use serde_json::Value;

use super::{decoder, numbers};

const CURE: &str = "after the program was saved: the checksum differs; copy the file again, or save the program again";

/// The file with a document that `change` has changed, as another tool would write it.
pub fn rewritten(bytes: &[u8], change: impl FnOnce(&mut Value)) -> Vec<u8> {
    let (_, table) = SafeTensors::read_metadata(bytes).expect("a file");
    let mut info: HashMap<_, _> = table.metadata().clone().expect("a document");
    let mut document = serde_json::from_str(&info["onetrip"]).expect("JSON");
    change(&mut document);
    info.insert("onetrip".to_owned(), document.to_string());
    let tensors = SafeTensors::deserialize(bytes).expect("a file").tensors();
    safetensors::serialize(tensors, Some(info)).expect("a file")
}

/// The file without its checksums, as the first version of the crate wrote it.
pub fn without_checksums(bytes: &[u8]) -> Vec<u8> {
    rewritten(bytes, |document| {
        let document = document.as_object_mut().expect("an object");
        for key in ["tensor_checksums", "tensor_list_checksum", "checksum"] {
            assert!(document.remove(key).is_some(), "{key}");
        }
    })
}

fn load(bytes: &[u8]) -> Result<Program> {
    pollster::block_on(Program::load_bytes(&Device::cpu(), bytes.to_vec()))
}

/// The message of a load of the file with `from` replaced by `to`, of equal length, where it first stands.
fn refused(bytes: &[u8], from: &str, to: &str) -> String {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes());
    let mut changed = bytes.to_vec();
    changed[at.expect("a part of the file")..][..from.len()].copy_from_slice(to.as_bytes());
    let error = load(&changed).expect_err("a changed file");
    assert!(matches!(error, Error::Data(DataError::File { .. })), "{error:?}");
    error.to_string()
}

async fn layers() -> Result<Vec<u8>> {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let [v, w] = [5, 6].map(|seed| device.resident(&numbers(seed, 9), [3, 3]).expect("memory"));
    let x = batch.input::<f32>("x", [2, 3]).matmul(batch.bind(&v).named("v")).relu();
    x.matmul(batch.bind(&w).named("w")).named("y");
    batch.to_bytes().await
}

#[tokio::test]
async fn a_changed_bit_in_any_byte_is_noticed() -> Result<()> {
    for file in [layers().await?, decoder(&Device::cpu()).0.to_bytes().await?] {
        load(&file)?;
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1 << (at * 5 % 8);
            match load(&changed) {
                Err(Error::Data(DataError::File { .. })) => {}
                other => panic!("byte {at} of {}: {:?}", file.len(), other.err()),
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_changed_part_is_named() -> Result<()> {
    let file = layers().await?;
    let graph = format!("the file in memory: its graph was changed {CURE}");
    // All of these are sound programs.
    assert_eq!(refused(&file, "relu", "tanh"), graph);
    assert_eq!(refused(&file, "changed.rs:", "changes.rs:"), graph);
    let list = format!("the file in memory: its list of tensors was changed {CURE}");
    assert_eq!(refused(&file, "\"shape\":[3,3]", "\"shape\":[1,9]"), list);
    assert_eq!(refused(&file, "\"v\":{\"dtype\"", "\"u\":{\"dtype\""), list);
    let tensor = |name| format!("the file in memory: its tensor {name:?} was changed {CURE}");
    // Swapped byte ranges show as tensors with other bytes.
    let (v, w) = ("\"v\":{\"dtype\"", "\"w\":{\"dtype\"");
    let mut swapped = file.clone();
    for (from, to) in [(v, b'w'), (w, b'v')] {
        let at = file.windows(from.len()).position(|part| part == from.as_bytes());
        swapped[at.expect("a tensor") + 1] = to;
    }
    assert_eq!(load(&swapped).unwrap_err().to_string(), tensor("v"));
    let mut other = file.clone();
    *other.last_mut().expect("a byte") ^= 1;
    assert_eq!(load(&other).unwrap_err().to_string(), tensor("w"));
    // A tool that writes the document in another order.
    let error = load(&rewritten(&file, |_| ())).unwrap_err().to_string();
    assert_eq!(error, graph);
    Ok(())
}

/// Tensors of no bytes all lie at one offset, where the format has no order for them.
#[tokio::test]
async fn empty_tensors_are_in_no_order() -> Result<()> {
    let batch = GpuCommandBatch::new(&Device::cpu());
    batch.outputs(["a", "b", "c"].map(|name| batch.upload::<f32>(&[]).named(name).relu()));
    let file = batch.to_bytes().await?;
    (0..20).try_for_each(|_| load(&file).map(drop))
}

#[tokio::test]
async fn a_file_without_checksums_loads() -> Result<()> {
    let mut file = without_checksums(&layers().await?);
    load(&file)?;
    *file.last_mut().expect("a byte") ^= 1;
    load(&file)?;
    Ok(())
}

#[tokio::test]
async fn tensors_of_other_files_are_not_compared() -> Result<()> {
    let file = layers().await?;
    let mut other = without_checksums(&file);
    *other.last_mut().expect("a byte") ^= 1;
    let options =
        LoadOptions { weights: Some(Weights::from_bytes(other)?), ..LoadOptions::default() };
    Program::load_with(&Device::cpu(), &Weights::from_bytes(file)?, options).await?;
    Ok(())
}

/// A mapped file is read by the runs that need it: its graph alone is compared when it is loaded without a GPU.
#[tokio::test]
async fn of_a_mapped_file_the_graph_is_compared() -> Result<()> {
    let path =
        std::env::temp_dir().join(format!("onetrip-changed-{}.safetensors", std::process::id()));
    let load = async |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("a file");
        // SAFETY: the file is of this test alone.
        let file = unsafe { Weights::map(&path) }?;
        Program::load_with(&Device::cpu(), &file, LoadOptions::default()).await
    };
    let file = layers().await?;
    let mut tensor = file.clone();
    *tensor.last_mut().expect("a byte") ^= 1;
    load(&tensor).await?;
    // Numbers that are not aligned are copied, and so compared.
    let header = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) + 1;
    let mut unaligned = tensor.clone();
    unaligned.insert(header as usize + 7, b' ');
    unaligned[..8].copy_from_slice(&header.to_le_bytes());
    let error = load(&unaligned).await.unwrap_err().to_string();
    assert_eq!(error, format!("{}: its tensor \"w\" was changed {CURE}", path.display()));
    let at = file.windows(4).position(|part| part == b"relu").expect("an operation");
    let mut graph = file.clone();
    graph[at..at + 4].copy_from_slice(b"tanh");
    let error = load(&graph).await.unwrap_err().to_string();
    assert_eq!(error, format!("{}: its graph was changed {CURE}", path.display()));
    let error = Program::load(&Device::cpu(), &path).await.unwrap_err().to_string();
    assert!(error.contains("its graph was changed"), "{error}");
    std::fs::write(&path, tensor).expect("a file");
    let error = Program::load(&Device::cpu(), &path).await.unwrap_err().to_string();
    assert!(error.contains("its tensor \"w\" was changed"), "{error}");
    std::fs::remove_file(&path).expect("the file of this test");
    Ok(())
}

#[tokio::test]
async fn saving_twice_gives_one_file() -> Result<()> {
    let program = Program::load_bytes(&Device::cpu(), layers().await?).await?;
    assert_eq!(program.to_bytes().await?, program.to_bytes().await?);
    Ok(())
}

/// Each error says what to do.
#[tokio::test]
async fn damaged_files_are_told_with_a_cure() -> Result<()> {
    let file = layers().await?;
    let header = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    let of = |bytes: &[u8]| load(bytes).unwrap_err().to_string();
    let memory = "the file in memory:";
    assert_eq!(of(&[]), format!("{memory} it ends after 0 bytes; copy the file again"));
    assert_eq!(of(&file[..8]), format!("{memory} it ends after 8 bytes; copy the file again"));
    for len in [9, header, header + 8, file.len() - 1] {
        let cut = format!(
            "{memory} it has {len} bytes, not as many as its header says, so it was cut off or changed; copy the file again"
        );
        assert_eq!(of(&file[..len]), cut);
    }
    let other = format!(
        "{memory} it is not a safetensors file; make one of a program by `Program::save`, of a model by `safetensors.torch.save_file` in PyTorch"
    );
    assert_eq!(of(b"PK\x03\x04 a file of another format"), other);
    assert_eq!(of(b"<!DOCTYPE html><html></html>"), other);
    let mut broken = file.clone();
    broken[9] = b'?';
    let error = of(&broken);
    assert!(error.starts_with(&format!("{memory} its header is damaged: ")), "{error}");
    assert!(error.ends_with("; copy the file again"), "{error}");
    let no_graph = rewritten(&file, |document| *document = "a text".into());
    let error = of(&no_graph);
    assert!(error.starts_with(&format!("{memory} its graph cannot be read: ")), "{error}");
    assert!(error.ends_with("; copy the file again, or save the program again"), "{error}");
    Ok(())
}

//! The container: a safetensors file of a document and its tensors, with their checksums.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::TEXT;
use super::checksum::{crc32, of_table, sealed};
use super::document::Document;
use crate::base::dtype::DType;
use crate::exec::HostBuffer;
use crate::ops::Type;

/// The bytes of the header's length, of which the header's own length is a multiple.
const WORD: usize = 8;
/// The most bytes of a header that readers of the format take.
const MOST_HEADER: usize = 100_000_000;

/// A tensor of the file.
pub(super) struct FileTensor {
    pub ty: Type,
    pub data: Arc<HostBuffer>,
}

/// The bytes of a file.
pub(super) fn file(
    mut document: Document,
    tensors: &BTreeMap<String, FileTensor>,
) -> Result<Vec<u8>, SafeTensorError> {
    let mut tensors: Vec<_> = tensors.iter().collect();
    // The largest elements come first, so that each lies at a multiple of its size.
    tensors.sort_by_key(|(_, tensor)| Reverse(tensor.ty.dtype.size()));
    let mut len = 0;
    let infos = tensors.iter().map(|&(name, FileTensor { ty, data })| {
        let start = len;
        len += data.bytes().len();
        let info = TensorInfo {
            dtype: dtype(ty.dtype),
            shape: ty.shape.dims().to_vec(),
            data_offsets: (start, len),
        };
        (name.clone(), info)
    });
    let infos: Vec<_> = infos.collect();
    document.table_checksum = Some(of_table(&Metadata::new(None, infos.clone())?));
    let checksum =
        |&(name, tensor): &(&String, &FileTensor)| (name.clone(), crc32(tensor.data.bytes()));
    document.tensor_checksums = tensors.iter().map(checksum).collect();
    let text = sealed(serde_json::to_string(&document)?);
    let metadata = Metadata::new(Some(HashMap::from([(TEXT.to_owned(), text)])), infos)?;
    let mut header = serde_json::to_vec(&metadata)?;
    header.resize(header.len().next_multiple_of(WORD), b' ');
    if header.len() > MOST_HEADER {
        return Err(SafeTensorError::HeaderTooLarge);
    }
    let mut bytes = Vec::with_capacity(WORD + header.len() + len);
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header);
    tensors.iter().for_each(|(_, tensor)| bytes.extend_from_slice(tensor.data.bytes()));
    Ok(bytes)
}

fn dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::I32 => Dtype::I32,
        DType::U32 => Dtype::U32,
        DType::Bool => Dtype::BOOL,
    }
}

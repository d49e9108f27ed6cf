pub(crate) fn merge_overlays(_: &[u8], _: &[u8]) -> Option<bytes::Bytes> { None }
